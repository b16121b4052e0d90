//! LLaDA2.1's editing: against recorded runs, against the slow way, and what a caller sees of it.

use std::collections::HashMap;
use std::sync::Arc;

use dlmrs::decode::{BlockDiffusion, BlockPreset, Decoding, Editing, How, PassKind, Strategy};
use dlmrs::{Backend, Error, Event, FinishReason, Llm, Output, Request, SamplingParams};
use serde_json::Value;

use crate::common::{BACKENDS, MASK, cases, ids, load, load_with, size};
use crate::slow::{self, Asked, Rule};

fn editing(block_length: usize, threshold: f32, editing_threshold: f32, max_post_steps: usize) -> Decoding {
    let block = BlockDiffusion { block_length: Some(block_length), threshold: Some(threshold), ..BlockDiffusion::default() };
    Decoding::Editing(Editing { block, editing_threshold, max_post_steps })
}

fn params(max_tokens: usize) -> SamplingParams {
    SamplingParams { max_tokens, ignore_eos: true, seed: Some(3), trace: true, ..SamplingParams::default() }
}

fn one(llm: &Arc<Llm>, request: Request) -> Output {
    llm.generate(vec![request], |_, _| true).unwrap().remove(0)
}

/// Every recorded run with editing: its tokens, and as many passes as it took. The reference computes everything anew in each pass.
#[test]
fn recorded_runs() {
    let all = cases("llada2_moe", "cases.json", "generate");
    let cases: Vec<&Value> = all.iter().filter(|case| !case["editing_threshold"].is_null()).collect();
    assert_eq!((all.len(), cases.len()), (36, 18));
    let number = |case: &Value, key: &str| case[key].as_f64().unwrap() as f32;
    let request = |case: &&Value| {
        let (threshold, edit) = (number(case, "threshold"), number(case, "editing_threshold"));
        let decoding = editing(size(case, "block_length"), threshold, edit, size(case, "max_post_steps"));
        Request { prompt: ids(&case["prompt_ids"]), params: params(size(case, "gen_length")), decoding: Some(decoding) }
    };
    for backend in BACKENDS {
        let llm = load("llada2_moe", backend);
        let requests: Vec<Request> = cases.iter().map(request).collect();
        let together = llm.generate(requests.clone(), |_, _| true).unwrap();
        for ((case, request), output) in cases.iter().zip(requests).zip(&together) {
            let name = format!("{backend:?} {}", case["name"]);
            assert_eq!(output.token_ids, ids(&case["output_ids"]), "{name}");
            assert_eq!(output.stats.total_passes(), size(case, "reference_nfe"), "{name}: passes");
            assert!(output.stats.edited > 0, "{name}: nothing was edited");
            let alone = one(&llm, request);
            assert_eq!((alone.canvas_token_ids, alone.stats.rows), (output.canvas_token_ids.clone(), output.stats.rows), "{name}: alone");
        }
    }
}

/// Some tokens, and some masks to fill.
fn prompt(length: usize, masks: usize) -> Vec<u32> {
    (0..length).map(|i| if i % 7 < masks { MASK } else { ((i * 37 + 11 + length) % 300) as u32 }).collect()
}

fn asked(i: usize, block_length: usize, threshold: f32, editing: Option<(f32, usize)>) -> Asked {
    let temperature = [0.0, 0.0, 0.8][i % 3];
    Asked { prompt: prompt(2 + i * 5 % 17, i % 3), slots: 9 + i % 9, block_length, threshold, editing, temperature, seed: i as u64 }
}

fn request(asked: &Asked, strategy: Strategy) -> Request {
    let threshold = (strategy == Strategy::LowConfidenceDynamic).then_some(asked.threshold);
    let block = BlockDiffusion { block_length: Some(asked.block_length), threshold, strategy, ..BlockDiffusion::default() };
    let decoding = match asked.editing {
        Some((editing_threshold, max_post_steps)) => Decoding::Editing(Editing { block, editing_threshold, max_post_steps }),
        None => Decoding::Block(block),
    };
    let params = SamplingParams { temperature: asked.temperature, seed: Some(asked.seed), ..params(asked.slots) };
    Request { prompt: asked.prompt.clone(), params, decoding: Some(decoding) }
}

const RULES: [(Strategy, Rule); 3] =
    [(Strategy::LowConfidenceDynamic, slow::dynamic), (Strategy::Sequential, slow::sequential), (Strategy::Margin, slow::margin)];

