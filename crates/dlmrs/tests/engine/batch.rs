//! Requests of different lengths, settings and progress share each forward, and nothing of that shows in their results.

use dlmrs::engine::RequestId;
use dlmrs::{Event, FinishReason, Output, Request, SamplingParams};

use crate::common::{QUESTION, block, bundled, canvas, chat, golden, one, params, request};

fn mixed(llm: &dlmrs::Llm) -> Vec<Request> {
    let settings = [
        params(40),
        SamplingParams { temperature: 1.0, ..params(24) },
        SamplingParams { temperature: 0.8, top_k: 5, seed: Some(9), ..params(33) },
        SamplingParams { temperature: 1.2, top_p: 0.8, repetition_penalty: 1.2, ..params(17) },
        SamplingParams { logit_bias: [(20, 3.0), (21, -3.0)].into(), banned_token_ids: vec![30], ..params(9) },
        SamplingParams { stop: vec![".".into()], ..params(50) },
    ];
    let questions = [QUESTION, "How many?", "Tim has 4 pens.", "A bag holds 12 apples and 3 pears. How many fruits?"];
    let both = settings.iter().cycle().zip(questions.iter().cycle()).take(12);
    both.map(|(params, question)| request(chat(llm, question), params.clone())).collect()
}

fn same(a: &Output, b: &Output) {
    assert_eq!((&a.canvas_token_ids, &a.text, a.finish_reason), (&b.canvas_token_ids, &b.text, b.finish_reason));
    assert_eq!((&a.stats.passes, a.stats.rows, a.stats.scanned_rows), (&b.stats.passes, b.stats.rows, b.stats.scanned_rows));
}

#[test]
fn alone_and_in_any_mix() {
    for model in ["tiny-sdar", "tiny-llada"] {
        let llm = bundled(model);
        let requests = mixed(&llm);
        let alone: Vec<Output> = requests.iter().map(|r| one(&llm, r.clone())).collect();
        let together = llm.generate(requests.clone(), |_, _| true).unwrap();
        alone.iter().zip(&together).for_each(|(a, t)| same(a, t));
        let backwards = llm.generate(requests.into_iter().rev().collect(), |_, _| true).unwrap();
        alone.iter().zip(backwards.iter().rev()).for_each(|(a, b)| same(a, b));
    }
}

/// Requests that come and go while others are under way, and more rows than one forward takes.
#[test]
fn joining_late_and_waiting_for_room() {
    let llm = bundled("tiny-llada");
    let long: Vec<Request> = (0..5)
        .map(|i| Request { decoding: canvas(400), ..request(vec![20 + i; 800], SamplingParams { ignore_eos: true, ..params(400) }) })
        .map(|mut r| {
            if let Some(dlmrs::Decoding::Canvas(c)) = &mut r.decoding {
                c.threshold = Some(0.0);
            }
            r
        })
        .collect();
    let alone: Vec<Output> = long.iter().map(|r| one(&llm, r.clone())).collect();
    let mut engine = llm.engine();
    let mut ids: Vec<RequestId> = Vec::new();
    let mut outputs: Vec<(RequestId, Output)> = Vec::new();
    let mut steps = 0;
    for request in long {
        ids.push(engine.submit(request).unwrap());
    }
    while !engine.is_idle() {
        steps += 1;
        for event in engine.step().unwrap() {
            if let Event::Finished { id, output } = event {
                outputs.push((id, *output));
            }
        }
    }
    assert!(steps >= 2, "6,000 rows do not fit one forward");
    for (id, wanted) in ids.iter().zip(&alone) {
        let found = outputs.iter().find(|(i, _)| i == id).map(|(_, o)| o).unwrap();
        same(found, wanted);
    }
}

#[test]
fn events_add_up() {
    for (model, decoding) in [("tiny-sdar", block(4)), ("tiny-llada", canvas(8))] {
        let llm = bundled(model);
        for stop in [vec![], vec!["#### 4".to_string()]] {
            let with = SamplingParams { stop, ..params(96) };
            let prompt = chat(&llm, QUESTION);
            let mut engine = llm.engine();
            engine.submit(Request { decoding: decoding.clone(), ..request(prompt.clone(), with) }).unwrap();
            let (mut text, mut tokens, mut canvas, mut output) = (String::new(), Vec::new(), std::collections::BTreeMap::new(), None);
            let mut commits = 0;
            while !engine.is_idle() {
                for event in engine.step().unwrap() {
                    match event {
                        Event::Revealed { slots, pass, .. } => {
                            assert!(pass >= 1);
                            for s in slots {
                                assert!(canvas.insert(s.position, s.stat.token).is_none(), "a slot is decided once");
                                assert!(s.stat.probability > 0.0 && s.stat.probability <= 1.0 && s.stat.entropy >= 0.0);
                            }
                        }
                        Event::Committed { token_ids, text: piece, .. } => {
                            commits += 1;
                            tokens.extend(token_ids);
                            text += &piece;
                        }
                        Event::Finished { output: o, .. } => output = Some(*o),
                        Event::Failed { error, .. } => panic!("{error}"),
                    }
                }
            }
            let output = output.unwrap();
            assert!(commits > 2, "the text comes in pieces");
            assert_eq!(text, output.text);
            assert_eq!(tokens[..output.token_ids.len()], output.token_ids[..]);
            assert_eq!(canvas.len(), output.stats.revealed);
            for (place, token) in canvas {
                assert_eq!(output.canvas_token_ids[place], token);
            }
        }
    }
}

