//! Token-exact generation against the reference samplers.

use dlmrs::decode::{BlockDiffusion, Canvas, Decoding, PassKind, Suffix};
use dlmrs::{Backend, Llm, Output, Request, SamplingParams};
use serde_json::Value;
use std::sync::Arc;

use crate::common::{BACKENDS, cases, ids, load, size};

fn request(case: &Value, decoding: Decoding) -> Request {
    let params = SamplingParams { max_tokens: size(case, "gen_length"), ignore_eos: true, ..SamplingParams::default() };
    Request { prompt: ids(&case["prompt_ids"]), params, decoding: Some(decoding) }
}

fn number(case: &Value, key: &str) -> Option<f32> {
    case.get(key).and_then(Value::as_f64).map(|v| v as f32)
}

fn block(case: &Value) -> Decoding {
    Decoding::Block(BlockDiffusion {
        block_length: Some(size(case, "block_length")),
        steps: Some(size(case, "steps")),
        strategy: case["strategy"].as_str().unwrap().parse().unwrap(),
        threshold: number(case, "confidence_threshold"),
        entropy_bound: number(case, "entropy_bound"),
    })
}

fn canvas(case: &Value) -> Decoding {
    Decoding::Canvas(Canvas {
        block_length: Some(size(case, "block_length")),
        steps: case.get("steps").and_then(Value::as_u64).map(|s| s as usize),
        threshold: number(case, "threshold"),
        cfg_scale: number(case, "cfg_scale").unwrap_or(0.0),
        alg: case.get("alg").and_then(Value::as_str).map(|a| a.parse().unwrap()),
        eps: number(case, "eps").unwrap_or(1e-3),
        cache: case["cache"].as_str().unwrap().parse().unwrap(),
        suffix: case.get("kept_suffix").map_or(Suffix::Off, |lists| Suffix::Kept(lists.as_array().unwrap().iter().map(ids).collect())),
        ..Canvas::default()
    })
}

/// Runs every request alone, then all of them together, and wants the same outputs.
fn outputs(llm: &Arc<Llm>, requests: Vec<Request>) -> Vec<Output> {
    let alone: Vec<Output> = requests.iter().flat_map(|r| llm.generate(vec![r.clone()], |_, _| true).unwrap()).collect();
    let together = llm.generate(requests, |_, _| true).unwrap();
    assert_eq!(alone.len(), together.len());
    for (a, t) in alone.iter().zip(&together) {
        assert_eq!(a.canvas_token_ids, t.canvas_token_ids, "alone and together");
        assert_eq!(a.stats.passes, t.stats.passes);
    }
    together
}

/// Everything after the prompt, to the end of the last block.
fn tail(output: &Output) -> &[u32] {
    &output.canvas_token_ids[output.prompt_token_ids.len()..]
}

#[test]
fn block_diffusion() {
    for family in ["sdar", "sdar_tied", "sdar_onelayer"] {
        for backend in BACKENDS {
            let llm = load(family, backend);
            let cases = cases(family, "cases.json", "generate");
            let found = outputs(&llm, cases.iter().map(|c| request(c, block(c))).collect());
            for (case, output) in cases.iter().zip(&found) {
                let name = format!("{family} {backend:?} {}", case["name"]);
                assert_eq!(tail(output), ids(&case["output_ids"]), "{name}");
                assert_eq!(output.token_ids, tail(output)[..size(case, "gen_length")], "{name}");
                let (passes, reference) = (output.stats.total_passes(), size(case, "forwards"));
                assert!(passes < reference, "{name}: {passes} passes, the reference needs {reference}");
            }
        }
    }
}

#[test]
fn block_diffusion_by_entropy_and_margin() {
    for backend in BACKENDS {
        let llm = load("sdar", backend);
        let cases = cases("sdar", "own.json", "generate");
        let found = outputs(&llm, cases.iter().map(|c| request(c, block(c))).collect());
        for (case, output) in cases.iter().zip(&found) {
            assert_eq!(tail(output), ids(&case["output_ids"]), "{backend:?} {}", case["name"]);
        }
    }
}

