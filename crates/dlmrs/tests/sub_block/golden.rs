//! Recorded runs of the reference, token by token.

use dlmrs::decode::PassKind;
use dlmrs::{Backend, Output, Request};
use serde_json::Value;

use crate::common::{MASK, folder, load, load_with, one, params, request, settings};
use crate::slow::Asked;

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as u32).collect()
}

fn size(case: &Value, key: &str) -> usize {
    case[key].as_u64().unwrap() as usize
}

fn cases() -> Vec<Value> {
    let text = std::fs::read_to_string(folder("fast_dllm_v2").join("cases.json")).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    let cases: Vec<Value> = all["cases"].as_array().unwrap().iter().filter(|c| c["kind"] == "generate").cloned().collect();
    assert_eq!(cases.len(), 36);
    cases
}

fn threshold(case: &Value) -> f32 {
    case["threshold"].as_f64().unwrap() as f32
}

fn of(case: &Value) -> Request {
    assert_eq!(size(case, "block_length"), 8, "the checkpoint's own");
    request(&ids(&case["prompt_ids"]), params(size(case, "gen_length")), settings(size(case, "sub_block"), threshold(case)))
}

/// The recorded tokens end with a block's hand-over token; ours go on to the end of that block.
#[test]
fn tokens_of_every_case_alone_and_together_on_both_backends() {
    for backend in [Backend::Kernels, Backend::Plain] {
        let llm = load_with(&folder("fast_dllm_v2"), backend, 2, MASK);
        let cases = cases();
        let together = llm.generate(cases.iter().map(of).collect(), |_, _| true).unwrap();
        for (case, output) in cases.iter().zip(&together) {
            let name = format!("{backend:?} {}", case["name"]);
            let wanted = ids(&case["output_ids"]);
            assert_eq!(output.token_ids[..wanted.len()], wanted, "{name}");
            assert!(output.token_ids.len() == 32 && wanted.len() >= 28, "{name}");
            let alone = one(&llm, of(case));
            assert_eq!((&alone.canvas_token_ids, alone.stats.passes), (&output.canvas_token_ids, output.stats.passes), "{name}");
        }
    }
}

/// The recorded runs do not say how many passes they took. Those of the obvious version are counted, and at threshold 1 every pass decides
/// one slot. The prompt and the hand-over cost no pass that decides nothing.
#[test]
fn passes_of_every_case() {
    let llm = load();
    for case in cases() {
        let name = case["name"].as_str().unwrap().to_string();
        let Output { stats, canvas_token_ids, prompt_token_ids, .. } = one(&llm, of(&case));
        let (max_tokens, sub_block) = (size(&case, "gen_length"), size(&case, "sub_block"));
        let (temperature, threshold, seed, mask) = (0.0, threshold(&case), 1, MASK);
        let asked = Asked { prompt: prompt_token_ids.clone(), max_tokens, block: 8, sub_block, threshold, temperature, seed, mask };
        assert_eq!((canvas_token_ids.clone(), stats.total_passes()), asked.run(&llm), "{name}");
        assert_eq!(stats.passes.get(PassKind::Denoise), stats.total_passes(), "{name}");
        let slots = canvas_token_ids.len() - prompt_token_ids.len();
        assert_eq!(stats.revealed, slots, "{name}");
        match threshold {
            1.0 => assert_eq!(stats.total_passes(), slots, "{name}"),
            0.9 => assert!(stats.total_passes() <= slots, "{name}"),
            _ => assert!(stats.total_passes() < slots, "{name}"),
        }
    }
}

/// The recorded prompts are used in turn as prompts of exactly one and two blocks, which the reference drops or cannot tell from others.
#[test]
fn a_prompt_of_whole_blocks_is_read() {
    let llm = load();
    let long = ids(&cases()[30]["prompt_ids"]);
    for (length, sub_block, threshold) in [(8, 4, 1.0), (8, 8, 0.5), (8, 2, 0.3), (16, 4, 0.5)] {
        let prompt = long[..length].to_vec();
        let found = one(&llm, request(&prompt, params(24), settings(sub_block, threshold)));
        let asked = Asked { prompt: prompt.clone(), max_tokens: 24, block: 8, sub_block, threshold, temperature: 0.0, seed: 1, mask: MASK };
        assert_eq!((found.canvas_token_ids.clone(), found.stats.total_passes()), asked.run(&llm));
        // Its last row says what comes first, so another prompt of this length begins otherwise.
        let logits = llm.logits(&prompt, None, None, Some(vec![length as u32 - 1])).unwrap().remove(0);
        let first = (0..logits.len()).filter(|&id| id != MASK as usize).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap();
        assert_eq!(found.token_ids[0], first as u32);
    }
}

#[test]
fn threads_do_not_matter() {
    for sub_block_cache in [false, true] {
        let run = |threads| {
            let llm = load_with(&folder("fast_dllm_v2"), Backend::Kernels, threads, MASK);
            let with = |case: &Value| {
                let mut request = of(case);
                if let Some(dlmrs::Decoding::SubBlock(settings)) = &mut request.decoding {
                    settings.sub_block_cache = sub_block_cache && settings.sub_block != Some(8);
                }
                request.params.temperature = if size(case, "sub_block") == 2 { 0.8 } else { 0.0 };
                request
            };
            let outputs = llm.generate(cases().iter().map(with).collect(), |_, _| true).unwrap();
            outputs.into_iter().map(|output| output.canvas_token_ids).collect::<Vec<_>>()
        };
        let one = run(1);
        assert!(one == run(2) && one == run(3));
    }
}
