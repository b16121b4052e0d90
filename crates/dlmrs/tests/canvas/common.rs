//! Models and requests.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dlmrs::decode::{CacheMode, Canvas, Decoding, Suffix, SuffixDropout};
use dlmrs::{Backend, Llm, LoadOptions, Output, Overrides, Request, SamplingParams};

pub(crate) const CACHES: [CacheMode; 3] = [CacheMode::None, CacheMode::Prefix, CacheMode::Dual];
pub(crate) const CACHED: [CacheMode; 2] = [CacheMode::Prefix, CacheMode::Dual];
pub(crate) const FAMILIES: [&str; 2] = ["llada", "dream"];

fn folder(family: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(family)
}

pub(crate) fn load(folder: &Path, threads: usize, backend: Backend) -> Arc<Llm> {
    let options = LoadOptions { device: "cpu".into(), threads: Some(threads), backend, ..LoadOptions::default() };
    Llm::load(folder.to_str().unwrap(), &options, &Overrides { mask_token_id: Some(317), ..Overrides::default() }).unwrap()
}

pub(crate) fn golden(family: &str) -> Arc<Llm> {
    load(&folder(family), 2, Backend::Auto)
}

pub(crate) fn golden_with(family: &str, threads: usize, backend: Backend) -> Arc<Llm> {
    load(&folder(family), threads, backend)
}

/// The first layer of a golden checkpoint with its output head.
pub(crate) fn one_layer(family: &str) -> Arc<Llm> {
    let copy = tempfile::tempdir().unwrap();
    let config = std::fs::read_to_string(folder(family).join("config.json")).unwrap();
    let mut config: serde_json::Value = serde_json::from_str(&config).unwrap();
    let key = if family == "llada" { "n_layers" } else { "num_hidden_layers" };
    assert_eq!(config[key], 3);
    config[key] = 1.into();
    if config["moe_layer_freq"].is_array() {
        config["moe_layer_freq"] = serde_json::json!([1]);
    }
    std::fs::write(copy.path().join("config.json"), config.to_string()).unwrap();
    let mut tensors = candle_core::safetensors::load(folder(family).join("model.safetensors"), &candle_core::Device::Cpu).unwrap();
    tensors.retain(|name, _| ["layers.1.", "layers.2.", "blocks.1.", "blocks.2."].iter().all(|layer| !name.contains(layer)));
    candle_core::safetensors::save(&tensors, copy.path().join("model.safetensors")).unwrap();
    load(copy.path(), 2, Backend::Auto)
}

pub(crate) fn bundled() -> Arc<Llm> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("bundled/tiny-llada");
    let options = LoadOptions { device: "cpu".into(), threads: Some(2), ..LoadOptions::default() };
    Llm::load(folder.to_str().unwrap(), &options, &Overrides::default()).unwrap()
}

/// Some tokens, none of them special.
pub(crate) fn prompt(length: usize) -> Vec<u32> {
    (0..length).map(|i| ((i * 37 + 11) % 300) as u32).collect()
}

pub(crate) fn params(max_tokens: usize) -> SamplingParams {
    SamplingParams { max_tokens, ignore_eos: true, seed: Some(7), trace: true, ..SamplingParams::default() }
}

pub(crate) fn request(prompt: Vec<u32>, max_tokens: usize, canvas: Canvas) -> Request {
    Request { prompt, params: params(max_tokens), decoding: Some(Decoding::Canvas(canvas)) }
}

pub(crate) fn one(llm: &Arc<Llm>, request: Request) -> Output {
    llm.generate(vec![request], |_, _| true).unwrap().remove(0)
}

/// A prompt of 9 tokens and an answer of 40 in blocks of 8.
pub(crate) fn run(llm: &Arc<Llm>, canvas: Canvas) -> Output {
    one(llm, request(prompt(9), 40, Canvas { block_length: canvas.block_length.or(Some(8)), ..canvas }))
}

/// A cache and a suffix.
pub(crate) fn with(cache: CacheMode, suffix: Suffix) -> Canvas {
    Canvas { cache, suffix, threshold: Some(0.4), ..Canvas::default() }
}

/// About half of what is near.
pub(crate) fn half() -> Suffix {
    Suffix::Dropout(SuffixDropout { window: Some(16), k: Some(2.0), a: Some(1.6), ..SuffixDropout::default() })
}
