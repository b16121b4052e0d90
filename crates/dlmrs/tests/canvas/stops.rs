//! Early ends: what they change, and what they leave alone.

use std::sync::Arc;

use dlmrs::decode::{CacheMode, Canvas, Decoding, EarlyStop, Suffix};
use dlmrs::tokenizer::{ChatOptions, Message, Specials};
use dlmrs::{Event, FinishReason, Llm, Output, Request, SamplingParams};

use crate::common::*;

const QUESTIONS: [&str; 3] = [
    "Hugo buys 6 beads for 2 dollars each and 7 marbles for 5 dollars each. How much does Hugo spend?",
    "Mia has 12 coins. Mia finds 30 more. How many coins does Mia have now?",
    "Mia buys 9 pens for 5 dollars each. How much does Mia spend?",
];

fn ask(llm: &Llm, question: &str, canvas: Canvas) -> Request {
    let prompt =
        llm.tokenizer().unwrap().encode_chat(&[Message::new("user", question)], &ChatOptions::default(), Specials::AsText).unwrap();
    let params = SamplingParams { max_tokens: 96, seed: Some(3), trace: true, ..SamplingParams::default() };
    Request { prompt, params, decoding: Some(Decoding::Canvas(Canvas { block_length: Some(16), threshold: Some(0.9), ..canvas })) }
}

fn answer(llm: &Arc<Llm>, question: &str, canvas: Canvas) -> Output {
    one(llm, ask(llm, question, canvas))
}

/// The text is the same with and without an early end, in every mode; what comes behind the first stop is not.
#[test]
fn the_text_before_the_stop_is_the_same() {
    let llm = bundled();
    for question in QUESTIONS {
        for cache in CACHES {
            for suffix in [Suffix::Off, half()] {
                let run = |early_stop| answer(&llm, question, Canvas { early_stop, cache, suffix: suffix.clone(), ..Canvas::default() });
                let (off, compat, strict) = (run(EarlyStop::Off), run(EarlyStop::Compat), run(EarlyStop::Strict));
                assert_eq!(off.finish_reason, FinishReason::Stop, "the answers are much shorter than the canvas");
                for early in [&compat, &strict] {
                    assert_eq!((&early.text, &early.token_ids, &early.stop_cause), (&off.text, &off.token_ids, &off.stop_cause));
                    let told = early.prompt_token_ids.len() + early.token_ids.len();
                    assert_eq!(early.canvas_token_ids[..told], off.canvas_token_ids[..told]);
                }
                let passes = |output: &Output| output.stats.total_passes();
                assert!(passes(&strict) <= passes(&compat) && passes(&compat) < passes(&off));
                assert!(off.stats.revealed == 96 && off.stats.blocks == 6 && compat.stats.blocks < 6);
                // Compat finishes the block and fills what is behind it with the stop id.
                let end = off.prompt_token_ids.len() + 16 * compat.stats.blocks;
                assert_eq!(compat.canvas_token_ids[..end], off.canvas_token_ids[..end]);
                let stop = compat.canvas_token_ids[end];
                assert!(llm.facts().stop_token_ids.contains(&stop) && compat.canvas_token_ids[end..].iter().all(|id| *id == stop));
                assert_eq!(compat.stats.revealed, 16 * compat.stats.blocks);
            }
        }
    }
}

/// Stop strings follow the same rule, and `ignore_eos` switches all of it off.
#[test]
fn stop_strings_and_ignore_eos() {
    let llm = bundled();
    for early_stop in [EarlyStop::Strict, EarlyStop::Compat, EarlyStop::Off] {
        let mut asked = ask(&llm, QUESTIONS[0], Canvas { early_stop, cache: CacheMode::Prefix, ..Canvas::default() });
        let text = one(&llm, asked.clone()).text;
        let word = text.split_whitespace().nth(3).unwrap().to_string();
        asked.params.stop = vec![word.clone()];
        let cut = one(&llm, asked.clone());
        assert_eq!(cut.text, text[..text.find(&word).unwrap()], "{early_stop:?}");
        asked.params = SamplingParams { stop: vec![], ignore_eos: true, ..asked.params };
        let whole = one(&llm, asked);
        assert_eq!((whole.token_ids.len(), whole.finish_reason), (96, FinishReason::Length), "{early_stop:?}");
    }
}

/// Pieces of a stream add up to the text, and come block by block unless the end is looked for afterwards.
#[test]
fn streams_add_up() {
    let llm = bundled();
    for early_stop in [EarlyStop::Strict, EarlyStop::Compat, EarlyStop::Off] {
        for cache in CACHES {
            let asked = ask(&llm, QUESTIONS[0], Canvas { early_stop, cache, suffix: half(), ..Canvas::default() });
            let mut engine = llm.engine();
            engine.submit(asked).unwrap();
            let (mut told, mut pieces, mut revealed, mut done) = (String::new(), 0, 0, None);
            while !engine.is_idle() {
                for event in engine.step().unwrap() {
                    match event {
                        Event::Committed { text, .. } => (told, pieces) = (told + &text, pieces + 1),
                        Event::Revealed { slots, .. } => revealed += slots.len(),
                        Event::Finished { output, .. } => done = Some(output),
                        Event::Failed { error, .. } => panic!("{error}"),
                    }
                }
            }
            let output = done.unwrap();
            assert_eq!((told, revealed), (output.text.clone(), output.stats.revealed));
            assert!(if early_stop == EarlyStop::Off { pieces == 1 } else { pieces > 1 }, "{early_stop:?} {cache:?}: {pieces}");
        }
    }
}

/// A request that is cancelled gives what was decided, whenever it would have been looked at.
#[test]
fn cancelled_requests_keep_what_was_decided() {
    let llm = bundled();
    for early_stop in [EarlyStop::Strict, EarlyStop::Compat, EarlyStop::Off] {
        let mut engine = llm.engine();
        let mut asked = ask(&llm, QUESTIONS[0], Canvas { early_stop, max_reveals: Some(4), ..Canvas::default() });
        asked.decoding = asked.decoding.map(|decoding| match decoding {
            Decoding::Canvas(canvas) => Decoding::Canvas(Canvas { block_length: Some(4), threshold: Some(0.0), ..canvas }),
            other => other,
        });
        let id = engine.submit(asked).unwrap();
        engine.step().unwrap();
        engine.step().unwrap();
        assert!(engine.cancel(id));
        let Some(Event::Finished { output, .. }) = engine.step().unwrap().pop() else { panic!("the last event") };
        assert_eq!((output.finish_reason, output.token_ids.len()), (FinishReason::Cancelled, 8), "{early_stop:?}");
        assert_eq!(output.stats.blocks, 2);
    }
}
