//! The library's log messages as records of Python's logger `dlmrs`.

use std::fmt::{Debug, Write};

use pyo3::prelude::*;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Sends this library's messages to Python's logging, unless the process has a subscriber of its own already.
pub(crate) fn install() {
    // An error says that there is one.
    let _ = tracing::subscriber::set_global_default(ToPython);
}

struct ToPython;

impl Subscriber for ToPython {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target().starts_with("dlmrs") && *metadata.level() <= Level::DEBUG
    }

    fn event(&self, event: &Event<'_>) {
        let level = match *event.metadata().level() {
            Level::ERROR => 40,
            Level::WARN => 30,
            Level::INFO => 20,
            _ => 10,
        };
        let mut line = Line::default();
        event.record(&mut line);
        // While the interpreter ends there is no logging; what a handler raises is its own affair.
        Python::try_attach(|py| {
            let logger = py.import("logging").and_then(|logging| logging.call_method1("getLogger", ("dlmrs",)));
            drop(logger.and_then(|logger| logger.call_method1("log", (level, "%s", line.message + &line.fields))));
        });
    }

    // The library has no spans.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// A message and its fields as ` (name=value, ...)`.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}
