//! Sampling: greedy is greedy, seeds decide, frequencies are those of the distribution, controls do what they say.

use std::sync::Arc;

use dlmrs::decode::{Canvas, Decoding, Remasking};
use dlmrs::{Llm, Output, Request, SamplingParams};

use crate::common::{block, bundled, canvas, golden, one, params, request};

fn free(max_tokens: usize) -> SamplingParams {
    SamplingParams { ignore_eos: true, ..params(max_tokens) }
}

#[test]
fn temperature_zero_and_top_k_one_are_the_same() {
    for (family, decoding) in [("sdar", block(4)), ("llada", canvas(8)), ("dream", canvas(8))] {
        let llm = golden(family);
        let run = |params| one(&llm, Request { decoding: decoding.clone(), ..request(vec![3, 1, 4, 1, 5], params) }).canvas_token_ids;
        let greedy = run(free(24));
        assert_eq!(run(SamplingParams { top_k: 1, temperature: 1.3, seed: Some(77), ..free(24) }), greedy);
        assert_eq!(run(SamplingParams { seed: None, top_p: 0.4, top_k: 7, ..free(24) }), greedy);
    }
}

#[test]
fn a_seed_decides() {
    for (family, decoding) in [("sdar", block(4)), ("llada", canvas(8)), ("dream", canvas(8))] {
        let llm = golden(family);
        let run = |seed| {
            let params = SamplingParams { temperature: 1.0, seed, ..free(24) };
            one(&llm, Request { decoding: decoding.clone(), ..request(vec![3, 1, 4], params) })
        };
        let (a, b, c) = (run(Some(5)), run(Some(5)), run(Some(6)));
        assert_eq!(a.canvas_token_ids, b.canvas_token_ids, "{family}");
        assert_ne!(a.canvas_token_ids, c.canvas_token_ids, "{family}");
        let drawn = run(None);
        assert_eq!(run(Some(drawn.seed)).canvas_token_ids, drawn.canvas_token_ids, "{family}: the output tells the seed that was drawn");
    }
}

/// The first slot of a block of one is drawn from softmax(logits / T) without the mask: chi-square over the likely tokens.
#[test]
fn frequencies() {
    let llm = golden("sdar");
    let prompt = vec![3, 1, 4, 1];
    let temperature = 3.0;
    let blocks_of_one = dlmrs::pass::Bits::from_fn(5, 5, |row, key| key <= row);
    let logits = &llm.logits(&[3, 1, 4, 1, 317], None, Some(blocks_of_one), Some(vec![4])).unwrap()[0];
    for (top_k, top_p) in [(0, 1.0), (6, 1.0), (0, 0.5), (12, 0.7)] {
        let expected = distribution(logits, temperature, top_k, top_p);
        let draws = 3000;
        let requests = (0..draws).map(|seed| {
            let params = SamplingParams { temperature, top_k, top_p, seed: Some(seed), ..free(1) };
            Request { decoding: block(1), ..request(prompt.clone(), params) }
        });
        let outputs = llm.generate(requests.collect(), |_, _| true).unwrap();
        let mut counts = vec![0.0; 320];
        outputs.iter().for_each(|o| counts[o.token_ids[0] as usize] += 1.0);
        chi_square(&counts, &expected, draws as f64);
        for o in &outputs {
            assert!(expected[o.token_ids[0] as usize] > 0.0, "a token that filters took away");
        }
    }
}

/// top-k, then top-p of the rest, the slow way.
fn distribution(logits: &[f32], temperature: f32, top_k: usize, top_p: f32) -> Vec<f64> {
    let mut order: Vec<usize> = (0..logits.len()).filter(|&t| t != 317).collect();
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    if top_k > 0 {
        order.truncate(top_k);
    }
    let weights: Vec<f64> = order.iter().map(|&t| f64::from(logits[t] / temperature).exp()).collect();
    let total: f64 = weights.iter().sum();
    let mut p = vec![0.0; logits.len()];
    let mut before = 0.0;
    for (&t, w) in order.iter().zip(&weights) {
        if before <= f64::from(top_p) * total {
            p[t] = *w;
        }
        before += w;
    }
    let kept: f64 = p.iter().sum();
    p.iter_mut().for_each(|p| *p /= kept);
    p
}

