//! Bad input: one clear sentence each, and nothing is computed.

use dlmrs::decode::{Canvas, Decoding};
use dlmrs::{Error, Request, SamplingParams};

use crate::common::{block, bundled, canvas, golden, params, request};

fn refused(llm: &std::sync::Arc<dlmrs::Llm>, request: Request, name: &str, says: &str) {
    match llm.engine().submit(request) {
        Err(Error::Input { name: found, message }) => {
            assert_eq!(found, name, "{message}");
            assert!(message.contains(says), "{name}: {message}");
        }
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("{name} was taken"),
    }
}

#[test]
fn prompts() {
    let llm = golden("sdar");
    refused(&llm, request(vec![], params(4)), "prompt", "is empty");
    refused(&llm, request(vec![1, 320], params(4)), "prompt", "holds the id 320, but the vocabulary has 320 entries");
    refused(&llm, request(vec![1; 1025], params(0)), "prompt", "has 1025 tokens");
    refused(&llm, request(vec![1; 4], params(usize::MAX)), "prompt", "the model takes at most 1024");
}

/// prompt + max_tokens one below, at and above the limit.
#[test]
fn the_longest_sequence() {
    let llm = golden("sdar");
    for length in [4, 32] {
        for (prompt, max_tokens, fits) in
            [(1015, 8, true), (1016, 8, true), (1017, 8, false), (1023, 1, true), (1024, 0, true), (1024, 1, false)]
        {
            let params = SamplingParams { ignore_eos: true, ..params(max_tokens) };
            let r = Request { decoding: block(length), ..request(vec![1; prompt], params) };
            match fits {
                true => assert_eq!(llm.generate(vec![r], |_, _| true).unwrap()[0].token_ids.len(), max_tokens, "B {length} {prompt}"),
                false => refused(&llm, r, "prompt", "the model takes at most 1024"),
            }
        }
    }
    let llada = golden("llada"); // 512
    let r = |n, m| Request { decoding: canvas(8), ..request(vec![1; n], SamplingParams { ignore_eos: true, ..params(m) }) };
    assert_eq!(llada.generate(vec![r(504, 8)], |_, _| true).unwrap()[0].token_ids.len(), 8);
    refused(&llada, r(505, 8), "prompt", "at most 512");
}

#[test]
fn values() {
    let llm = golden("sdar");
    let bad = |change: &dyn Fn(&mut SamplingParams)| {
        let mut p = params(4);
        change(&mut p);
        request(vec![1], p)
    };
    for value in [-1.0, 1e-40, 1e-7, f32::NAN, f32::INFINITY] {
        refused(&llm, bad(&|p| p.temperature = value), "temperature", "0 (greedy) or a number of at least 0.000001");
    }
    for value in [-0.1, 0.0, 1.1, f32::NAN] {
        refused(&llm, bad(&|p| p.top_p = value), "top_p", "above 0 and up to 1");
    }
    for value in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        refused(&llm, bad(&|p| p.repetition_penalty = value), "repetition_penalty", "above 0");
    }
    refused(&llm, bad(&|p| p.min_tokens = 5), "min_tokens", "more than max_tokens (4)");
    refused(&llm, bad(&|p| p.stop_token_ids = vec![400]), "stop_token_ids", "holds the id 400");
    refused(&llm, bad(&|p| p.banned_token_ids = vec![320]), "banned_token_ids", "holds the id 320");
    refused(&llm, bad(&|p| p.logit_bias = [(999, 1.0)].into()), "logit_bias", "holds the id 999");
    refused(&llm, bad(&|p| p.logit_bias = [(1, f32::NAN)].into()), "logit_bias", "NaN for token 1");
    refused(&llm, bad(&|p| p.stop = vec!["x".into()]), "stop", "no tokenizer");
    refused(&bundled("tiny-sdar"), bad(&|p| p.stop = vec![String::new()]), "stop", "empty string");
}

#[test]
fn methods() {
    let (sdar, llada) = (golden("sdar"), golden("llada"));
    let with = |decoding| Request { decoding, ..request(vec![1], params(4)) };
    refused(&sdar, with(canvas(4)), "decoding", "is Canvas, but sdar is block-causal; use BlockDiffusion");
    refused(&llada, with(block(4)), "decoding", "is BlockDiffusion, but llada is bidirectional; use Canvas");
    refused(&sdar, with(block(0)), "block_length", "is 0");
    refused(&sdar, with(block(1025)), "block_length", "at most 1024");
    let c = |change: &dyn Fn(&mut Canvas)| {
        let mut c = Canvas::default();
        change(&mut c);
        with(Some(Decoding::Canvas(c)))
    };
    refused(&llada, c(&|c| c.steps = Some(0)), "steps", "is 0");
    refused(&llada, c(&|c| c.threshold = Some(f32::NAN)), "threshold", "NaN");
    refused(&llada, c(&|c| c.cfg_scale = -1.0), "cfg_scale", "at least 0");
    refused(&llada, c(&|c| c.alg_temp = f32::NAN), "alg_temp", "at least 0");
    refused(&llada, c(&|c| c.alg_temp = 1e-45), "alg_temp", "at least 0.000001");
    for steps in [1 << 17, 10_000_000_000_000, usize::MAX] {
        refused(&llada, c(&|c| c.steps = Some(steps)), "steps", "at most 65536");
        let block = dlmrs::BlockDiffusion { steps: Some(steps), ..dlmrs::BlockDiffusion::default() };
        refused(&sdar, with(Some(Decoding::Block(block))), "steps", "at most 65536");
    }
    refused(&llada, c(&|c| c.eps = 0.0), "eps", "between 0 and 1");
    for (text, name) in [("greedy", "strategy"), ("", "strategy")] {
        let e = text.parse::<dlmrs::decode::Strategy>().unwrap_err().to_string();
        assert!(e.starts_with(name) && e.contains("use sequential"), "{e}");
    }
}

