//! The engine's events as `dlmrs.Revealed`, `dlmrs.Committed` and `dlmrs.Finished`.

use dlmrs::Event;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};

use crate::errors::{Failure, Result};
use crate::output;

/// The object of an event; one that says that the request failed becomes the exception.
pub(crate) fn object(py: Python<'_>, event: Event) -> Result<Bound<'_, PyAny>> {
    static REVEALED: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    static COMMITTED: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    static FINISHED: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let fields = PyDict::new(py);
    let class = match event {
        Event::Revealed { pass, slots, .. } => {
            fields.set_item("pass_number", pass)?;
            fields.set_item("positions", slots.iter().map(|slot| slot.position).collect::<Vec<_>>())?;
            fields.set_item("token_ids", slots.iter().map(|slot| slot.stat.token).collect::<Vec<_>>())?;
            fields.set_item("probabilities", slots.iter().map(|slot| slot.stat.probability).collect::<Vec<_>>())?;
            fields.set_item("how", slots.iter().map(|slot| slot.how.name()).collect::<Vec<_>>())?;
            REVEALED.import(py, "dlmrs.events", "Revealed")?
        }
        Event::Committed { token_ids, text, .. } => {
            fields.set_item("token_ids", token_ids)?;
            fields.set_item("text", text)?;
            COMMITTED.import(py, "dlmrs.events", "Committed")?
        }
        Event::Finished { output, .. } => {
            fields.set_item("output", output::single(py, *output)?)?;
            FINISHED.import(py, "dlmrs.events", "Finished")?
        }
        Event::Failed { error, .. } => return Err(Failure::Library(error)),
    };
    Ok(class.call((), Some(&fields))?)
}
