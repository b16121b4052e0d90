//! Temperature, filters, stops, seeds, traces and events, alone and in a batch.

use std::collections::BTreeMap;

use dlmrs::decode::{How, SubBlockDiffusion};
use dlmrs::{Event, FinishReason, Output, Request, SamplingParams};

use crate::common::{MASK, load, one, params, request, settings};

const PROMPT: [u32; 5] = [211, 6, 270, 40, 81];

fn with(change: impl Fn(&mut SamplingParams)) -> Request {
    let mut sampling = params(40);
    change(&mut sampling);
    request(&PROMPT, sampling, settings(4, 0.5))
}

fn same(a: &Output, b: &Output) {
    assert_eq!((&a.canvas_token_ids, &a.token_ids, a.finish_reason), (&b.canvas_token_ids, &b.token_ids, b.finish_reason));
    assert_eq!((a.stats.passes, a.stats.rows, a.stats.scanned_rows), (b.stats.passes, b.stats.rows, b.stats.scanned_rows));
}

#[test]
fn alone_and_in_any_mix() {
    let llm = load();
    let cached = SubBlockDiffusion { sub_block_cache: true, ..settings(2, 0.3) };
    let mut requests: Vec<Request> = (0..16)
        .map(|i: usize| {
            let mut r = with(|p| {
                p.temperature = [0.0, 1.0, 0.7, 1.3][i % 4];
                p.top_k = [0, 5, 0, 40][i / 2 % 4];
                p.top_p = [1.0, 0.9, 1.0][i % 3];
                p.repetition_penalty = [1.0, 1.3][i / 4 % 2];
                p.seed = Some(i as u64);
                p.max_tokens = 5 + 3 * i;
            });
            r.prompt = (0..1 + 3 * i as u32).map(|n| (n * 37 + i as u32) % 300).collect();
            r
        })
        .collect();
    for r in requests.iter_mut().step_by(3) {
        r.decoding = Some(dlmrs::Decoding::SubBlock(cached.clone()));
    }
    requests[7].decoding = None; // the model's own
    let alone: Vec<Output> = requests.iter().map(|r| one(&llm, r.clone())).collect();
    let together = llm.generate(requests.clone(), |_, _| true).unwrap();
    alone.iter().zip(&together).for_each(|(a, t)| same(a, t));
    let backwards = llm.generate(requests.into_iter().rev().collect(), |_, _| true).unwrap();
    alone.iter().zip(backwards.iter().rev()).for_each(|(a, b)| same(a, b));
}

#[test]
fn the_own_decoding_of_the_model() {
    let llm = load();
    let own = one(&llm, Request { prompt: PROMPT.to_vec(), params: params(40), decoding: None });
    same(&own, &one(&llm, request(&PROMPT, params(40), settings(8, 0.9))));
    assert!(own.warnings.is_empty());
    let other = SubBlockDiffusion { block_length: Some(16), ..SubBlockDiffusion::default() };
    let warned = one(&llm, request(&PROMPT, params(4), other)).warnings;
    assert!(warned[0].contains("block_length 16 differs from 8"), "{warned:?}");
}

#[test]
fn seeds() {
    let llm = load();
    let text = |temperature, seed| one(&llm, with(|p| (p.temperature, p.seed) = (temperature, Some(seed)))).token_ids;
    assert_eq!(text(1.0, 3), text(1.0, 3));
    assert_ne!(text(1.0, 3), text(1.0, 4));
    assert_eq!(text(0.0, 3), text(0.0, 4));
    assert_eq!(one(&llm, with(|p| (p.temperature, p.top_k) = (1.0, 1))).token_ids, text(0.0, 1), "top_k 1 is greedy");
}

/// Slots that are handed over are drawn like all others.
#[test]
fn hand_over_tokens_follow_the_sampling_parameters() {
    let llm = load();
    let greedy = one(&llm, with(|_| {})).token_ids;
    let first = |change: &dyn Fn(&mut SamplingParams)| {
        let mut r = with(change);
        r.prompt = (0..8).collect();
        one(&llm, r).token_ids[0]
    };
    let likely = first(&|_| {});
    assert_ne!(first(&|p| p.banned_token_ids = vec![likely]), likely);
    assert_eq!(first(&|p| p.logit_bias = [(5, 1e4)].into()), 5);
    assert!((0..20).any(|seed| first(&|p| (p.temperature, p.seed) = (1.5, Some(seed))) != likely));
    assert!(one(&llm, with(|p| p.banned_token_ids = greedy.clone())).token_ids.iter().all(|id| !greedy.contains(id)));
}