fn chi_square(counts: &[f64], expected: &[f64], draws: f64) {
    let (mut sum, mut cells, mut rest) = (0.0, 0, (0.0, 0.0));
    for (&n, &p) in counts.iter().zip(expected) {
        match p * draws >= 8.0 {
            true => {
                sum += (n - p * draws).powi(2) / (p * draws);
                cells += 1;
            }
            false => rest = (rest.0 + n, rest.1 + p * draws),
        }
    }
    if rest.1 > 0.5 {
        sum += (rest.0 - rest.1).powi(2) / rest.1;
        cells += 1;
    }
    let freedom = f64::from(cells - 1);
    assert!(sum < freedom + 4.5 * (2.0 * freedom).sqrt() + 6.0, "chi-square {sum} with {freedom} degrees of freedom");
}

#[test]
fn bans_biases_and_penalties() {
    let llm = golden("sdar");
    let prompt = vec![3, 1, 4, 1, 5];
    let plain = one(&llm, request(prompt.clone(), free(16)));
    let first = plain.token_ids[0];
    let banned = one(&llm, request(prompt.clone(), SamplingParams { banned_token_ids: vec![first], ..free(16) }));
    assert!(!banned.token_ids.contains(&first));
    let minus = one(&llm, request(prompt.clone(), SamplingParams { logit_bias: [(first, f32::NEG_INFINITY)].into(), ..free(16) }));
    assert_eq!(minus.token_ids, banned.token_ids);
    let forced = one(&llm, request(prompt.clone(), SamplingParams { logit_bias: [(42, 1e4)].into(), ..free(16) }));
    assert!(forced.token_ids.iter().all(|&id| id == 42));
    let penalty = |p| one(&llm, request(prompt.clone(), SamplingParams { repetition_penalty: p, ..free(16) })).token_ids;
    assert_eq!(penalty(1.0), plain.token_ids);
    let distinct = |ids: &[u32]| ids.iter().collect::<std::collections::BTreeSet<_>>().len();
    assert!(distinct(&penalty(50.0)) > distinct(&plain.token_ids), "{:?}", penalty(50.0));
}

/// The mask is never drawn, even when it is by far the most likely.
#[test]
fn the_mask_is_never_drawn() {
    for (family, decoding) in [("sdar", block(4)), ("llada", canvas(8)), ("dream", canvas(8))] {
        let llm = golden(family);
        for temperature in [0.0, 1.0] {
            let params = SamplingParams { logit_bias: [(317, 50.0)].into(), temperature, ..free(16) };
            let out = one(&llm, Request { decoding: decoding.clone(), ..request(vec![1, 2, 3], params) });
            assert!(!out.canvas_token_ids.contains(&317), "{family}");
        }
    }
}

fn llada(change: impl Fn(&mut Canvas), params: SamplingParams) -> Output {
    thread_local!(static LLM: Arc<Llm> = bundled("tiny-llada"));
    LLM.with(|llm| {
        let mut settings = Canvas { block_length: Some(32), ..Canvas::default() };
        change(&mut settings);
        let prompt = crate::common::chat(llm, crate::common::QUESTION);
        one(llm, Request { decoding: Some(Decoding::Canvas(settings)), ..request(prompt, params) })
    })
}

#[test]
fn end_of_text_controls() {
    // One large block, as in the reference's best settings.
    let out = llada(|c| c.logits_eos_inf = true, free(64));
    assert!(!out.token_ids.contains(&0), "<|endoftext|> is never drawn");
    // Suppressed slots come last: every slot that holds a stop id was decided after every slot that does not.
    for temperature in [0.0, 0.7] {
        let llm = bundled("tiny-llada");
        let prompt = crate::common::chat(&llm, crate::common::QUESTION);
        let settings = Canvas { block_length: Some(64), confidence_eos_eot_inf: true, ..Canvas::default() };
        let r = Request { decoding: Some(Decoding::Canvas(settings)), ..request(prompt, SamplingParams { temperature, ..free(64) }) };
        let mut order = Vec::new();
        llm.generate(vec![r], |_, event| {
            if let dlmrs::Event::Revealed { slots, .. } = event {
                order.extend(slots.iter().map(|s| s.stat.token));
            }
            true
        })
        .unwrap();
        assert_eq!(order.len(), 64);
        // Each step reveals a stop id only when every masked slot's token is one, so what comes first is text.
        let first_stop = order.iter().position(|id| [0, 2].contains(id)).unwrap_or(64);
        assert!(first_stop > 10, "temperature {temperature}: {order:?}");
    }
    let plain = llada(|_| {}, free(64));
    assert!(plain.token_ids.contains(&0), "without the controls it is drawn");
}