/// Caching finished blocks changes no token, no pass and no edit against computing everything anew; nor do the batch and the threads.
fn cached_equals_anew(family: &str, editings: &[Option<(f32, usize)>]) -> usize {
    let one_thread = load_with(family, Backend::Kernels, 1);
    let two_threads = load_with(family, Backend::Kernels, 2);
    let (mut requests, mut wanted) = (Vec::new(), Vec::new());
    for (i, &editing) in editings.iter().cycle().take(24).enumerate() {
        let (strategy, rule) = RULES[if i % 4 == 3 { i / 4 % 3 } else { 0 }];
        let asked = asked(i, [4, 5, 8, 3][i / 3 % 4], [0.1, 0.3, 0.7][i / 2 % 3], editing);
        wanted.push(slow::decode(&one_thread, &asked, rule));
        requests.push(request(&asked, strategy));
    }
    let alone: Vec<Output> = requests.iter().map(|r| one(&one_thread, r.clone())).collect();
    let together = two_threads.generate(requests.clone(), |_, _| true).unwrap();
    let backwards = two_threads.generate(requests.into_iter().rev().collect(), |_, _| true).unwrap();
    for (i, wanted) in wanted.iter().enumerate() {
        for found in [&alone[i], &together[i], &backwards[23 - i]] {
            let stats = &found.stats;
            assert_eq!(
                (&found.canvas_token_ids, stats.total_passes(), stats.edited),
                (&wanted.canvas, wanted.passes, wanted.edited),
                "{family} {i}"
            );
            assert_eq!(found.trace, alone[i].trace, "{family} {i}: every probability");
            assert_eq!(stats.passes.get(PassKind::Denoise), stats.total_passes(), "commits ride along");
        }
    }
    wanted.iter().map(|found| found.edited).sum()
}

#[test]
fn caching_finished_blocks_is_exact_with_editing() {
    let editings = [Some((0.1, 16)), Some((0.3, 2)), Some((0.0, 5)), Some((0.2, 0)), Some((0.6, 16))];
    assert!(cached_equals_anew("llada2_moe", &editings) > 100);
}

#[test]
fn caching_finished_blocks_is_exact_in_mixtures() {
    for family in ["llada2_moe", "sdar_moe"] {
        assert_eq!(cached_equals_anew(family, &[None]), 0);
    }
}

/// What is committed never changes; edits are events of slots that were decided before, and are counted and traced.
#[test]
fn events_and_traces_are_honest() {
    let llm = load("llada2_moe", Backend::Kernels);
    let mut slots: HashMap<usize, u32> = HashMap::new();
    let (mut committed, mut edits, mut decided) = (Vec::<u32>::new(), Vec::new(), 0);
    let request = Request { prompt: prompt(6, 0), params: params(26), decoding: Some(editing(8, 0.3, 0.2, 9)) };
    let output = llm
        .generate(vec![request], |_, event| {
            match event {
                Event::Revealed { slots: revealed, .. } => {
                    for slot in revealed {
                        assert!(slot.position >= 6 + committed.len(), "what is committed is final");
                        let before = slots.insert(slot.position, slot.stat.token);
                        assert_eq!(before.is_some(), slot.how == How::Edited);
                        assert_ne!(before, Some(slot.stat.token), "an edit changes the token");
                        match before {
                            Some(token) => edits.push((slot.position, token)),
                            None => decided += 1,
                        }
                    }
                }
                Event::Committed { token_ids, .. } => committed.extend(token_ids),
                _ => {}
            }
            true
        })
        .unwrap()
        .remove(0);
    assert_eq!(committed, output.token_ids);
    assert!(slots.iter().all(|(&p, &token)| output.canvas_token_ids[p] == token), "the last event of a slot is what it holds");
    assert!(!edits.is_empty() && output.stats.edited == edits.len() && output.stats.revealed == decided);
    let trace = output.trace.unwrap();
    let mut replaced: Vec<_> = trace.replaced.iter().map(|slot| (slot.position, slot.token)).collect();
    replaced.sort_unstable();
    edits.sort_unstable();
    assert_eq!(replaced, edits);
    assert!(trace.slots.iter().all(|slot| slots[&slot.position] == slot.token) && trace.slots.len() == decided);
    assert!(trace.slots.iter().any(|slot| slot.how == How::Edited) && How::Edited.name() == "edited");
    assert!(trace.replaced.windows(2).all(|two| two[0].pass <= two[1].pass));
}

