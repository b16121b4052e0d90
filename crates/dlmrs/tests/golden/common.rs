//! Reading cases, and a model for each family and backend.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use dlmrs::{Backend, Llm, LoadOptions, Overrides};
use serde_json::Value;

pub(crate) const BACKENDS: [Backend; 2] = [Backend::Kernels, Backend::Plain];

pub(crate) fn folder(family: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(family)
}

/// The mask of every golden checkpoint.
pub(crate) const MASK: u32 = 317;

pub(crate) fn load(family: &str, backend: Backend) -> Arc<Llm> {
    load_with(family, backend, 2)
}

pub(crate) fn load_with(family: &str, backend: Backend, threads: usize) -> Arc<Llm> {
    let options = LoadOptions { device: "cpu".into(), backend, threads: Some(threads), ..LoadOptions::default() };
    let overrides = Overrides { mask_token_id: Some(MASK), ..Overrides::default() };
    Llm::load(folder(family).to_str().unwrap(), &options, &overrides).unwrap()
}

/// All cases of a kind in a file, which must not be none.
pub(crate) fn cases(family: &str, file: &str, kind: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(folder(family).join(file)).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    let cases: Vec<Value> = all["cases"].as_array().unwrap().iter().filter(|c| c["kind"] == kind).cloned().collect();
    assert!(!cases.is_empty(), "{family}/{file} has no case of kind {kind}");
    cases
}

pub(crate) fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as u32).collect()
}

pub(crate) fn size(case: &Value, key: &str) -> usize {
    case[key].as_u64().unwrap_or_else(|| panic!("{} has no {key}", case["name"])) as usize
}

/// Recorded logits by name, [rows, V].
pub(crate) fn recorded(family: &str, file: &str) -> HashMap<String, Vec<Vec<f32>>> {
    let tensors = candle_core::safetensors::load(folder(family).join(file), &candle_core::Device::Cpu).unwrap();
    tensors.into_iter().map(|(name, t)| (name, t.to_vec2().unwrap())).collect()
}

pub(crate) fn assert_close(name: &str, found: &[Vec<f32>], wanted: &[Vec<f32>]) {
    assert_eq!(found.len(), wanted.len(), "{name}: rows");
    for (row, (f, w)) in found.iter().zip(wanted).enumerate() {
        assert_eq!(f.len(), w.len(), "{name}: columns");
        let worst = f.iter().zip(w).map(|(f, w)| (f - w).abs()).fold(0.0, f32::max);
        assert!(worst <= 2e-4, "{name}: row {row} differs by {worst}");
    }
}