/// The end of text is found where `config.json` does not name it.
#[test]
fn end_of_text_without_a_config_key() {
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("bundled/tiny-llada");
    let folder = tempfile::tempdir().unwrap();
    for file in ["generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(source.join(file), folder.path().join(file)).unwrap();
    }
    let config = std::fs::read_to_string(source.join("config.json")).unwrap();
    std::fs::write(folder.path().join("config.json"), config.replace("\"eos_token_id\": 0,", "")).unwrap();
    let options = dlmrs::LoadOptions { device: "cpu".into(), ..dlmrs::LoadOptions::default() };
    let llm = Llm::load(folder.path().to_str().unwrap(), &options, &dlmrs::Overrides::default()).unwrap();
    assert!(llm.config().eos_token_ids.is_empty());
    let prompt = crate::common::chat(&llm, crate::common::QUESTION);
    let settings = Canvas { block_length: Some(64), logits_eos_inf: true, ..Canvas::default() };
    let out = one(&llm, Request { decoding: Some(Decoding::Canvas(settings)), ..request(prompt, free(64)) });
    assert!(!out.token_ids.contains(&0));
    // Nothing names it in a checkpoint without a tokenizer and without the key.
    let bare = golden("llada");
    assert!(!bare.config().eos_token_ids.is_empty(), "the golden config has one");
}

#[test]
fn guidance_of_zero_is_off_and_costs_nothing() {
    let off = llada(|_| {}, free(16));
    let zero = llada(|c| c.cfg_scale = 0.0, free(16));
    let on = llada(|c| c.cfg_scale = 1.5, free(16));
    assert_eq!(off.token_ids, zero.token_ids);
    assert_eq!((off.stats.total_passes(), on.stats.total_passes()), (16, 32));
    assert_eq!(2 * off.stats.scanned_rows, on.stats.scanned_rows, "guiding rows have logits too");
}

#[test]
fn random_remasking_and_dreams_schedules_follow_the_seed() {
    let llm = golden("dream");
    for alg in ["origin", "maskgit_plus", "topk_margin", "entropy"] {
        let run = |seed, alg_temp| {
            let settings = Canvas { alg: Some(alg.parse().unwrap()), steps: Some(10), alg_temp, ..Canvas::default() };
            let params = SamplingParams { seed: Some(seed), ..free(20) };
            one(&llm, Request { decoding: Some(Decoding::Canvas(settings)), ..request(vec![1, 2, 3], params) })
        };
        let (a, b) = (run(1, 0.0), run(2, 0.0));
        assert_eq!(run(1, 0.0).canvas_token_ids, a.canvas_token_ids);
        assert_eq!(alg != "origin", a.canvas_token_ids == b.canvas_token_ids, "{alg}: only origin draws its slots");
        assert!(a.stats.total_passes() <= 10);
        if alg != "origin" {
            let tempered: Vec<_> = (0..4).map(|seed| run(seed, 5.0).canvas_token_ids).collect();
            assert!(tempered.iter().any(|t| *t != tempered[0]), "{alg}: alg_temp draws its slots");
        }
    }
    let llm = golden("llada");
    let random = |seed| {
        let settings = Canvas { strategy: Remasking::Random, block_length: Some(16), ..Canvas::default() };
        let params = SamplingParams { seed: Some(seed), ..free(16) };
        one(&llm, Request { decoding: Some(Decoding::Canvas(settings)), ..request(vec![1, 2, 3], params) }).canvas_token_ids
    };
    assert_eq!(random(3), random(3));
    assert!((4..9).any(|seed| random(seed) != random(3)));
}
