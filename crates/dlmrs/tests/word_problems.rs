//! The bundled models on the first 200 word problems that they never saw: accuracy within 3 points of the model card, whose settings
//! are greedy decoding with one reveal a step by confidence.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)] // tests

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dlmrs::decode::{BlockDiffusion, Canvas, Decoding, Strategy};
use dlmrs::tokenizer::{ChatOptions, Message, Specials};
use dlmrs::{Llm, LoadOptions, Overrides, Request, SamplingParams};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn load(name: &str) -> Arc<Llm> {
    let folder = root().join("crates/dlmrs/bundled").join(name);
    let options = LoadOptions { device: "cpu".into(), ..LoadOptions::default() };
    Llm::load(folder.to_str().unwrap(), &options, &Overrides::default()).unwrap()
}

/// Question and number.
fn problems() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(root().join("crates/dlmrs-tasks/data/word_problems.jsonl")).unwrap();
    let line = |line: &str| {
        let problem: serde_json::Value = serde_json::from_str(line).unwrap();
        (problem["question"].as_str().unwrap().to_string(), number(problem["answer"].as_str().unwrap()).unwrap())
    };
    text.lines().take(200).map(line).collect()
}

/// What follows `####`.
fn number(answer: &str) -> Option<String> {
    let (_, after) = answer.split_once("####")?;
    Some(after.split_whitespace().next()?.to_string())
}

fn accuracy(model: &str, decoding: &Decoding) -> f64 {
    let llm = load(model);
    let problems = problems();
    let request = |(question, _): &(String, String)| {
        let messages = [Message::new("user", question)];
        let prompt = llm.tokenizer().unwrap().encode_chat(&messages, &ChatOptions::default(), Specials::AsText).unwrap();
        let params = SamplingParams { max_tokens: 96, ..SamplingParams::default() };
        Request { prompt, params, decoding: Some(decoding.clone()) }
    };
    let outputs = llm.generate(problems.iter().map(request).collect(), |_, _| true).unwrap();
    let right = outputs.iter().zip(&problems).filter(|(o, (_, wanted))| number(&o.text).as_ref() == Some(wanted)).count();
    100.0 * right as f64 / problems.len() as f64
}

fn check(model: &str, cards: &[(usize, f64)], decoding: impl Fn(usize) -> Decoding) {
    for &(block_length, card) in cards {
        let found = accuracy(model, &decoding(block_length));
        println!("{model} block {block_length}: {found:.1} %, the card says {card:.1} %");
        assert!((found - card).abs() <= 3.0, "{model} at block length {block_length}: {found} %, the card says {card} %");
    }
}

fn one_by_one(block_length: usize) -> Decoding {
    Decoding::Block(BlockDiffusion {
        block_length: Some(block_length),
        strategy: Strategy::LowConfidenceStatic,
        ..BlockDiffusion::default()
    })
}

#[test]
fn tiny_sdar() {
    check("tiny-sdar", &[(4, 91.5), (8, 90.5)], one_by_one);
}

#[test]
fn tiny_sdar_draft() {
    check("tiny-sdar-draft", &[(4, 66.5), (16, 64.5)], one_by_one);
}

#[test]
fn tiny_llada() {
    let canvas = |block_length| Decoding::Canvas(Canvas { block_length: Some(block_length), ..Canvas::default() });
    check("tiny-llada", &[(8, 92.0)], canvas);
}
