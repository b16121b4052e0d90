//! Mask id, block length, stop ids and longest sequence: who is asked first.

use std::fs;

use dlmrs::checkpoint::{Facts, Folder, ModelConfig, Overrides, facts};
use dlmrs::{Error, Result};
use serde_json::json;

use crate::common::{Copy, refused};

fn settle(copy: &Copy, mask: Option<u32>, eos: Option<u32>, overrides: &Overrides) -> Result<Facts> {
    facts(&copy.folder(), &copy.read()?, mask, eos, overrides)
}

fn mask(id: u32) -> Overrides {
    Overrides { mask_token_id: Some(id), ..Overrides::default() }
}

/// An SDAR config with a vocabulary like the public one's and nothing else that tells.
fn public() -> Copy {
    Copy::config_only("sdar").set("vocab_size", json!(151_936)).without("eos_token_id")
}

#[test]
fn mask_token_order() {
    let found = |copy: &Copy, tokenizer, overrides: &Overrides| {
        let facts = settle(copy, tokenizer, None, overrides).unwrap();
        (facts.mask_token_id, facts.mask_token_id_from)
    };
    let configured = public().set("mask_token_id", json!(5));
    assert_eq!(found(&configured, Some(6), &mask(7)), (7, "the caller"));
    assert_eq!(found(&configured, Some(6), &Overrides::default()), (5, "config.json"));
    assert_eq!(found(&public().set("text_mask_token_id", json!(9)), Some(6), &Overrides::default()), (9, "config.json"));
    assert_eq!(found(&public(), Some(6), &Overrides::default()), (6, "the tokenizer"));
    assert_eq!(found(&public(), None, &Overrides::default()), (151_669, "the family's default"));
}

#[test]
fn mask_token_unknown_or_out_of_range() {
    let golden = Copy::config_only("sdar");
    refused(settle(&golden, None, None, &Overrides::default()), &["mask_token_id", "SDAR", "151669", "320", "give mask_token_id"]);
    assert_eq!(settle(&golden, None, None, &mask(317)).unwrap().mask_token_id, 317);
    refused(settle(&golden, None, None, &mask(320)), &["mask_token_id: is 320", "below 320"]);
    refused(settle(&golden, Some(400), None, &Overrides::default()), &["tokenizer", "400", "below 320"]);
    let configured = Copy::config_only("sdar").set("mask_token_id", json!(151_669));
    refused(settle(&configured, None, None, &mask(317)), &["config.json", "mask_token_id is 151669", "320"]);
    refused(settle(&golden, None, None, &mask(318)), &["318", "stop token"]);
}

