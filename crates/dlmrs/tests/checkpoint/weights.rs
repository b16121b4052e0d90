//! Weights that are missing, surplus, doubled, misshaped, cut short or not numbers.

use std::fs;

use dlmrs::Error;
use dlmrs::checkpoint::{StoredType, Weights};
use half::{bf16, f16};
use safetensors::Dtype;
use serde_json::json;

use crate::common::{Copy, FIRST, INDEX, SECOND, Tensor, golden, read_tensors, refused, safetensors};

const Q: &str = "model.layers.1.self_attn.q_proj.weight";

#[test]
fn golden_checkpoints_open() {
    for family in ["sdar", "sdar_tied", "sdar_onelayer", "llada", "dream"] {
        let copy = Copy::of(family);
        let (config, weights) = (copy.read().unwrap(), copy.open().unwrap());
        assert_eq!(weights.parameters(), config.parameters(), "{family}");
        assert_eq!(weights.stored_bytes(), 4 * config.parameters());
        assert_eq!(weights.stored_dtypes(), ["F32"]);
        assert_eq!(weights.has_head(), !config.tied);
        for (name, tensor) in read_tensors(&golden(family).join("model.safetensors")) {
            let bytes: Vec<u8> = weights.load_f32(&name).unwrap().iter().flat_map(|value| value.to_le_bytes()).collect();
            assert_eq!(bytes, tensor.bytes);
            assert_eq!(weights.shape(&name), Some(tensor.shape.as_slice()));
            assert_eq!(weights.dtype(&name), Some(StoredType::F32));
        }
    }
}

#[test]
fn absent_tensor_asked_for() {
    let weights = Copy::of("sdar_tied").open().unwrap();
    assert!(!weights.has("lm_head.weight") && weights.shape("lm_head.weight").is_none());
    refused(weights.load_f32("lm_head.weight"), &["model.safetensors", "no tensor lm_head.weight"]);
}

#[test]
fn half_precision_is_widened_exactly() {
    let numbers = [0.0_f32, -0.0, 1.0, -2.5, 1.0e-8, 65504.0, 0.333_251_95];
    for dtype in [Dtype::BF16, Dtype::F16] {
        let mut wanted = Vec::new();
        let copy = Copy::of("sdar_onelayer").tensors(|tensors| {
            let norm = tensors.get_mut("model.norm.weight").unwrap();
            norm.dtype = dtype;
            norm.bytes.clear();
            for number in numbers.iter().cycle().take(48) {
                let (bytes, value) = match dtype {
                    Dtype::BF16 => (bf16::from_f32(*number).to_le_bytes(), bf16::from_f32(*number).to_f32()),
                    _ => (f16::from_f32(*number).to_le_bytes(), f16::from_f32(*number).to_f32()),
                };
                norm.bytes.extend(bytes);
                wanted.push(value);
            }
        });
        let weights = copy.open().unwrap();
        assert_eq!(weights.load_f32("model.norm.weight").unwrap(), wanted);
        assert_eq!(weights.stored_dtypes().len(), 2);
    }
}

#[test]
fn shards_equal_the_single_file() {
    for family in ["sdar", "llada"] {
        let single = Copy::of(family).open().unwrap();
        let copy = Copy::of(family).sharded();
        let sharded = copy.open().unwrap();
        assert_eq!(sharded.files().len(), 2);
        assert_eq!((single.parameters(), single.stored_bytes()), (sharded.parameters(), sharded.stored_bytes()));
        for name in read_tensors(&golden(family).join("model.safetensors")).keys() {
            assert_eq!(single.load_f32(name).unwrap(), sharded.load_f32(name).unwrap());
        }
    }
}

#[test]
fn missing_surplus_and_misshaped_tensors() {
    let missing = Copy::of("sdar").tensors(|tensors| drop(tensors.remove(Q)));
    refused(missing.open(), &[Q, "[128, 48] is missing", "model.safetensors"]);
    let headless = Copy::of("sdar").tensors(|tensors| drop(tensors.remove("lm_head.weight")));
    refused(headless.open(), &["lm_head.weight [320, 48] is missing"]);
    let surplus = Copy::of("sdar").tensors(|tensors| drop(tensors.insert("model.extra".into(), Tensor::zeros(Dtype::F32, &[2]))));
    refused(surplus.open(), &["model.extra in", "model.safetensors", "belongs to no SDAR model"]);
    let misshaped = Copy::of("sdar").tensors(|tensors| drop(tensors.insert(Q.into(), Tensor::zeros(Dtype::F32, &[48, 128]))));
    refused(misshaped.open(), &[Q, "[48, 128]", "must be [128, 48]", "model.safetensors"]);
    let flat = Copy::of("sdar").tensors(|tensors| drop(tensors.insert(Q.into(), Tensor::zeros(Dtype::F32, &[128 * 48]))));
    refused(flat.open(), &[Q, "[6144]"]);
}

