//! The bundled models on the first 200 word problems that they never saw: accuracy within 3 points of the model card, whose settings
//! are greedy decoding with one reveal a step by confidence; and speculation, which must not change a token of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)] // tests

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dlmrs::decode::{BlockDiffusion, Canvas, Decoding, Lookahead, SimSD, Strategy};
use dlmrs::tokenizer::{ChatOptions, Message, Specials};
use dlmrs::{DraftSource, Llm, LoadOptions, Output, Overrides, Request, SamplingParams};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn folder(name: &str) -> String {
    root().join("crates/dlmrs/bundled").join(name).to_str().unwrap().to_string()
}

fn options() -> LoadOptions {
    LoadOptions { device: "cpu".into(), ..LoadOptions::default() }
}

fn load(name: &str) -> Arc<Llm> {
    Llm::load(&folder(name), &options(), &Overrides::default()).unwrap()
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

/// The answers to all problems, worked on together; each has a seed of its own.
fn answers(llm: &Arc<Llm>, decoding: &Decoding, temperature: f32) -> Vec<Output> {
    let request = |(number, (question, _)): (usize, &(String, String))| {
        let messages = [Message::new("user", question)];
        let prompt = llm.tokenizer().unwrap().encode_chat(&messages, &ChatOptions::default(), Specials::AsText).unwrap();
        let params = SamplingParams { max_tokens: 96, temperature, seed: Some(number as u64), ..SamplingParams::default() };
        Request { prompt, params, decoding: Some(decoding.clone()) }
    };
    llm.generate(problems().iter().enumerate().map(request).collect(), |_, _| true).unwrap()
}

fn accuracy(model: &str, decoding: &Decoding) -> f64 {
    let (outputs, problems) = (answers(&load(model), decoding, 0.0), problems());
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

/// With a draft model and without one, at temperature 0 and above.
#[test]
fn speculation_changes_no_token_and_saves_passes() {
    let draft = DraftSource::Model { name: folder("tiny-sdar-draft"), options: options() };
    let llm = Llm::load_pair(&folder("tiny-sdar"), &draft, &options(), &Overrides::default(), &mut |_, _| true).unwrap();
    let methods =
        [Decoding::Lookahead(Lookahead::default()), Decoding::SimSD(SimSD { blocks: 2, draft_steps: Some(1), ..SimSD::default() })];
    for temperature in [0.0, 1.0] {
        let alone = answers(&llm, &Decoding::Block(BlockDiffusion::default()), temperature);
        for method in &methods {
            let found = answers(&llm, method, temperature);
            for (number, (alone, found)) in alone.iter().zip(&found).enumerate() {
                assert_eq!(alone.token_ids, found.token_ids, "{} at temperature {temperature}, problem {number}", method.name());
                assert!(found.stats.target_passes() <= alone.stats.target_passes(), "{}, problem {number}", method.name());
            }
            let passes = |outputs: &[Output]| outputs.iter().map(|output| output.stats.target_passes()).sum::<usize>();
            println!("{} at temperature {temperature}: {} passes instead of {}", method.name(), passes(&found), passes(&alone));
            assert!(passes(&found) < passes(&alone));
        }
    }
}
