//! The report on a checkpoint, and the sizes of the public models.

use dlmrs::checkpoint::{ModelConfig, Overrides, inspect};
use dlmrs::decode::Offer;
use dlmrs::{DraftSource, Llm, LoadOptions, Request, SamplingParams};
use serde_json::{Value, json};

use crate::common::{Copy, golden, refused};

#[test]
fn report_of_a_golden_checkpoint() {
    let copy = Copy::of("sdar");
    let overrides = Overrides { mask_token_id: Some(317), ..Overrides::default() };
    let report = inspect(&copy.folder(), &overrides, None, None).unwrap();
    assert_eq!((report.family, report.layers, report.vocab), ("SDAR", 3, 320));
    assert_eq!(report.kv_bytes_per_1000_tokens_f32, 2 * 3 * 2 * 32 * 4 * 1000);
    assert_eq!(report.kv_bytes_per_1000_tokens_bf16, 2 * 3 * 2 * 32 * 2 * 1000);
    let weights = report.weights.as_ref().unwrap();
    assert_eq!((weights.parameters, weights.bytes), (report.parameters, 4 * report.parameters));
    let text = report.to_string();
    for line in [
        "family          SDAR (SDARForCausalLM)",
        "heads           4 query, 2 key/value, size 32",
        "mask token      317 (from the caller)",
        "block length    4 (from the family's default)",
        "stop tokens     318 (from config.json)",
        "output head     stored",
        "methods         BlockDiffusion: identical",
        "                SimSD: identical, with a draft model",
    ] {
        assert!(text.lines().any(|found| found == line), "{line:?} is not in:\n{text}");
    }
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["mask_token_id"], json!({"value": 317, "from": "the caller"}));
    assert_eq!(json["methods"][2], json!({"method": "SimSD", "setting": "", "grade": "identical", "needs_draft": true}));
}

#[test]
fn report_without_weights_or_mask() {
    let copy = Copy::config_only("sdar_tied");
    let report = inspect(&copy.folder(), &Overrides::default(), None, None).unwrap();
    assert_eq!(report.parameters, copy.read().unwrap().parameters());
    let text = report.to_string();
    assert!(text.contains("no weights found") && text.contains("give mask_token_id"), "{text}");
    assert!(text.contains("tied to the embedding by the config"), "{text}");
    // What is there and wrong fails all the same.
    copy.write("model.safetensors", "nonsense");
    refused(inspect(&copy.folder(), &Overrides::default(), None, None), &["model.safetensors"]);
}

/// What the report offers works, and what it does not offer is refused: each method on a model of each family.
#[test]
fn methods_of_every_family() {
    // Methods, and of those that read something stale or leave something out the grade says so.
    let blocks = [("BlockDiffusion", "identical"), ("Lookahead", "identical"), ("SimSD", "identical"), ("S2D2", "approximate")];
    let editing = [&blocks[..1], &blocks[..1], &blocks[1..]].concat();
    let canvas = [
        ("Canvas", "identical"),
        ("Canvas", "approximate"),
        ("Canvas", "approximate"),
        ("Canvas", "approximate"),
        ("Lookahead", "approximate"),
    ];
    // Its blocks of 8 are one sub-block, so there is nothing for the cache.
    let shifted = [("SubBlockDiffusion", "identical")];
    for (family, wanted) in [
        ("sdar", &blocks[..]),
        ("sdar_moe", &blocks),
        ("llada2_moe", &editing),
        ("llada", &canvas),
        ("dream", &canvas),
        ("llada_moe", &canvas),
        ("rnd1", &canvas),
        ("fast_dllm_v2", &shifted),
    ] {
        let overrides = Overrides { mask_token_id: Some(317), ..Overrides::default() };
        let path = golden(family);
        let report = Llm::inspect(path.to_str().unwrap(), &overrides).unwrap();
        assert_eq!(report.methods.iter().map(|offer| (offer.method, offer.grade.name())).collect::<Vec<_>>(), wanted, "{family}");
        let options = LoadOptions { device: "cpu".into(), threads: Some(1), ..LoadOptions::default() };
        let llm = match wanted.contains(&blocks[0]) {
            true => Llm::load_pair(path.to_str().unwrap(), &DraftSource::Itself, &options, &overrides, &mut |_, _| true),
            false => Llm::load(path.to_str().unwrap(), &options, &overrides),
        }
        .unwrap();
        for offer in Offer::all() {
            let params = SamplingParams { max_tokens: 40, ignore_eos: true, ..SamplingParams::default() };
            let request = Request { prompt: vec![5, 6, 7], params, decoding: Some(offer.decoding.clone()) };
            let offered = report.methods.iter().any(|other| other.to_string() == offer.to_string());
            match llm.generate(vec![request], |_, _| true) {
                Ok(outputs) => assert!(offered && outputs[0].token_ids.len() == 40, "{family} by {offer}"),
                Err(error) => assert!(!offered, "{family} by {offer}: {error}"),
            }
        }
    }
}

