//! S2D2 against the recorded runs: tokens, the order in which slots were decided and how, and the passes as the reference counts them.

use dlmrs::decode::{BlockDiffusion, Decoding, How, Revealed, S2D2, Strategy, Variant, estimator};
use dlmrs::speculate::route::{Policy, Score};
use dlmrs::{Event, Request, SamplingParams};
use serde_json::Value;

use crate::common::{golden, golden_folder};

fn number(policy: &Value, key: &str) -> Option<f32> {
    policy.get(key).and_then(Value::as_f64).map(|v| v as f32)
}

/// A policy in the reference's own words.
fn policy(case: &Value) -> Policy {
    let policy = &case["policy"];
    let score = || {
        let value = [
            "ssd_entropy_temperature",
            "ssd_confidence_margin_coef",
            "ssd_confidence_power",
            "ssd_entropy_threshold",
            "ssd_confidence_margin_threshold",
        ]
        .iter()
        .find_map(|key| number(policy, key));
        Score {
            estimator: estimator(policy["token_acceptance_estimator"].as_str().unwrap(), value).unwrap(),
            penalty: number(policy, "score_penalty_coef").unwrap(),
            dynamic: policy["do_verify_score_type"] == "difference_dynamic",
        }
    };
    match policy["do_verify_policy"].as_str().unwrap() {
        "mask_span_length" => Policy::MinSpan(policy["min_ssd_span_length"].as_u64().unwrap() as usize),
        "score_threshold" => Policy::ScoreThreshold { score: score(), threshold: number(policy, "do_verify_score_threshold").unwrap() },
        "score_hysteresis" => Policy::Hysteresis {
            score: score(),
            on: number(policy, "hysteresis_threshold_on").unwrap(),
            off: number(policy, "hysteresis_threshold_off").unwrap(),
        },
        other => panic!("{other}"),
    }
}

fn settings(case: &Value) -> S2D2 {
    let length = case["block_length"].as_u64().unwrap() as usize;
    S2D2 {
        block: BlockDiffusion {
            block_length: Some(length),
            steps: Some(case["steps"].as_u64().unwrap() as usize),
            strategy: Strategy::LowConfidenceDynamic,
            threshold: number(case, "confidence_threshold"),
            entropy_bound: None,
        },
        variant: Variant::Greedy,
        ar_cache: case["ar_cache"].as_bool().unwrap(),
        policy: policy(case),
    }
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as u32).collect()
}

fn request(case: &Value, settings: S2D2, seed: u64, temperature: f32) -> Request {
    let max_tokens = case["gen_length"].as_u64().unwrap() as usize;
    let params = SamplingParams { max_tokens, ignore_eos: true, temperature, seed: Some(seed), ..SamplingParams::default() };
    Request { prompt: ids(&case["prompt_ids"]), params, decoding: Some(Decoding::S2D2(settings)) }
}

fn cases() -> Vec<Value> {
    let text = std::fs::read_to_string(golden_folder("sdar").join("self_speculative.json")).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    let cases = all["cases"].as_array().unwrap().clone();
    assert!(cases.len() > 100);
    cases
}

/// What a step decided, in the reference's notation: p, p.5 for a correction, -p for a fallback by falling confidence.
fn step(slots: &[Revealed]) -> Vec<f64> {
    let (judged, mut fallback): (Vec<&Revealed>, Vec<&Revealed>) =
        slots.iter().partition(|slot| matches!(slot.how, How::Accepted | How::Corrected));
    fallback.sort_by(|a, b| b.stat.probability.total_cmp(&a.stat.probability));
    let judged = judged.iter().map(|slot| slot.position as f64 + if slot.how == How::Corrected { 0.5 } else { 0.0 });
    judged.chain(fallback.iter().map(|slot| -(slot.position as f64))).collect()
}

fn recorded_steps(case: &Value) -> Vec<Vec<f64>> {
    let steps = case["order"].as_array().unwrap();
    steps.iter().map(|step| step.as_array().unwrap().iter().filter_map(Value::as_f64).collect()).collect()
}

#[test]
fn recorded_runs() {
    let llm = golden("sdar");
    let cases = cases();
    let requests = cases.iter().map(|case| request(case, settings(case), 0, 0.0)).collect();
    let mut steps: Vec<Vec<Vec<f64>>> = vec![Vec::new(); cases.len()];
    let watch = |i: usize, event: &Event| {
        if let Event::Revealed { slots, .. } = event {
            steps[i].push(step(slots));
        }
        true
    };
    let outputs = llm.generate(requests, watch).unwrap();
    for ((case, output), steps) in cases.iter().zip(&outputs).zip(&steps) {
        let name = &case["name"];
        assert_eq!(output.canvas_token_ids[output.prompt_token_ids.len()..], ids(&case["output_ids"]), "{name}");
        assert_eq!(*steps, recorded_steps(case), "{name}");
        let stats = &output.stats;
        assert_eq!(stats.speculation.unfolded_passes as u64, case["forwards"].as_u64().unwrap(), "{name}");
        assert!(stats.total_passes() <= stats.speculation.unfolded_passes);
    }
}

/// `greedy` needs no seed; `paper` follows its seed and nothing else; alone and together give the same.
#[test]
fn variants_and_seeds() {
    let llm = golden("sdar");
    let case = cases().into_iter().find(|case| case["block_length"] == 8).unwrap();
    let run = |variant, seed, temperature| {
        let settings = S2D2 { variant, ..settings(&case) };
        let request = request(&case, settings, seed, temperature);
        let alone = llm.generate(vec![request.clone()], |_, _| true).unwrap().remove(0).canvas_token_ids;
        let together = llm.generate(vec![request.clone(), request], |_, _| true).unwrap();
        assert!(together.iter().all(|output| output.canvas_token_ids == alone));
        alone
    };
    assert_eq!(run(Variant::Greedy, 1, 0.0), run(Variant::Greedy, 2, 0.0));
    assert_eq!(run(Variant::Exact, 1, 0.0), run(Variant::Greedy, 2, 0.0), "at temperature 0 both take the argmax");
    let papers: Vec<_> = (0..6).map(|seed| run(Variant::Paper, seed, 0.0)).collect();
    assert!(papers.iter().any(|other| *other != papers[0]), "the paper's way draws random numbers even when greedy");
    assert_eq!(run(Variant::Paper, 3, 0.0), papers[3]);
    assert_ne!(run(Variant::Exact, 1, 1.0), run(Variant::Exact, 2, 1.0));
}
