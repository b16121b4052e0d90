//! Requests in order through one engine, a few at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use dlmrs::engine::{RequestId, Work};
use dlmrs::{Error, Event, Llm, Output, Request};

use crate::failure::Failure;

/// What is done with what comes out.
pub(crate) trait Sink {
    /// Something happened to the request with this number.
    fn event(&mut self, number: usize, event: &Event) -> Result<(), Failure>;
    /// A request has ended. Outputs come in the order of the requests.
    fn output(&mut self, number: usize, output: Output) -> Result<(), Failure>;
    /// All have ended, after this work.
    fn end(&mut self, _work: Work) {}
    /// A request could not go on, in its turn among the outputs. Unless the sink knows better, that ends the command.
    fn failed(&mut self, _number: usize, place: &str, error: Error) -> Result<(), Failure> {
        Err(Failure::at(place, error))
    }
}

/// Runs requests, at most `together` of them in one forward. `places` name them in errors.
pub(crate) fn run(
    llm: &Arc<Llm>,
    requests: Vec<Request>,
    places: &[&str],
    together: usize,
    interrupt: &dyn Fn() -> bool,
    sink: &mut dyn Sink,
) -> Result<(), Failure> {
    let place = |number: usize| places.get(number).copied().unwrap_or_default();
    let mut engine = llm.engine();
    let mut waiting = requests.into_iter().enumerate();
    let mut running: BTreeMap<RequestId, usize> = BTreeMap::new();
    let mut done: BTreeMap<usize, Result<Output, Error>> = BTreeMap::new();
    let mut next = 0;
    loop {
        // Outputs that wait for an earlier one count too, or they would pile up behind a slow request.
        for (number, request) in waiting.by_ref().take(together.saturating_sub(running.len() + done.len())) {
            running.insert(engine.submit(request).map_err(|error| Failure::at(place(number), error))?, number);
        }
        if engine.is_idle() {
            sink.end(engine.work());
            return Ok(());
        }
        if interrupt() {
            return Err(Failure::Interrupted);
        }
        for event in engine.step()? {
            let id = event.id();
            let number = running.get(&id).copied().unwrap_or_default();
            match event {
                Event::Failed { error, .. } => {
                    running.remove(&id);
                    done.insert(number, Err(error));
                }
                Event::Finished { output, .. } => {
                    running.remove(&id);
                    done.insert(number, Ok(*output));
                }
                event => sink.event(number, &event)?,
            }
        }
        while let Some(result) = done.remove(&next) {
            match result {
                Ok(output) => sink.output(next, output)?,
                Err(error) => sink.failed(next, place(next), error)?,
            }
            next += 1;
        }
    }
}

/// Asks the engine whether it would take each request, so that a mistake in the last one is told before the first one is worked on.
pub(crate) fn check(llm: &Arc<Llm>, requests: &[Request], places: &[&str]) -> Result<(), Failure> {
    for (number, request) in requests.iter().enumerate() {
        let place = places.get(number).copied().unwrap_or_default();
        llm.engine().submit(request.clone()).map_err(|error| Failure::at(place, error))?;
    }
    Ok(())
}
