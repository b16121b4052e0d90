//! Running requests: without the GIL, and so that Ctrl-C works.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dlmrs::{DraftSource, Llm, LoadOptions, Output, Overrides, Request};
use pyo3::prelude::*;

use crate::errors::Result;

/// How long Python's signal handlers wait at most, beside the pass that is running. Asking more often would make short passes wait for
/// a GIL that other threads hold.
pub(crate) const PATIENCE: Duration = Duration::from_millis(10);

/// Runs the requests that `prepare` makes, together. Between passes Python's signal handlers run; if one raises, the requests are dropped.
pub(crate) fn run(
    py: Python<'_>,
    llm: &Arc<Llm>,
    prepare: impl FnOnce() -> Result<Vec<Request>, dlmrs::Error> + Send,
) -> Result<Vec<Output>> {
    let mut signals = Signals::default();
    let outputs = py.detach(|| llm.generate_with(prepare()?, &mut |_, _| true, || signals.go_on()));
    match signals.raised {
        Some(error) => Err(error.into()),
        None => Ok(outputs?),
    }
}

/// Loads a model without the GIL. Between layers Python's signal handlers run; if one raises, the loading ends.
pub(crate) fn load(
    py: Python<'_>,
    name: &str,
    draft: Option<&DraftSource>,
    options: &LoadOptions,
    overrides: &Overrides,
) -> Result<Arc<Llm>> {
    let mut signals = Signals::default();
    let loaded = py.detach(|| match draft {
        Some(draft) => Llm::load_pair(name, draft, options, overrides, &mut |_, _| signals.go_on()),
        None => Llm::load_with(name, options, overrides, &mut |_, _| signals.go_on()),
    });
    match signals.raised {
        Some(error) => Err(error.into()),
        None => Ok(loaded?),
    }
}

/// Asks Python for signals from code that does not hold the GIL.
#[derive(Default)]
pub(crate) struct Signals {
    asked: Option<Instant>,
    raised: Option<PyErr>,
}

impl Signals {
    /// False once a handler has raised.
    pub(crate) fn go_on(&mut self) -> bool {
        if self.raised.is_none() && self.asked.is_none_or(|asked| asked.elapsed() >= PATIENCE) {
            self.raised = Python::attach(|py| py.check_signals()).err();
            self.asked = Some(Instant::now());
        }
        self.raised.is_none()
    }

    /// What a handler raised.
    pub(crate) fn into_raised(self) -> Option<PyErr> {
        self.raised
    }
}
