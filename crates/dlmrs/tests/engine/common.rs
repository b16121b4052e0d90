use std::path::Path;
use std::sync::Arc;

use dlmrs::decode::{BlockDiffusion, Canvas, Decoding};
use dlmrs::tokenizer::{ChatOptions, Message, Specials};
use dlmrs::{Llm, LoadOptions, Output, Overrides, Request, SamplingParams};

pub(crate) fn bundled(name: &str) -> Arc<Llm> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("bundled").join(name);
    let options = LoadOptions { device: "cpu".into(), threads: Some(2), ..LoadOptions::default() };
    Llm::load(folder.to_str().unwrap(), &options, &Overrides::default()).unwrap()
}

pub(crate) fn golden(family: &str) -> Arc<Llm> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(family);
    let options = LoadOptions { device: "cpu".into(), threads: Some(2), ..LoadOptions::default() };
    Llm::load(folder.to_str().unwrap(), &options, &Overrides { mask_token_id: Some(317), ..Overrides::default() }).unwrap()
}

pub(crate) const QUESTION: &str = "Hugo buys 6 beads for 2 dollars each and 7 marbles for 5 dollars each. How much does Hugo spend?";

pub(crate) fn chat(llm: &Llm, question: &str) -> Vec<u32> {
    llm.tokenizer().unwrap().encode_chat(&[Message::new("user", question)], &ChatOptions::default(), Specials::AsText).unwrap()
}

pub(crate) fn params(max_tokens: usize) -> SamplingParams {
    SamplingParams { max_tokens, seed: Some(1), ..SamplingParams::default() }
}

pub(crate) fn request(prompt: Vec<u32>, params: SamplingParams) -> Request {
    Request { prompt, params, decoding: None }
}

pub(crate) fn block(block_length: usize) -> Option<Decoding> {
    Some(Decoding::Block(BlockDiffusion { block_length: Some(block_length), ..BlockDiffusion::default() }))
}

pub(crate) fn canvas(block_length: usize) -> Option<Decoding> {
    Some(Decoding::Canvas(Canvas { block_length: Some(block_length), ..Canvas::default() }))
}

pub(crate) fn one(llm: &Arc<Llm>, request: Request) -> Output {
    llm.generate(vec![request], |_, _| true).unwrap().remove(0)
}