/// Settings that would have no effect are refused, not ignored.
#[test]
fn settings_that_contradict_each_other() {
    use dlmrs::decode::{DreamAlg, Remasking};
    let (llada, dream) = (golden("llada"), golden("dream"));
    let c = |change: &dyn Fn(&mut Canvas)| {
        let mut c = Canvas::default();
        change(&mut c);
        Request { decoding: Some(Decoding::Canvas(c)), ..request(vec![1], params(4)) }
    };
    let alg = Some(DreamAlg::Origin);
    refused(&llada, c(&|c| (c.threshold, c.alg) = (Some(0.9), alg)), "alg", "no effect with a threshold");
    refused(&dream, c(&|c| c.strategy = Remasking::Random), "strategy", "no effect with Dream's schedules");
    refused(&llada, c(&|c| c.alg_temp = 1.0), "alg_temp", "Dream's schedules only");
    refused(&llada, c(&|c| c.eps = 0.5), "eps", "Dream's schedules only; give alg");
    refused(&dream, c(&|c| (c.threshold, c.eps) = (Some(0.5), 0.1)), "eps", "leave out threshold");
    let sdar = golden("sdar");
    let b = |strategy, threshold, entropy_bound| {
        let settings = dlmrs::BlockDiffusion { strategy, threshold, entropy_bound, ..dlmrs::BlockDiffusion::default() };
        Request { decoding: Some(Decoding::Block(settings)), ..request(vec![1], params(4)) }
    };
    use dlmrs::decode::Strategy;
    refused(&sdar, b(Strategy::Sequential, Some(0.5), None), "threshold", "low_confidence_dynamic only");
    refused(&sdar, b(Strategy::Margin, None, Some(0.5)), "entropy_bound", "entropy_bounded only");
    refused(&llada, c(&|c| (c.alg, c.alg_temp) = (alg, 1.0)), "alg_temp", "no effect with alg=\"origin\"");
    refused(&llada, c(&|c| (c.strategy, c.confidence_eos_eot_inf) = (Remasking::Random, true)), "confidence_eos_eot_inf", "at random");
    refused(&dream, c(&|c| (c.alg, c.confidence_eos_eot_inf) = (alg, true)), "confidence_eos_eot_inf", "at random");
}

/// As many steps as there may be, for masks that are few: fast, and all are decided.
#[test]
fn many_steps() {
    for alg in [None, Some("origin"), Some("maskgit_plus"), Some("entropy")] {
        let llm = golden("dream");
        let settings = Canvas { steps: Some(1 << 16), alg: alg.map(|a| a.parse().unwrap()), ..Canvas::default() };
        let r =
            Request { decoding: Some(Decoding::Canvas(settings)), ..request(vec![1], SamplingParams { ignore_eos: true, ..params(5) }) };
        let out = llm.generate(vec![r], |_, _| true).unwrap().remove(0);
        assert!(out.token_ids.len() == 5 && out.stats.total_passes() <= 5, "{alg:?}");
    }
    let llm = golden("sdar");
    let settings = dlmrs::BlockDiffusion { steps: Some(1 << 16), ..dlmrs::BlockDiffusion::default() };
    let r = Request { decoding: Some(Decoding::Block(settings)), ..request(vec![1], SamplingParams { ignore_eos: true, ..params(5) }) };
    assert_eq!(llm.generate(vec![r], |_, _| true).unwrap()[0].token_ids.len(), 5);
}

#[test]
fn thresholds_outside_of_zero_and_one_are_legal() {
    let llm = golden("sdar");
    let with = |threshold| {
        let decoding = Decoding::Block(dlmrs::BlockDiffusion { threshold: Some(threshold), ..dlmrs::BlockDiffusion::default() });
        let r = Request { decoding: Some(decoding), ..request(vec![1, 2, 3, 4], SamplingParams { ignore_eos: true, ..params(16) }) };
        llm.generate(vec![r], |_, _| true).unwrap()[0].stats.total_passes()
    };
    assert_eq!((with(-1.0), with(0.0)), (4, 4), "all at once");
    assert_eq!((with(1.0), with(7.0)), (16, 16), "one by one");
}

#[test]
fn rows_and_masks_of_forward() {
    let llm = golden("sdar");
    let message = |r: dlmrs::Result<Vec<Vec<f32>>>| r.unwrap_err().to_string();
    assert!(message(llm.logits(&[], None, None, None)).contains("tokens"));
    assert!(message(llm.logits(&[1, 2], None, None, Some(vec![2]))).contains("names row 2 of a pass of 2 rows"));
    assert!(message(llm.logits(&[1, 2], Some(vec![0]), None, None)).contains("positions"));
    let bits = dlmrs::pass::Bits::from_fn(2, 3, |_, _| true);
    assert!(message(llm.logits(&[1, 2], None, Some(bits), None)).contains("(2, 2)"));
    assert!(message(llm.logits(&vec![1; 1025], None, None, None)).contains("at most 1024"));
}
