//! The engine with a thread of its own: many callers, one forward, and nothing of that shows in their results.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dlmrs::engine::{Next, Service};
use dlmrs::{Error, Event, FinishReason, Llm, Output, Request, SamplingParams};

use crate::common::{QUESTION, bundled, chat, one, params, request};

/// The output of a stream that is read to its end, and the texts that came before.
fn read(stream: dlmrs::engine::Stream) -> (Result<Output, Error>, String) {
    let mut text = String::new();
    for event in stream {
        match event {
            Event::Committed { text: new, .. } => text += &new,
            Event::Finished { output, .. } => return (Ok(*output), text),
            Event::Failed { error, .. } => return (Err(error), text),
            Event::Revealed { .. } => {}
        }
    }
    panic!("a stream ended without its last event");
}

fn mixed(llm: &Llm, number: usize) -> Request {
    let questions = [QUESTION, "How many?", "Tim has 4 pens.", "A bag holds 12 apples and 3 pears. How many fruits?"];
    let settings = match number % 5 {
        0 => params(8 + number % 17),
        1 => SamplingParams { temperature: 1.0, seed: Some(number as u64), ..params(12) },
        2 => SamplingParams { temperature: 0.8, top_k: 5, seed: Some(9), ..params(10) },
        3 => SamplingParams { stop: vec![".".into()], ..params(30) },
        _ => SamplingParams { trace: true, ..params(9) },
    };
    request(chat(llm, questions[number % questions.len()]), settings)
}

/// 200 requests from 8 threads: most are read to their end, some are cancelled, some dropped half-way, some refused.
#[test]
fn two_hundred_requests_from_eight_threads() {
    let llm = bundled("tiny-sdar");
    let service = Service::start(llm.clone()).unwrap();
    let next = AtomicUsize::new(0);
    let caller = || {
        let mut outputs = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            match number {
                200.. => return outputs,
                n if n % 11 == 3 => {
                    let error = service.submit(request(vec![99_999], params(4))).err().unwrap();
                    assert!(matches!(error, Error::Input { .. }), "{error}");
                }
                n if n % 11 == 5 => {
                    let mut stream = service.submit(mixed(&llm, n)).unwrap();
                    let first = stream.next().unwrap();
                    assert!(matches!(first, Event::Revealed { .. }), "{first:?}");
                }
                n if n % 11 == 7 => {
                    let stream =
                        service.submit(Request { params: SamplingParams { ignore_eos: true, ..params(400) }, ..mixed(&llm, n) }).unwrap();
                    stream.cancel();
                    let (output, text) = read(stream);
                    let output = output.unwrap();
                    assert_eq!((output.finish_reason, output.text), (FinishReason::Cancelled, text));
                }
                n => {
                    let (output, text) = read(service.submit(mixed(&llm, n)).unwrap());
                    let output = output.unwrap();
                    assert_eq!(output.text, text);
                    outputs.push((n, output));
                }
            }
        }
    };
    let outputs: Vec<(usize, Output)> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..8).map(|_| scope.spawn(caller)).collect();
        callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect()
    });
    assert_eq!(outputs.len(), 146);
    for (number, output) in outputs {
        let alone = one(&llm, mixed(&llm, number));
        assert_eq!(
            (&output.canvas_token_ids, &output.text, output.finish_reason),
            (&alone.canvas_token_ids, &alone.text, alone.finish_reason)
        );
        assert_eq!((&output.stats.passes, output.stats.rows, &output.trace), (&alone.stats.passes, alone.stats.rows, &alone.trace));
    }
    drop(service);
    assert_eq!(Arc::strong_count(&llm), 1, "the service keeps the model");
}

#[test]
fn closing_ends_what_is_under_way() {
    let llm = bundled("tiny-sdar");
    let service = Service::start(llm.clone()).unwrap();
    let mut stream = service.submit(request(vec![20; 10], SamplingParams { ignore_eos: true, ..params(500) })).unwrap();
    assert!(matches!(stream.next(), Some(Event::Revealed { pass: 1, .. })));
    drop(service);
    let last = stream.by_ref().last().unwrap();
    assert!(matches!(last, Event::Failed { error: Error::Stopped, .. }), "{last:?}");
    assert!(stream.next().is_none() && matches!(stream.try_next(), Next::Ended));
    assert!(matches!(stream.next_within(Duration::ZERO), Next::Ended));
}

#[test]
fn a_waker_is_called_once_something_comes() {
    let llm = bundled("tiny-sdar");
    let service = Service::start(llm.clone()).unwrap();
    let mut stream = service.submit(request(vec![20; 10], params(8))).unwrap();
    let mut events = 0;
    loop {
        let (sender, woken) = std::sync::mpsc::channel();
        stream.wake(move || sender.send(()).unwrap());
        match stream.try_next() {
            Next::Event(event) => {
                events += 1;
                if event.is_last() {
                    break;
                }
            }
            Next::Pending => woken.recv().unwrap(),
            Next::Ended => panic!("the last event was missed"),
        }
    }
    assert!(events >= 4, "{events}");
    // A closed service wakes too, or its reader would wait for ever.
    let mut stream = service.submit(request(vec![20; 10], SamplingParams { ignore_eos: true, ..params(500) })).unwrap();
    while !matches!(stream.next_within(Duration::from_secs(60)), Next::Event(_)) {}
    drop(service);
    let (sender, woken) = std::sync::mpsc::channel();
    stream.wake(move || {
        let _ = sender.send(());
    });
    while let Next::Event(_) = stream.try_next() {}
    drop(woken);
}

#[test]
fn a_trace_tells_how_each_slot_was_decided() {
    for name in ["tiny-sdar", "tiny-llada"] {
        let llm = bundled(name);
        let prompt = chat(&llm, QUESTION);
        let plain = one(&llm, request(prompt.clone(), params(24)));
        let traced = one(&llm, request(prompt.clone(), SamplingParams { trace: true, ..params(24) }));
        assert_eq!((plain.trace, &plain.token_ids), (None, &traced.token_ids));
        let dlmrs::engine::Trace { slots: trace, kept_suffix, replaced } = traced.trace.unwrap();
        assert!(replaced.is_empty(), "nothing is decided twice without editing");
        assert_eq!(kept_suffix.len(), traced.stats.blocks);
        assert_eq!(trace.len(), traced.stats.revealed);
        let positions: Vec<usize> = trace.iter().map(|slot| slot.position).collect();
        assert_eq!(positions, (prompt.len()..prompt.len() + trace.len()).collect::<Vec<_>>());
        for slot in &trace {
            assert_eq!(slot.token, traced.canvas_token_ids[slot.position]);
            assert!((1..=traced.stats.total_passes()).contains(&slot.pass));
            assert!(slot.probability > 0.0 && slot.probability <= 1.0 && slot.entropy >= 0.0 && slot.margin >= 0.0, "{slot:?}");
        }
    }
}
