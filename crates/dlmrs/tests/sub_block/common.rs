//! The golden checkpoint, and requests for it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dlmrs::decode::{Decoding, SubBlockDiffusion};
use dlmrs::{Backend, Llm, LoadOptions, Output, Overrides, Request, SamplingParams};

pub(crate) const MASK: u32 = 317;

pub(crate) fn folder(family: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(family)
}

pub(crate) fn load_with(path: &Path, backend: Backend, threads: usize, mask_token_id: u32) -> Arc<Llm> {
    let options = LoadOptions { device: "cpu".into(), backend, threads: Some(threads), ..LoadOptions::default() };
    Llm::load(path.to_str().unwrap(), &options, &Overrides { mask_token_id: Some(mask_token_id), ..Overrides::default() }).unwrap()
}

pub(crate) fn load() -> Arc<Llm> {
    load_with(&folder("fast_dllm_v2"), Backend::Kernels, 2, MASK)
}

/// No stops, so that lengths are known.
pub(crate) fn params(max_tokens: usize) -> SamplingParams {
    SamplingParams { max_tokens, ignore_eos: true, seed: Some(1), ..SamplingParams::default() }
}

pub(crate) fn settings(sub_block: usize, threshold: f32) -> SubBlockDiffusion {
    SubBlockDiffusion { sub_block: Some(sub_block), threshold: Some(threshold), ..SubBlockDiffusion::default() }
}

pub(crate) fn request(prompt: &[u32], params: SamplingParams, settings: SubBlockDiffusion) -> Request {
    Request { prompt: prompt.to_vec(), params, decoding: Some(Decoding::SubBlock(settings)) }
}

pub(crate) fn one(llm: &Arc<Llm>, request: Request) -> Output {
    llm.generate(vec![request], |_, _| true).unwrap().remove(0)
}