#[test]
fn stops_end_a_text_before_they_are_followed_by_masks() {
    let llm = load();
    let whole = one(&llm, with(|_| {}));
    let stop = whole.token_ids[21];
    let at = whole.token_ids.iter().position(|&id| id == stop).unwrap();
    let stopping = |p: &mut SamplingParams| (p.ignore_eos, p.stop_token_ids) = (false, vec![stop]);
    let stopped = one(&llm, with(stopping));
    assert_eq!((&stopped.token_ids[..], stopped.finish_reason), (&whole.token_ids[..at], FinishReason::Stop));
    assert!(stopped.stats.total_passes() < whole.stats.total_passes());
    // Before `min_tokens` it is not even drawn.
    let later = one(
        &llm,
        with(|p| {
            stopping(p);
            p.min_tokens = at + 3;
        }),
    );
    assert!(later.token_ids.len() >= at + 3 && !later.token_ids[..at + 3].contains(&stop));
    assert_eq!(one(&llm, with(|p| p.stop_token_ids = vec![stop])).token_ids, whole.token_ids, "ignore_eos");
}

#[test]
fn events_add_up_and_the_trace_tells_how() {
    let llm = load();
    for sub_block_cache in [false, true] {
        let mut engine = llm.engine();
        let with = SubBlockDiffusion { sub_block_cache, ..settings(4, 0.4) };
        engine.submit(request(&PROMPT, SamplingParams { trace: true, ..params(40) }, with)).unwrap();
        let (mut tokens, mut commits, mut canvas, mut output) = (Vec::new(), 0, BTreeMap::new(), None);
        while !engine.is_idle() {
            for event in engine.step().unwrap() {
                match event {
                    Event::Revealed { slots, .. } => {
                        for slot in slots {
                            assert!(canvas.insert(slot.position, slot).is_none(), "a slot is decided once");
                        }
                    }
                    Event::Committed { token_ids, .. } => {
                        commits += 1;
                        tokens.extend(token_ids);
                    }
                    Event::Finished { output: o, .. } => output = Some(*o),
                    Event::Failed { error, .. } => panic!("{error}"),
                }
            }
        }
        let output = output.unwrap();
        assert_eq!(tokens, output.token_ids);
        assert!(commits >= 10, "a sub-block's tokens come as soon as it is decided: {commits}");
        assert!(canvas.iter().all(|(&place, slot)| output.canvas_token_ids[place] == slot.stat.token));
        let trace = output.trace.unwrap();
        assert_eq!((trace.slots.len(), canvas.len(), output.stats.revealed), (43, 43, 43));
        for slot in &trace.slots {
            let sure = slot.probability > 0.4;
            assert!(slot.how == How::Ranked || slot.how == How::Bound && sure);
            assert!(slot.token != MASK && slot.pass >= 1 && slot.pass <= output.stats.total_passes());
        }
        let handed = trace.slots.iter().filter(|slot| slot.position % 8 == 0);
        assert!(handed.clone().count() == 5 && handed.into_iter().all(|slot| slot.how == How::Ranked));
    }
}

/// Up to the model's longest sequence, with a last block that reaches beyond it.
#[test]
fn the_longest_sequence() {
    let llm = load();
    for (sub_block, sub_block_cache) in [(8, false), (4, true)] {
        let with = SubBlockDiffusion { block_length: Some(24), sub_block_cache, ..settings(sub_block, 0.0) };
        let ask = |prompt, max_tokens| request(&vec![7; prompt], params(max_tokens), with.clone());
        assert_eq!(one(&llm, ask(1000, 24)).token_ids.len(), 24);
        let error = llm.engine().submit(ask(1001, 24)).err().unwrap().to_string();
        assert!(error.contains("the model takes at most 1024"), "{error}");
    }
}

#[test]
fn cancelling_leaves_masks() {
    let llm = load();
    let mut engine = llm.engine();
    let id = engine.submit(with(|_| {})).unwrap();
    engine.step().unwrap();
    assert!(engine.cancel(id));
    let events = engine.step().unwrap();
    let Some(Event::Finished { output, .. }) = events.into_iter().last() else { panic!("an end") };
    assert!(output.finish_reason == FinishReason::Cancelled && output.canvas_token_ids.contains(&MASK));
}