/// A stop that is edited away ends nothing; one that stays ends the text there. Stops change no token before them.
#[test]
fn stops_count_when_their_block_is_final() {
    let llm = load("llada2_moe", Backend::Kernels);
    let request = |stop: Option<u32>| {
        let params = SamplingParams { ignore_eos: stop.is_none(), stop_token_ids: stop.into_iter().collect(), ..params(26) };
        Request { prompt: prompt(6, 0), params, decoding: Some(editing(8, 0.3, 0.2, 9)) }
    };
    let free = one(&llm, request(None));
    let trace = free.trace.as_ref().unwrap();
    let (mut vanished, mut stopped) = (0, 0);
    for token in trace.replaced.iter().map(|slot| slot.token).chain(free.token_ids.iter().copied()) {
        let found = one(&llm, request(Some(token)));
        let end = free.token_ids.iter().position(|&id| id == token || id == 318);
        assert_eq!(found.token_ids, free.token_ids[..end.unwrap_or(26)], "stop {token}");
        assert_eq!(found.finish_reason == FinishReason::Stop, end.is_some());
        vanished += usize::from(!free.token_ids.contains(&token));
        stopped += usize::from(end.is_some());
        if end.is_some_and(|end| end + 6 < 24) {
            assert!(found.stats.total_passes() < free.stats.total_passes(), "later blocks are never computed");
        }
    }
    assert!(vanished > 5 && stopped > 5);
    // No stop id is written before min_tokens, by an edit neither.
    let stop = free.token_ids[3];
    let mut held = request(Some(stop));
    held.params.min_tokens = 20;
    let held = one(&llm, held);
    assert!(!held.token_ids[..20].contains(&stop) && held.token_ids.len() >= 20);
}

/// A cancelled request gives what was decided by then, whether it was final or not.
#[test]
fn cancelled_in_the_middle_of_a_block() {
    let llm = load("llada2_moe", Backend::Kernels);
    let mut engine = llm.engine();
    let request = Request { prompt: prompt(6, 0), params: params(26), decoding: Some(editing(8, 0.3, 0.2, 16)) };
    let id = engine.submit(request).unwrap();
    let mut finished = None;
    for pass in 0.. {
        if pass == 13 {
            assert!(engine.cancel(id));
        }
        if let Some(Event::Finished { output, .. }) = engine.step().unwrap().pop() {
            finished = Some(*output);
            break;
        }
    }
    let output = finished.unwrap();
    assert_eq!((output.finish_reason, output.stats.total_passes()), (FinishReason::Cancelled, 13));
    let masked = output.canvas_token_ids.iter().position(|&id| id == MASK).unwrap();
    assert_eq!(output.token_ids, output.canvas_token_ids[6..masked]);
    assert!(masked > 6);
}

#[test]
fn presets() {
    let of = |name: &str| match BlockPreset::named(name).unwrap().decoding() {
        Decoding::Editing(e) => (e.block.threshold, Some((e.editing_threshold, e.max_post_steps))),
        Decoding::Block(block) => (block.threshold, None),
        other => panic!("{other:?}"),
    };
    assert_eq!(of("llada2.0"), (Some(0.95), None));
    assert_eq!(of("llada2.1"), (Some(0.95), Some((0.9, 16))));
    assert_eq!(of("llada2.1-quality"), (Some(0.7), Some((0.5, 16))));
    assert_eq!(of("llada2.1-speed"), (Some(0.5), None));
    let llm = load("llada2_moe", Backend::Kernels);
    for name in BlockPreset::names() {
        let request = Request { prompt: prompt(6, 0), params: params(9), decoding: Some(BlockPreset::named(name).unwrap().decoding()) };
        assert_eq!(one(&llm, request).token_ids.len(), 9, "{name}");
    }
    let error = BlockPreset::named("llada3").unwrap_err().to_string();
    assert_eq!(error, "preset: 'llada3' is unknown; use one of llada2.0, llada2.1, llada2.1-quality, llada2.1-speed");
}

#[test]
fn refused() {
    let refused = |family: &str, decoding: Decoding, name: &str, says: &str| {
        let llm = load(family, Backend::Kernels);
        match llm.engine().submit(Request { prompt: vec![1], params: params(4), decoding: Some(decoding) }) {
            Err(Error::Input { name: found, message }) => {
                assert_eq!(found, name, "{message}");
                assert!(message.contains(says), "{name}: {message}");
            }
            Err(other) => panic!("{other:?}"),
            Ok(_) => panic!("{name} was taken"),
        }
    };
    for threshold in [-0.1, 1.0, 2.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        refused("llada2_moe", editing(4, 0.5, threshold, 16), "editing_threshold", "a number from 0 to below 1 is needed");
    }
    refused("llada2_moe", editing(4, 0.5, 0.5, 1 << 17), "max_post_steps", "is 131072; at most 65536 are possible");
    refused("llada2_moe", editing(0, 0.5, 0.5, 16), "block_length", "is 0");
    refused("llada2_moe", editing(4, f32::NAN, 0.5, 16), "threshold", "NaN");
    for family in ["sdar", "sdar_moe"] {
        let says = format!("is 0.5, but {family} was not trained to look at decided tokens again (LLaDA2.1 was); leave it out");
        refused(family, editing(4, 0.5, 0.5, 16), "editing_threshold", &says);
    }
    refused("llada_moe", editing(4, 0.5, 0.5, 16), "decoding", "is BlockDiffusion, but llada_moe is bidirectional; use Canvas");
}
