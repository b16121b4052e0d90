//! Checkpoints written with rounded weights: they compute what the source computes when it is rounded as it is loaded, and are refused
//! where they are damaged.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dlmrs::checkpoint::{Folder, Quantised, quantise};
use dlmrs::{Error, Llm, LoadOptions, Overrides, Precision};
use serde_json::Value;
use tempfile::TempDir;

const INT4: Precision = Precision::Int4;
const INT4_WIDE: Precision = Precision::Int4Wide;

fn source(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let bundled = root.join("bundled").join(name);
    if bundled.exists() { bundled } else { root.join("../../tests/golden").join(name) }
}

fn write(name: &str, out: &Path, precision: Precision) -> Result<Quantised, Error> {
    quantise(&Folder::Disk(source(name)), out, precision, Some(2), &mut |_, _| true)
}

fn load(folder: &Path, dtype: Precision) -> Result<Arc<Llm>, Error> {
    let options = LoadOptions { device: "cpu".into(), dtype, threads: Some(2), ..LoadOptions::default() };
    Llm::load(folder.to_str().unwrap(), &options, &Overrides { mask_token_id: Some(4), ..Overrides::default() })
}

fn logits(llm: &Llm) -> Vec<Vec<f32>> {
    let tokens: Vec<u32> = (0..24).map(|i| if i % 3 == 2 { 4 } else { i * 37 % 300 + 10 }).collect();
    llm.logits(&tokens, None, None, None).unwrap()
}

#[test]
fn what_was_written_is_the_source_rounded_as_it_is_loaded() {
    let root = TempDir::new().unwrap();
    for name in ["tiny-sdar", "tiny-llada", "dream", "sdar_tied", "sdar_moe", "llada2_moe", "fast_dllm_v2"] {
        for dtype in [Precision::Int8, INT4, INT4_WIDE] {
            let out = root.path().join(format!("{name}-{}", dtype.name()));
            let written = write(name, &out, dtype).unwrap();
            assert!(written.bytes < written.source_bytes && written.matrices > 10, "{name}: {written:?}");
            let (rounded, wanted) = (load(&out, Precision::Auto).unwrap(), load(&source(name), dtype).unwrap());
            assert_eq!(rounded.model().weights(), dtype.name(), "{name}");
            assert!(logits(&rounded) == logits(&wanted), "{name} as {}", dtype.name());
            // Any other type starts from the rounded weights.
            let wide = load(&out, Precision::F32).unwrap();
            assert_eq!((wide.model().weights(), wide.config()), ("f32", rounded.config()));
        }
    }
}

#[test]
fn it_stands_alone_and_is_not_written_over() {
    let root = TempDir::new().unwrap();
    let out = root.path().join("rounded");
    write("tiny-sdar", &out, Precision::Int8).unwrap();
    let files: Vec<_> = std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(files.contains(&"model.safetensors".into()) && files.contains(&"tokenizer.json".into()), "{files:?}");
    let config: Value = serde_json::from_slice(&std::fs::read(out.join("config.json")).unwrap()).unwrap();
    assert_eq!(config["quantization_config"]["dtype"], "int8");
    let report = Llm::inspect(out.to_str().unwrap(), &Overrides::default()).unwrap();
    assert_eq!(report.weights.unwrap().dtypes, ["F32", "BF16", "int8"].map(String::from)[1..]);
    for (error, message) in [
        (write("tiny-sdar", &out, Precision::Int8), "rounded is there already; give a folder that is not"),
        (write("tiny-sdar", &root.path().join("other"), Precision::Bf16), "dtype: is bf16, which rounds nothing"),
        (quantise(&Folder::Disk(out.clone()), &root.path().join("other"), INT4, None, &mut |_, _| true), "model: is rounded already"),
    ] {
        let error = error.unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    // Neither an error nor an interruption leaves anything.
    let stopped = quantise(&Folder::Disk(source("tiny-sdar")), &root.path().join("other"), INT4, None, &mut |done, _| done < 5);
    assert!(matches!(stopped, Err(Error::Interrupted)));
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1);
}

/// Changes the header of a written checkpoint (and its data not).
fn damaged(out: &Path, change: impl Fn(&str) -> String) -> String {
    let path = out.join("model.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header = change(std::str::from_utf8(&bytes[8..8 + length]).unwrap());
    let whole = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &bytes[8 + length..]].concat();
    std::fs::write(&path, whole).unwrap();
    let error = load(out, Precision::Auto).map(|_| ()).unwrap_err().to_string();
    std::fs::write(&path, bytes).unwrap();
    error
}

#[test]
fn damage_is_named() {
    let root = TempDir::new().unwrap();
    let out = root.path().join("rounded");
    write("sdar", &out, INT4).unwrap();
    let q = "model.layers.0.self_attn.q_proj.weight";
    for (from, to, message) in [
        (format!("{q}.int4"), format!("{q}.int8"), "has the shape [128, 28], but must be bytes [128, 50]"),
        (format!("{q}.int4"), format!("{q}.int3"), "q_proj.weight [128, 48] is missing"),
        ("model.norm.weight".into(), "model.norm.weight.int8".into(), "is stored as int8, but only matrices are"),
        (format!("{q}.int4"), "model.layers.0.self_attn.k_proj.weight".into(), "k_proj.weight is stored twice"),
    ] {
        let error = damaged(&out, |header| header.replacen(&from, &to, 1));
        assert!(error.contains(message), "{error}");
    }
    let config = std::fs::read_to_string(out.join("config.json")).unwrap().replace("\"dlmrs\"", "\"gptq\"");
    std::fs::write(out.join("config.json"), config).unwrap();
    let error = load(&out, Precision::Auto).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("only those that dlmrs quantize writes are supported"), "{error}");
}

/// Whatever stands in the file: it loads and computes, or one sentence says why not.
#[test]
fn bytes_changed_at_random_do_no_harm() {
    let root = TempDir::new().unwrap();
    let out = root.path().join("rounded");
    write("sdar_onelayer", &out, Precision::Int8).unwrap();
    let path = out.join("model.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut state = 7u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let (mut loaded, mut refused) = (0, 0);
    for round in 0..200 {
        let mut changed = bytes.clone();
        // Half of them in the header, where they do most.
        let place = if round % 2 == 0 { next(header) } else { header + next(bytes.len() - header) };
        changed[place] ^= 1 << next(8);
        std::fs::write(&path, changed).unwrap();
        match load(&out, Precision::Auto) {
            Ok(llm) => {
                loaded += 1;
                let tokens: Vec<u32> = (10..20).collect();
                // Scales may have become enormous: an error says so.
                let _ = llm.logits(&tokens, None, None, None);
            }
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().contains('\n') && error.to_string().len() < 5000, "{error}");
            }
        }
    }
    assert!(loaded > 20 && refused > 20, "{loaded} loaded, {refused} refused");
}