fn qwen(family: &str, sizes: [usize; 6], heads: [usize; 2]) -> ModelConfig {
    let [hidden, layers, intermediate, vocab, positions, head_dim] = sizes;
    let copy = Copy::config_only(family).set("hidden_size", json!(hidden)).set("num_hidden_layers", json!(layers));
    let copy = copy.set("intermediate_size", json!(intermediate)).set("vocab_size", json!(vocab)).set("head_dim", json!(head_dim));
    let copy = copy.set("max_position_embeddings", json!(positions)).set("num_attention_heads", json!(heads[0]));
    copy.set("num_key_value_heads", json!(heads[1])).read().unwrap()
}

/// Sizes of the public checkpoints.
#[test]
fn sizes_of_the_public_models() {
    for (family, keys, billions, kv) in [
        (
            "sdar_moe",
            json!({"hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
            "head_dim": 128, "vocab_size": 151_936, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768}),
            30.53,
            98_304,
        ),
        (
            "llada_moe",
            json!({"hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 16, "num_key_value_heads": 16,
            "head_dim": 128, "vocab_size": 157_184, "num_experts": 64, "num_experts_per_tok": 8, "expert_intermediate_size": 1024,
            "moe_layer_freq": null}),
            7.36,
            131_072,
        ),
        (
            "llada2_moe",
            json!({"hidden_size": 2048, "num_hidden_layers": 20, "num_attention_heads": 16, "num_key_value_heads": 4,
            "head_dim": 128, "vocab_size": 157_184, "intermediate_size": 5120, "moe_intermediate_size": 512, "num_experts": 256,
            "num_experts_per_tok": 8, "n_group": 8, "topk_group": 4, "moe_shared_expert_intermediate_size": null}),
            16.26,
            40_960,
        ),
        (
            "llada2_moe",
            json!({"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 4,
            "head_dim": 128, "vocab_size": 157_184, "intermediate_size": 9216, "moe_intermediate_size": 1024, "num_experts": 256,
            "num_experts_per_tok": 8, "n_group": 8, "topk_group": 4, "moe_shared_expert_intermediate_size": null}),
            102.9,
            65_536,
        ),
    ] {
        let Value::Object(keys) = keys else { panic!("an object") };
        let config = keys.into_iter().fold(Copy::config_only(family), |copy, (key, value)| copy.set(&key, value)).read().unwrap();
        assert!((config.parameters() as f64 / 1e9 / billions - 1.0).abs() < 0.002, "{} is not {billions} billion", config.parameters());
        assert_eq!(config.kv_bytes_per_token(2), kv);
    }
    let llada = Copy::config_only("llada").set("d_model", json!(4096)).set("n_layers", json!(32)).set("n_heads", json!(32));
    let llada = llada.set("n_kv_heads", json!(32)).set("mlp_hidden_size", json!(12288)).set("vocab_size", json!(126_464));
    let llada = llada.set("embedding_size", json!(126_464)).set("mask_token_id", json!(126_336)).read().unwrap();
    // The index of LLaDA-8B says this to the byte.
    assert_eq!(2 * llada.parameters(), 16_031_162_368);
    for (config, billions, kv) in [
        (qwen("sdar", [2048, 28, 6144, 151_936, 32_768, 128], [16, 8]), 2.03, 114_688),
        (qwen("sdar", [2560, 36, 9728, 151_936, 32_768, 128], [32, 8]), 4.41, 147_456),
        (qwen("sdar", [4096, 36, 12_288, 151_936, 32_768, 128], [32, 8]), 8.19, 147_456),
        (qwen("dream", [3584, 28, 18_944, 152_064, 131_072, 128], [28, 4]), 7.62, 57_344),
        (llada, 8.02, 524_288),
    ] {
        assert!((config.parameters() as f64 / 1e9 - billions).abs() < 0.005, "{} is not {billions} billion", config.parameters());
        assert_eq!(config.kv_bytes_per_token(2), kv);
        assert_eq!(config.kv_bytes_per_token(4), 2 * kv);
    }
}