#[test]
fn cancel_in_the_middle_of_a_block() {
    let llm = bundled("tiny-sdar");
    let prompt = chat(&llm, QUESTION);
    let wanted = one(&llm, request(prompt.clone(), params(40)));
    let mut engine = llm.engine();
    let doomed = engine.submit(Request { decoding: block(16), ..request(prompt.clone(), params(90)) }).unwrap();
    let other = engine.submit(request(prompt.clone(), params(40))).unwrap();
    engine.step().unwrap();
    assert!(engine.cancel(doomed));
    let mut outputs = Vec::new();
    while !engine.is_idle() {
        for event in engine.step().unwrap() {
            if let Event::Finished { id, output } = event {
                outputs.push((id, *output));
            }
        }
    }
    let cancelled = &outputs[0];
    assert_eq!((cancelled.0, cancelled.1.finish_reason), (doomed, FinishReason::Cancelled));
    assert!(cancelled.1.canvas_token_ids.contains(&3), "it was in the middle");
    assert_eq!(outputs[1].0, other);
    same(&outputs[1].1, &wanted);
    assert!(!engine.cancel(doomed), "it is gone");
    same(&one(&llm, request(prompt, params(40))), &wanted);
}

#[test]
fn a_request_that_cannot_go_on_does_not_take_others_with_it() {
    let llm = golden("sdar");
    let all: Vec<u32> = (0..320).collect();
    let mut engine = llm.engine();
    let bad = engine.submit(request(vec![1, 2], SamplingParams { banned_token_ids: all, ..params(8) })).unwrap();
    let good = engine.submit(request(vec![1, 2], SamplingParams { ignore_eos: true, ..params(8) })).unwrap();
    let (mut failed, mut finished) = (None, None);
    while !engine.is_idle() {
        for event in engine.step().unwrap() {
            match event {
                Event::Failed { id, error } => failed = Some((id, error.to_string())),
                Event::Finished { id, output } => finished = Some((id, *output)),
                _ => {}
            }
        }
    }
    let (id, error) = failed.unwrap();
    assert_eq!(id, bad);
    assert!(error.contains("banned_token_ids: ") && error.contains("leaves no token that could be drawn"), "{error}");
    let (id, output) = finished.unwrap();
    assert_eq!(id, good);
    same(&output, &one(&llm, request(vec![1, 2], SamplingParams { ignore_eos: true, ..params(8) })));
}

/// Of many requests only so many are started that their caches stay bounded, and the others wait; all come out the same.
#[test]
fn caches_of_started_requests_are_bounded() {
    let llm = golden("sdar");
    let r = |i: u32| Request { decoding: block(4), ..request(vec![i % 300; 900], SamplingParams { ignore_eos: true, ..params(8) }) };
    let alone = one(&llm, r(39));
    let mut engine = llm.engine();
    let last = (0..40).map(|i| engine.submit(r(i)).unwrap()).last().unwrap();
    let mut started = std::collections::BTreeSet::new();
    let (mut most, mut finished) = (0, 0);
    while !engine.is_idle() {
        for event in engine.step().unwrap() {
            match event {
                Event::Revealed { id, .. } => {
                    started.insert(id);
                }
                Event::Finished { id, output } => {
                    started.remove(&id);
                    finished += 1;
                    if id == last {
                        same(&output, &alone);
                    }
                }
                _ => {}
            }
        }
        most = most.max(started.len());
    }
    assert_eq!(finished, 40);
    assert!((2..=18).contains(&most), "{most} were started at once; 16,384 / 908 = 18");
}

#[test]
fn loading_tells_how_far_it_is_and_can_be_stopped() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("bundled/tiny-sdar");
    let (options, overrides) = (dlmrs::LoadOptions::default(), dlmrs::Overrides::default());
    let mut seen = Vec::new();
    let load =
        |progress: &mut dyn FnMut(usize, usize) -> bool| dlmrs::Llm::load_with(folder.to_str().unwrap(), &options, &overrides, progress);
    load(&mut |done, parts| {
        seen.push((done, parts));
        true
    })
    .unwrap();
    assert_eq!(seen, (1..=7).map(|done| (done, 7)).collect::<Vec<_>>(), "six layers and the rest");
    assert!(matches!(load(&mut |done, _| done < 3), Err(dlmrs::Error::Interrupted)));
}

#[test]
fn an_error_names_the_request() {
    let llm = golden("sdar");
    let good = request(vec![1, 2], SamplingParams { ignore_eos: true, ..params(8) });
    let run = |bad: Request| llm.generate(vec![good.clone(), bad], |_, _| true).unwrap_err().to_string();
    assert!(run(request(vec![], params(4))).starts_with("prompt (request 2 of 2): is empty"));
    let all: Vec<u32> = (0..320).collect();
    let error = run(request(vec![1, 2], SamplingParams { banned_token_ids: all, ..params(8) }));
    assert!(error.starts_with("banned_token_ids (request 2 of 2): "), "{error}");
}

#[test]
fn several_threads_share_a_model() {
    let llm = bundled("tiny-sdar");
    let wanted: Vec<Output> = mixed(&llm).into_iter().map(|r| one(&llm, r)).collect();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let found = llm.generate(mixed(&llm), |_, _| true).unwrap();
                wanted.iter().zip(&found).for_each(|(w, f)| same(w, f));
            });
        }
    });
}
