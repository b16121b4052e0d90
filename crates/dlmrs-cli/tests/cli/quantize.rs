//! `dlmrs quantize`: what it writes loads by itself; what it cannot do it says, and leaves nothing behind.

use serde_json::Value;

use crate::common::{PROBLEM, golden, good, run};
use crate::errors::fails;

#[test]
fn what_it_writes_loads_and_what_it_cost_is_told() {
    let root = tempfile::tempdir().unwrap();
    for dtype in ["int8", "int4", "int4-128"] {
        let out = root.path().join(dtype);
        let out = out.to_str().unwrap();
        let report: Value =
            serde_json::from_str(&good(&["quantize", "tiny-sdar", out, "--dtype", dtype, "--json", "--max-tokens", "16"])).unwrap();
        let number = |value: &Value| value.as_u64().unwrap();
        assert!(2 * number(&report["bytes"]) < number(&report["source_bytes"]) * if dtype == "int8" { 3 } else { 2 }, "{report}");
        let compared = &report["compared"];
        assert_eq!((&compared["source_dtype"], number(&compared["prompts"])), (&"bf16".into(), 8));
        let (same, slots) = (number(&compared["same_top_1"]), number(&compared["slots"]));
        assert!(slots >= 8 && same <= slots && 10 * same >= slots * if dtype == "int8" { 9 } else { 6 }, "{report}");
        assert!(number(&compared["same_tokens"]) <= number(&compared["tokens"]));
        let generated: Value = serde_json::from_str(good(&["generate", out, PROBLEM, "--json"]).lines().next().unwrap()).unwrap();
        assert!(!generated["token_ids"].as_array().unwrap().is_empty());
        let inspected: Value = serde_json::from_str(&good(&["inspect", out, "--json"])).unwrap();
        assert!(inspected["weights"]["dtypes"].as_array().unwrap().contains(&dtype.into()), "{inspected}");
    }
}

#[test]
fn without_comparing_and_in_words() {
    let root = tempfile::tempdir().unwrap();
    let (out, other) = (root.path().join("a"), root.path().join("b"));
    let text = good(&["quantize", "tiny-sdar-draft", out.to_str().unwrap(), "--no-compare"]);
    assert!(text.contains("matrices as int8") && !text.contains("compared"), "{text}");
    let text = good(&["quantize", "tiny-sdar-draft", other.to_str().unwrap(), "--max-tokens", "8"]);
    assert!(text.contains("compared with its source (bf16) on 8 prompts"), "{text}");
    // A model without a tokenizer is compared on token ids, or not at all.
    let third = root.path().join("c");
    let run = run(&["quantize", &golden("sdar"), third.to_str().unwrap(), "--mask-token-id", "4"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(run.err.contains("not compared: the model has no tokenizer"), "{}", run.err);
}

#[test]
fn what_it_cannot_do() {
    let root = tempfile::tempdir().unwrap();
    let there = root.path().to_str().unwrap();
    let new = root.path().join("new");
    let new = new.to_str().unwrap();
    fails(&["quantize", "tiny-sdar", there], "is there already; give a folder that is not");
    fails(&["quantize", "no/such/model", new], "model folder not found at no/such/model");
    fails(&["quantize", "tiny-sdar", &format!("{new}/deeper")], "cannot create");
    fails(&["quantize", "tiny-sdar", new, "--prompt-file", "no/such/file"], "cannot read no/such/file");
    assert_eq!(run(&["quantize", "tiny-sdar", new, "--dtype", "bf16"]).code, Some(2));
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
}
