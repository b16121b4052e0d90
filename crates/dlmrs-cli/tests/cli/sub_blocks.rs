//! Models that decode in sub-blocks.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::common::{golden, good, run_with_input, sdar_with_template};

/// It has no tokenizer: prompts are ids.
fn folder() -> String {
    golden("fast_dllm_v2")
}

fn ask(model: &str, options: &[&str], prompt: &Value) -> (Option<i32>, String, String) {
    let common = ["generate", model, "--prompt-file", "-", "--jsonl", "--json", "--mask-token-id", "317", "--ignore-eos"];
    let run = run_with_input(&[&common, options].concat(), format!("{}\n", json!({"prompt": prompt})).as_bytes());
    (run.code, run.out, run.err)
}

#[test]
fn a_recorded_run_by_options() {
    let text = std::fs::read_to_string(Path::new(&folder()).join("cases.json")).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    for name in ["thr0.5_13_sb4", "thr1.0_21_sb2", "thr0.3_3_sb8"] {
        let case = all["cases"].as_array().unwrap().iter().find(|case| case["name"] == name).unwrap();
        let (sub_block, threshold) = (case["sub_block"].to_string(), case["threshold"].to_string());
        let options = ["--max-tokens", "32", "--sub-block", &sub_block, "--threshold", &threshold, "--block-length", "8"];
        let (code, out, err) = ask(&folder(), &options, &case["prompt_ids"]);
        assert_eq!(code, Some(0), "{err}");
        let found: Value = serde_json::from_str(&out).unwrap();
        let wanted = case["output_ids"].as_array().unwrap();
        assert_eq!(&found["token_ids"].as_array().unwrap()[..wanted.len()], wanted, "{name}");
    }
}

#[test]
fn the_sub_block_cache_feeds_fewer_rows() {
    let rows = |options: &[&str]| {
        let (code, out, err) = ask(&folder(), &[&["--max-tokens", "40", "--sub-block", "4"], options].concat(), &json!([5, 6, 7]));
        assert_eq!(code, Some(0), "{err}");
        let found: Value = serde_json::from_str(&out).unwrap();
        found["stats"]["rows"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum::<u64>()
    };
    assert!(rows(&["--sub-block-cache"]) < rows(&[]));
}

fn refused(options: &[&str], wanted: &str) {
    let (code, out, err) = ask(&folder(), options, &json!([5, 6, 7]));
    assert_eq!((code, out.as_str()), (Some(1), ""), "{options:?}: {err}");
    assert!(err.starts_with("dlmrs: error: ") && err.contains(wanted), "{options:?}: {err}");
}

#[test]
fn what_has_no_meaning_is_refused() {
    for option in [
        &["--steps", "4"][..],
        &["--strategy", "margin"],
        &["--entropy-bound", "1"],
        &["--cfg-scale", "1"],
        &["--cache", "dual"],
        &["--alg", "entropy"],
        &["--suffix", "gaussian"],
        &["--method", "lookahead"],
        &["--gamma", "2"],
        &["--block-cache"],
    ] {
        refused(option, &format!("{} has no meaning for sub-block diffusion, by which fast_dllm_v2 decodes; leave it out", option[0]));
    }
    refused(&["--sub-block", "3"], "sub_block: is 3, which does not divide the block length 8");
    refused(&["--sub-block", "0"], "sub_block: is 0");
    refused(&["--threshold", "2"], "threshold: is 2; a number from 0");
    refused(&["--sub-block-cache"], "sub_block_cache: has an effect only where");
    refused(&["--draft", &folder()], "draft: needs a target whose predictions are not shifted");
}

#[test]
fn its_options_belong_to_no_other_model() {
    for (model, method) in [("tiny-sdar", "block diffusion"), ("tiny-llada", "canvas diffusion")] {
        for option in [&["--sub-block", "4"][..], &["--sub-block-cache"]] {
            let run = run_with_input(&[&["generate", model, "a"], option].concat(), b"");
            let wanted = format!("{} belongs to sub-block diffusion, but {model} decodes by {method}; leave it out", option[0]);
            assert!(run.code == Some(1) && run.err.contains(&wanted), "{}", run.err);
        }
    }
}

#[test]
fn bench_counts_whole_blocks_and_sub_blocks() {
    let setting = ["--setting", "whole: --sub-block 4", "--setting", "cached: --sub-block 4 --sub-block-cache"];
    let common = ["bench", &folder(), "--quick", "--json", "--mask-token-id", "317", "--prompt-tokens", "9", "--ignore-eos"];
    let report: Value = serde_json::from_str(&good(&[&common[..], &setting].concat())).unwrap();
    let passes = |i: usize| report["settings"][i]["counters"]["passes"].clone();
    assert!(passes(0)["refresh"] == 0 && passes(1)["refresh"].as_u64().unwrap() > 0, "{report}");
}

/// A model of zeros with the vocabulary of `tiny-sdar`, whose tokenizer it has.
fn zeros() -> tempfile::TempDir {
    let folder = sdar_with_template(None);
    let template = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../dlmrs/bundled/tiny-sdar/tokenizer_config.json")).unwrap();
    std::fs::write(folder.path().join("tokenizer_config.json"), template).unwrap();
    let config = json!({
        "architectures": ["Fast_dLLM_QwenForCausalLM"], "vocab_size": 640, "hidden_size": 4, "intermediate_size": 4, "num_hidden_layers": 1,
        "num_attention_heads": 1, "num_key_value_heads": 1, "hidden_act": "silu", "max_position_embeddings": 512, "rms_norm_eps": 1e-6,
        "rope_theta": 1e4, "tie_word_embeddings": true, "bd_size": 16,
    });
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    let (mut header, mut end) = (Map::new(), 0);
    let mut add = |name: &str, shape: &[usize]| {
        let begin = end;
        end += 4 * shape.iter().product::<usize>();
        header.insert(name.into(), json!({"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}));
    };
    add("model.embed_tokens.weight", &[640, 4]);
    add("model.norm.weight", &[4]);
    for norm in ["input_layernorm", "post_attention_layernorm"] {
        add(&format!("model.layers.0.{norm}.weight"), &[4]);
    }
    for part in ["self_attn.q", "self_attn.k", "self_attn.v", "self_attn.o", "mlp.gate", "mlp.up", "mlp.down"] {
        add(&format!("model.layers.0.{part}_proj.weight"), &[4, 4]);
    }
    for part in ["q", "k", "v"] {
        add(&format!("model.layers.0.self_attn.{part}_proj.bias"), &[4]);
    }
    let header = Value::from(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.resize(file.len() + end, 0);
    std::fs::write(folder.path().join("model.safetensors"), file).unwrap();
    folder
}

#[test]
fn eval_writes_down_what_was_asked() {
    let (model, out) = (zeros(), tempfile::tempdir().unwrap());
    let into = out.path().join("run");
    let options = ["--limit", "2", "--max-tokens", "20", "--sub-block", "4", "--sub-block-cache", "--threshold", "0.5", "--ignore-eos"];
    let common = ["eval", model.path().to_str().unwrap(), "--json", "--out", into.to_str().unwrap()];
    let summary: Value = serde_json::from_str(&good(&[&common[..], &options].concat())).unwrap();
    assert_eq!(summary["problems"], 2, "{summary}");
    let manifest: Value = serde_json::from_str(&std::fs::read_to_string(into.join("manifest.json")).unwrap()).unwrap();
    let wanted = json!({
        "method": "SubBlockDiffusion", "block_length": null, "sub_block": 4, "threshold": 0.5, "sub_block_cache": true,
    });
    assert_eq!(manifest["decoding"], wanted, "{manifest}");
}
