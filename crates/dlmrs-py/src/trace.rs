//! The library's trace as `dlmrs.Trace`.

use dlmrs::engine::{Trace, Traced};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};

/// One numpy array a column; all are as long as there are slots.
pub(crate) fn object<'py>(py: Python<'py>, trace: &Trace) -> PyResult<Bound<'py, PyAny>> {
    let slots = &trace.slots;
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let integers = |value: fn(&Traced) -> i64| PyArray1::from_iter(py, slots.iter().map(value));
    let floats = |value: fn(&Traced) -> f32| PyArray1::from_iter(py, slots.iter().map(value));
    let fields = PyDict::new(py);
    fields.set_item("positions", integers(|slot| slot.position as i64))?;
    fields.set_item("token_ids", integers(|slot| i64::from(slot.token)))?;
    fields.set_item("passes", integers(|slot| slot.pass as i64))?;
    fields.set_item("probabilities", floats(|slot| slot.probability))?;
    fields.set_item("entropies", floats(|slot| slot.entropy))?;
    fields.set_item("margins", floats(|slot| slot.margin))?;
    fields.set_item("how", slots.iter().map(|slot| slot.how.name()).collect::<Vec<_>>())?;
    fields.set_item("replaced", trace.replaced.iter().map(|slot| (slot.position, slot.token, slot.pass)).collect::<Vec<_>>())?;
    fields.set_item("kept_suffix", &trace.kept_suffix)?;
    CLASS.import(py, "dlmrs.trace", "Trace")?.call((), Some(&fields))
}