#[test]
fn many_problems_are_counted() {
    // A fourth layer in the config: eleven tensors too few, all named.
    let copy = Copy::of("sdar").set("num_hidden_layers", json!(4));
    refused(copy.open(), &["11 problems", "model.layers.3.input_layernorm.weight", "model.layers.3.self_attn.k_norm.weight"]);
    // The other way round.
    let copy = Copy::of("sdar").set("num_hidden_layers", json!(2));
    refused(copy.open(), &["11 problems", "model.layers.2.input_layernorm.weight"]);
    // Six layers too few: nobody reads so many names.
    let copy = Copy::of("sdar").set("num_hidden_layers", json!(9));
    refused(copy.open(), &["66 problems", "model.layers.3.input_layernorm.weight", "and 46 more"]);
}

#[test]
fn tied_and_stored_heads() {
    // The config ties, but a head is stored: it counts, so it must have the right shape.
    let stored = Copy::of("sdar").set("tie_word_embeddings", json!(true));
    assert!(stored.open().unwrap().has_head());
    let wrong = stored.tensors(|tensors| drop(tensors.insert("lm_head.weight".into(), Tensor::zeros(Dtype::F32, &[320, 40]))));
    refused(wrong.open(), &["lm_head.weight", "[320, 40]"]);
    let llada = Copy::of("llada").tensors(|tensors| drop(tensors.remove("model.transformer.ff_out.weight")));
    refused(llada.open(), &["model.transformer.ff_out.weight"]);
    assert!(!llada.set("weight_tying", json!(true)).open().unwrap().has_head());
}

#[test]
fn rotary_buffers_are_ignored() {
    let copy = Copy::of("sdar").tensors(|tensors| {
        tensors.insert("model.layers.0.self_attn.rotary_emb.inv_freq".into(), Tensor::zeros(Dtype::F64, &[7]));
        tensors.insert("model.rotary_emb.inv_freq".into(), Tensor::zeros(Dtype::I64, &[1]));
    });
    let weights = copy.open().unwrap();
    assert_eq!(weights.parameters(), copy.read().unwrap().parameters());
    assert!(!weights.has("model.rotary_emb.inv_freq"));
}

#[test]
fn types_that_are_not_read() {
    for dtype in [Dtype::F64, Dtype::I8, Dtype::F8_E4M3] {
        let copy = Copy::of("sdar").tensors(|tensors| drop(tensors.insert(Q.into(), Tensor::zeros(dtype, &[128, 48]))));
        refused(copy.open(), &[Q, &dtype.to_string(), "F32, BF16 and F16"]);
    }
}

#[test]
fn numbers_that_are_none() {
    for (number, word) in [(f32::NAN, "NaN"), (f32::INFINITY, "infinite"), (f32::NEG_INFINITY, "infinite")] {
        for dtype in [Dtype::F32, Dtype::BF16, Dtype::F16] {
            let copy = Copy::of("sdar").tensors(|tensors| {
                let mut tensor = Tensor::zeros(dtype, &[128, 48]);
                match dtype {
                    Dtype::F32 => tensor.bytes[4 * 6143..].copy_from_slice(&number.to_le_bytes()),
                    Dtype::BF16 => tensor.bytes[2 * 6143..].copy_from_slice(&bf16::from_f32(number).to_le_bytes()),
                    _ => tensor.bytes[2 * 6143..].copy_from_slice(&f16::from_f32(number).to_le_bytes()),
                }
                tensors.insert(Q.into(), tensor);
            });
            let error = refused(copy.open().unwrap().load_f32(Q), &[Q, "model.safetensors", word]);
            assert!(matches!(error, Error::NotFinite { .. }));
        }
    }
}

#[test]
fn files_cut_short_or_too_long() {
    let copy = Copy::of("sdar_onelayer");
    let whole = fs::read(copy.path("model.safetensors")).unwrap();
    for cut in (0..whole.len()).step_by(997).chain([1, 7, 8, 9, whole.len() - 1]) {
        copy.write("model.safetensors", &whole[..cut]);
        refused(copy.open(), &["model.safetensors", &cut.to_string()]);
    }
    copy.write("model.safetensors", &whole[..whole.len() - 4]);
    refused(copy.open(), &["cut short", &whole.len().to_string(), &(whole.len() - 4).to_string()]);
    copy.write("model.safetensors", [whole.as_slice(), b"tail"].concat());
    refused(copy.open(), &["tail", &whole.len().to_string(), &(whole.len() + 4).to_string()]);
}