/// Every case of a family: the schedules and the threshold, guidance, no cache, prefix and dual cache, each with all of the suffix and with
/// the places that the reference drew.
fn canvas_diffusion(family: &str, known: usize, backend: Backend) {
    let llm = load(family, backend);
    let cases = cases(family, "cases.json", "generate");
    assert_eq!(cases.len(), known, "{family}");
    let found = outputs(&llm, cases.iter().map(|c| request(c, canvas(c))).collect());
    for (case, output) in cases.iter().zip(&found) {
        let name = format!("{family} {backend:?} {}", case["name"]);
        assert_eq!(tail(output), ids(&case["output_ids"]), "{name}");
        let (passes, refreshes) = (output.stats.total_passes(), output.stats.passes.get(PassKind::Refresh));
        let blocks = size(case, "gen_length").div_ceil(size(case, "block_length"));
        assert_eq!(refreshes, if case["cache"] == "none" { 0 } else { blocks }, "{name}: refreshes");
        if let Some(nfe) = case.get("nfe").and_then(Value::as_u64) {
            assert_eq!(passes as u64, nfe, "{name}: passes");
        }
        if let Some(nfe) = case.get("reference_nfe").and_then(Value::as_u64) {
            assert_eq!((passes - refreshes) as u64, nfe, "{name}: passes but for the refreshes");
        }
        if let Some(lists) = case.get("kept_suffix") {
            let kept: usize = lists.as_array().unwrap().iter().map(|list| ids(list).len()).sum();
            assert_eq!((output.stats.blocks, output.stats.kept_suffix), (blocks, kept), "{name}");
        }
    }
}

#[test]
fn llada() {
    canvas_diffusion("llada", 118, Backend::Kernels);
}

#[test]
fn llada_in_plain_candle() {
    canvas_diffusion("llada", 118, Backend::Plain);
}

#[test]
fn dream() {
    canvas_diffusion("dream", 107, Backend::Kernels);
}

#[test]
fn dream_in_plain_candle() {
    canvas_diffusion("dream", 107, Backend::Plain);
}

/// LLaDA2 by threshold, without editing. Its reference computes everything anew in each pass; here finished blocks are cached.
#[test]
fn llada2_by_threshold() {
    let all = cases("llada2_moe", "cases.json", "generate");
    let cases: Vec<_> = all.into_iter().filter(|case| case["editing_threshold"].is_null()).collect();
    assert_eq!(cases.len(), 18);
    let decoding = |case: &Value| {
        let (block_length, threshold) = (Some(size(case, "block_length")), number(case, "threshold"));
        Decoding::Block(BlockDiffusion { block_length, threshold, ..BlockDiffusion::default() })
    };
    for backend in BACKENDS {
        let llm = load("llada2_moe", backend);
        let found = outputs(&llm, cases.iter().map(|c| request(c, decoding(c))).collect());
        for (case, output) in cases.iter().zip(&found) {
            let name = format!("{backend:?} {}", case["name"]);
            assert_eq!(output.token_ids, ids(&case["output_ids"]), "{name}");
            assert_eq!(output.stats.total_passes(), size(case, "reference_nfe"), "{name}: passes");
        }
    }
}

/// The same tokens with one thread and with several, on each level of instructions that this CPU has.
#[test]
fn threads_do_not_matter() {
    let cases = cases("sdar", "cases.json", "generate");
    let texts = |threads| {
        let options = dlmrs::LoadOptions { device: "cpu".into(), backend: Backend::Kernels, threads: Some(threads), ..Default::default() };
        let overrides = dlmrs::Overrides { mask_token_id: Some(317), ..Default::default() };
        let llm = Llm::load(crate::common::folder("sdar").to_str().unwrap(), &options, &overrides).unwrap();
        let found = llm.generate(cases.iter().map(|c| request(c, block(c))).collect(), |_, _| true).unwrap();
        found.into_iter().map(|o| o.canvas_token_ids).collect::<Vec<_>>()
    };
    let one = texts(1);
    assert!(one == texts(2) && one == texts(3));
}
