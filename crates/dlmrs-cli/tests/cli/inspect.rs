//! `dlmrs inspect`.

use crate::common::{golden, good, run};

#[test]
fn text() {
    let out = good(&["inspect", "tiny-llada"]);
    for line in [
        "family          LLaDA (LLaDAModelLM)",
        "mask token      3 (from config.json)",
        "weights         BF16 in 1 file, 6.25 MB",
        "methods         Canvas: identical",
        "                Canvas(cache=\"dual\"): approximate",
    ] {
        assert!(out.lines().any(|l| l == line), "{line} in {out}");
    }
    assert!(out.ends_with('\n') && !out.ends_with("\n\n"));
}

#[test]
fn json() {
    let out = good(&["inspect", "tiny-sdar", "--json", "--mask-token-id", "7", "--max-model-len", "100"]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["family"], "SDAR");
    assert_eq!(report["mask_token_id"], serde_json::json!({"value": 7, "from": "the caller"}));
    assert_eq!(report["max_model_len"]["value"], 100);
    assert_eq!(report["block_length"]["value"], 4);
}

#[test]
fn folders_without_a_tokenizer_and_folders_that_are_none() {
    assert!(good(&["inspect", &golden("llada")]).contains("LLaDA"));
    let empty = tempfile::tempdir().unwrap();
    let run = run(&["inspect", empty.path().to_str().unwrap()]);
    assert_eq!(run.code, Some(1));
    assert!(run.err.starts_with("dlmrs: error: config.json not found"), "{}", run.err);
}