#[test]
fn headers_of_all_kinds() {
    let copy = Copy::of("sdar_onelayer");
    let file = |length: u64, rest: &str| [&length.to_le_bytes()[..], rest.as_bytes()].concat();
    let huge = usize::MAX / 8 - 1;
    let overflow: Vec<String> = (0..8)
        .map(|i| format!(r#""t{i}":{{"dtype":"U8","shape":[{n}],"data_offsets":[{},{}]}}"#, i * huge, (i + 1) * huge, n = huge))
        .collect();
    for header in [
        "",
        "{",
        "[]",
        "null",
        "{\"a\": 1}",
        r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#,
        r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}"#,
        r#"{"a":{"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,4]}}"#,
        r#"{"a":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}}"#,
        &format!("{{{}}}", overflow.join(",")),
        &"[".repeat(5000),
    ] {
        copy.write("model.safetensors", file(header.len() as u64, header));
        refused(copy.open(), &["model.safetensors"]);
    }
    for length in [u64::MAX, u64::MAX - 7, 1 << 40, 100_000_001, 3] {
        copy.write("model.safetensors", file(length, "{}"));
        refused(copy.open(), &["model.safetensors", &length.to_string()]);
    }
    // Any flipped byte of a header is an answer or an error, never a panic.
    let whole = fs::read(golden("sdar_onelayer").join("model.safetensors")).unwrap();
    let folder = copy.folder();
    let config = copy.read().unwrap();
    for place in 0..1416 {
        let mut bytes = whole.clone();
        bytes[place] ^= 1 << (place % 8);
        copy.write("model.safetensors", bytes);
        if let Ok(weights) = Weights::open(&folder, &config) {
            assert_eq!(weights.parameters(), config.parameters());
        }
    }
}

#[test]
fn indexes_that_are_wrong() {
    let first = |copy: &Copy| read_tensors(&copy.path(FIRST)).into_keys().next().unwrap();
    let gone = Copy::of("sdar").sharded();
    fs::remove_file(gone.path(SECOND)).unwrap();
    refused(gone.open(), &[INDEX, SECOND, "missing"]);

    let copy = Copy::of("sdar").sharded();
    let name = first(&copy);
    let wrong = copy.index(|map| map[&name] = json!(SECOND));
    refused(wrong.open(), &[INDEX, &name]);
    let unlisted = Copy::of("sdar").sharded().index(|map| drop(map.remove(&name)));
    refused(unlisted.open(), &[INDEX, &name, FIRST, "does not list"]);
    let invented = Copy::of("sdar").sharded().index(|map| drop(map.insert("model.extra".into(), json!(FIRST))));
    refused(invented.open(), &["model.extra", FIRST, "no such tensor"]);

    for bad in ["../model.safetensors", "/etc/passwd", "a/b", "..", ".", "", "x/"] {
        let outside = Copy::of("sdar").sharded().index(|map| map[&name] = json!(bad));
        refused(outside.open(), &[INDEX, &name, "same folder"]);
    }
    let number = Copy::of("sdar").sharded().index(|map| map[&name] = json!(7));
    refused(number.open(), &[INDEX, "7"]);

    let copy = Copy::of("sdar").sharded();
    for (content, word) in [("{}", "weight_map is missing"), ("{\"weight_map\": {}}", "empty"), ("{\"weight_map\": 3}", "weight_map")] {
        copy.write(INDEX, content);
        refused(copy.open(), &[INDEX, word]);
    }
}

#[test]
fn shards_that_are_wrong() {
    let copy = Copy::of("sdar").sharded();
    let whole = fs::read(copy.path(SECOND)).unwrap();
    copy.write(SECOND, &whole[..whole.len() - 1]);
    refused(copy.open(), &[SECOND, "cut short", &whole.len().to_string(), &(whole.len() - 1).to_string()]);

    // One tensor in both shards, which an index cannot even say.
    let copy = Copy::of("sdar").sharded();
    let mut second = read_tensors(&copy.path(SECOND));
    let (name, tensor) = read_tensors(&copy.path(FIRST)).into_iter().next().unwrap();
    second.insert(name.clone(), tensor);
    copy.write(SECOND, safetensors(&second));
    refused(copy.open(), &[&name, SECOND]);
}

#[test]
fn no_weights_or_pickles() {
    let copy = Copy::config_only("sdar");
    let error = refused(copy.open(), &["weights not found", "model.safetensors"]);
    assert!(matches!(error, Error::NotFound { .. }));
    assert!(Weights::find(&copy.folder(), &copy.read().unwrap()).unwrap().is_none());
    copy.write("pytorch_model.bin", "PK");
    refused(copy.open(), &["pytorch_model.bin", "only safetensors are read"]);
    fs::create_dir(copy.path("model.safetensors")).unwrap();
    refused(copy.open(), &["model.safetensors", "regular file"]);
}
