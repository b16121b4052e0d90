//! The library's outputs as `dlmrs.Output`.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;

use dlmrs::Output;
use dlmrs::decode::Counts;
use dlmrs::engine::{Stats, StopCause};
use pyo3::exceptions::PyUserWarning;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};

use crate::errors::Result;
use crate::trace;

/// As [`all`], of one output.
pub(crate) fn single(py: Python<'_>, output: Output) -> Result<Bound<'_, PyAny>> {
    warn(py, std::slice::from_ref(&output))?;
    Ok(one(py, output)?)
}

/// Makes the Python objects, and issues each warning once.
pub(crate) fn all<'py>(py: Python<'py>, outputs: Vec<Output>) -> Result<Vec<Bound<'py, PyAny>>> {
    warn(py, &outputs)?;
    outputs.into_iter().map(|output| Ok(one(py, output)?)).collect()
}

fn warn(py: Python<'_>, outputs: &[Output]) -> Result<()> {
    let warnings: BTreeSet<String> = outputs.iter().flat_map(|output| output.warnings.iter().cloned()).collect();
    for warning in warnings {
        let message = CString::new(warning).map_err(PyErr::from)?;
        PyErr::warn(py, &py.get_type::<PyUserWarning>(), &message, 1)?;
    }
    Ok(())
}

fn one(py: Python<'_>, output: Output) -> PyResult<Bound<'_, PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let fields = PyDict::new(py);
    fields.set_item(intern!(py, "text"), output.text)?;
    fields.set_item(intern!(py, "token_ids"), output.token_ids)?;
    fields.set_item(intern!(py, "prompt_token_ids"), output.prompt_token_ids)?;
    fields.set_item(intern!(py, "canvas_token_ids"), output.canvas_token_ids)?;
    fields.set_item(intern!(py, "finish_reason"), output.finish_reason.name())?;
    match output.stop_cause {
        None => fields.set_item(intern!(py, "stop_cause"), py.None())?,
        Some(StopCause::Token(id)) => fields.set_item(intern!(py, "stop_cause"), id)?,
        Some(StopCause::Text(text)) => fields.set_item(intern!(py, "stop_cause"), text)?,
    }
    fields.set_item(intern!(py, "seed"), output.seed)?;
    fields.set_item(intern!(py, "stats"), stats(py, &output.stats)?)?;
    fields.set_item(intern!(py, "trace"), output.trace.map(|trace| trace::object(py, &trace)).transpose()?)?;
    fields.set_item(intern!(py, "warnings"), output.warnings)?;
    object(CLASS.import(py, "dlmrs.output", "Output")?, &fields)
}

fn stats<'py>(py: Python<'py>, stats: &Stats) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    // Every kind, also those that did not occur.
    let by_kind = |counts: &Counts| counts.iter().map(|(kind, count)| (kind.name(), count)).collect::<BTreeMap<_, _>>();
    let fields = PyDict::new(py);
    fields.set_item(intern!(py, "passes"), by_kind(&stats.passes))?;
    fields.set_item(intern!(py, "total_passes"), stats.total_passes())?;
    fields.set_item(intern!(py, "rows"), by_kind(&stats.rows))?;
    fields.set_item(intern!(py, "keys"), by_kind(&stats.keys))?;
    fields.set_item(intern!(py, "draft_passes"), by_kind(&stats.draft_passes))?;
    fields.set_item(intern!(py, "draft_rows"), by_kind(&stats.draft_rows))?;
    fields.set_item(intern!(py, "target_passes"), stats.target_passes())?;
    fields.set_item(intern!(py, "tokens_per_target_pass"), stats.tokens_per_target_pass())?;
    let tally = &stats.speculation;
    fields.set_item(intern!(py, "rounds"), tally.rounds)?;
    fields.set_item(intern!(py, "drafted"), tally.drafted)?;
    fields.set_item(intern!(py, "accepted"), tally.accepted)?;
    fields.set_item(intern!(py, "acceptance"), tally.acceptance())?;
    fields.set_item(intern!(py, "corrections"), tally.corrections)?;
    fields.set_item(intern!(py, "wasted"), tally.wasted)?;
    fields.set_item(intern!(py, "unfolded_passes"), tally.unfolded_passes)?;
    fields.set_item(intern!(py, "scanned_rows"), stats.scanned_rows)?;
    fields.set_item(intern!(py, "revealed"), stats.revealed)?;
    fields.set_item(intern!(py, "edited"), stats.edited)?;
    fields.set_item(intern!(py, "blocks"), stats.blocks)?;
    fields.set_item(intern!(py, "mean_kept_suffix"), stats.mean_kept_suffix())?;
    fields.set_item(intern!(py, "tokens"), stats.tokens)?;
    fields.set_item(intern!(py, "tokens_per_pass"), stats.tokens_per_pass())?;
    fields.set_item(intern!(py, "forward_seconds"), stats.forward.as_secs_f64())?;
    fields.set_item(intern!(py, "scan_seconds"), stats.scan.as_secs_f64())?;
    fields.set_item(intern!(py, "total_seconds"), stats.total.as_secs_f64())?;
    object(CLASS.import(py, "dlmrs.output", "Stats")?, &fields)
}

/// An object of a frozen dataclass with all of its fields. Its own `__init__` would set them one by one, in Python code, which took
/// longer than the rest of a conversion; it does nothing else.
fn object<'py>(class: &Bound<'py, PyType>, fields: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
    let py = class.py();
    let object = class.call_method1(intern!(py, "__new__"), (class,))?;
    object.getattr(intern!(py, "__dict__"))?.cast::<PyDict>()?.update(fields.as_mapping())?;
    Ok(object)
}