#[test]
fn stop_token_order() {
    let found = |copy: &Copy, tokenizer| {
        let facts = settle(copy, None, tokenizer, &mask(317)).unwrap();
        (facts.stop_token_ids, facts.stop_token_ids_from)
    };
    // A vocabulary of 320, which the family's usual ids lie beyond.
    let small = || Copy::config_only("sdar").without("eos_token_id");
    let both = small().set("eos_token_id", json!(8));
    both.write("generation_config.json", r#"{"eos_token_id": [9, 2, 8]}"#);
    assert_eq!(found(&both, Some(3)), (vec![2, 8, 9], "generation_config.json and config.json"));
    let generation = small();
    generation.write("generation_config.json", r#"{"eos_token_id": 9}"#);
    assert_eq!(found(&generation, Some(3)), (vec![9], "generation_config.json"));
    generation.write("generation_config.json", r#"{"eos_token_id": null}"#);
    assert_eq!(found(&generation, Some(3)), (vec![3], "the tokenizer"));
    assert_eq!(found(&small().set("eos_token_id", json!([4, 4])), Some(3)), (vec![4], "config.json"));
    // The public vocabulary: what the family ends a turn with counts besides.
    let family = |ids: &[u32]| [ids, &[151_643, 151_645]].concat();
    let both = public().set("eos_token_id", json!(8));
    both.write("generation_config.json", r#"{"eos_token_id": [9]}"#);
    assert_eq!(found(&both, None), (family(&[8, 9]), "generation_config.json, config.json and the family's default"));
    assert_eq!(found(&public().set("eos_token_id", json!(4)), None), (family(&[4]), "config.json and the family's default"));
    assert_eq!(found(&public(), Some(3)), (family(&[3]), "the tokenizer and the family's default"));
    let all = public().set("eos_token_id", json!([151_645, 151_643]));
    assert_eq!(found(&all, None), (family(&[]), "config.json"));
    assert_eq!(found(&public(), None), (vec![151_643, 151_645], "the family's default"));
    assert_eq!(found(&Copy::config_only("sdar").without("eos_token_id"), None), (vec![], "nowhere"));
    let llada = Copy::config_only("llada").set("vocab_size", json!(126_464)).set("embedding_size", json!(126_464));
    // LLaDA's own files name the end of text and not the end of a turn.
    let named = llada.set("eos_token_id", json!(126_081));
    assert_eq!(found(&named, None), (vec![126_081, 126_348], "config.json and the family's default"));
    assert_eq!(found(&named.without("eos_token_id"), None), (vec![126_081, 126_348], "the family's default"));
}

#[test]
fn stop_tokens_out_of_range() {
    let copy = Copy::config_only("sdar");
    copy.write("generation_config.json", r#"{"eos_token_id": [318, 999]}"#);
    refused(settle(&copy, None, None, &mask(317)), &["generation_config.json", "eos_token_id is 999", "below 320"]);
    copy.write("generation_config.json", "{\n\n}}");
    refused(settle(&copy, None, None, &mask(317)), &["generation_config.json", "line 3"]);
    let nothing = Copy::config_only("sdar").without("eos_token_id");
    refused(settle(&nothing, None, Some(999), &mask(317)), &["tokenizer", "999"]);
}

#[test]
fn block_length_order() {
    let temp = tempfile::tempdir().unwrap();
    let found = |name: &str, config: &Copy, given: Option<usize>| {
        let path = temp.path().join(name);
        fs::create_dir_all(&path).unwrap();
        fs::copy(config.path("config.json"), path.join("config.json")).unwrap();
        let folder = Folder::open(path.to_str().unwrap()).unwrap();
        let overrides = Overrides { block_length: given, ..mask(317) };
        let facts = facts(&folder, &ModelConfig::read(&folder).unwrap(), None, None, &overrides).unwrap();
        assert!(facts.block_length_baked);
        (facts.block_length.unwrap(), facts.block_length_from)
    };
    let bare = Copy::config_only("sdar");
    let configured = Copy::config_only("sdar").set("block_size", json!(2)).set("block_length", json!(3));
    assert_eq!(found("SDAR-8B-Chat-b8", &configured, Some(6)), (6, "the caller"));
    assert_eq!(found("SDAR-8B-Chat-b8", &configured, None), (2, "config.json"));
    assert_eq!(found("SDAR-8B-Chat-b8", &bare, None), (8, "the folder's name"));
    assert_eq!(found("SDAR-8B-Chat-b64/", &bare, None), (64, "the folder's name"));
    for plain in ["SDAR-8B-Chat", "SDAR-b", "SDAR-b0", "SDAR-b8x", "SDAR-b+8", "SDAR-b99999999999999999999", "SDAR-b4096"] {
        assert_eq!(found(plain, &bare, None), (4, "the family's default"), "{plain}");
    }
    for key in ["bd_size", "canvas_length", "block_length"] {
        assert_eq!(found("x", &Copy::config_only("sdar").set(key, json!(16)), None), (16, "config.json"));
    }
}

/// A Fast-dLLM v2 config with a vocabulary like the public one's and nothing else that tells.
#[test]
fn what_a_bare_fast_dllm_v2_config_means() {
    let copy = Copy::config_only("fast_dllm_v2").set("vocab_size", json!(151_936)).without("eos_token_id").without("bd_size");
    let found = settle(&copy, None, None, &Overrides::default()).unwrap();
    assert_eq!((found.mask_token_id, found.block_length, found.block_length_baked), (151_665, Some(32), true));
    assert_eq!((found.stop_token_ids, found.block_length_from), (vec![151_645], "the family's default"));
    let golden = settle(&Copy::config_only("fast_dllm_v2"), None, None, &mask(317)).unwrap();
    assert_eq!((golden.block_length, golden.block_length_from), (Some(8), "config.json"));
    assert_eq!(golden.stop_token_ids, [318]);
    let unknown = settle(&Copy::config_only("fast_dllm_v2"), None, None, &Overrides::default());
    refused(unknown, &["mask_token_id", "Fast-dLLM v2", "151665", "320", "give mask_token_id"]);
}

#[test]
fn block_length_without_a_grid() {
    let llada = Copy::config_only("llada").set("block_size", json!(32));
    let facts = settle(&llada, None, None, &Overrides::default()).unwrap();
    assert_eq!((facts.block_length, facts.block_length_baked), (None, false));
    let given = Overrides { block_length: Some(32), ..Overrides::default() };
    assert_eq!(settle(&llada, None, None, &given).unwrap().block_length, Some(32));
}

#[test]
fn overrides_out_of_range() {
    let copy = Copy::config_only("sdar");
    for length in [0, 1025] {
        let overrides = Overrides { max_model_len: Some(length), ..mask(317) };
        let error = refused(settle(&copy, None, None, &overrides), &["max_model_len", &length.to_string(), "1024"]);
        assert!(matches!(error, Error::Input { .. }));
        let overrides = Overrides { block_length: Some(length), ..mask(317) };
        refused(settle(&copy, None, None, &overrides), &["block_length", &length.to_string(), "1024"]);
    }
    let shorter = Overrides { max_model_len: Some(100), ..mask(317) };
    let facts = settle(&copy, None, None, &shorter).unwrap();
    assert_eq!((facts.max_model_len, facts.max_model_len_from), (100, "the caller"));
    let facts = settle(&copy, None, None, &mask(317)).unwrap();
    assert_eq!((facts.max_model_len, facts.max_model_len_from), (1024, "config.json"));
}
