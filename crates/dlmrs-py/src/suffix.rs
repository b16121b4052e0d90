//! `dlmrs.SuffixDropout`, `dlmrs.WindowTail`, `dlmrs.Spotlight`, names and lists of places as the library's suffix policies.

use dlmrs::decode::{DropoutKind, Spotlight, Suffix, SuffixDropout, WindowTail, preset, presets};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::errors::Result;
use crate::params::Fields;
use crate::value;

/// A policy; None is "off".
pub(crate) fn read(name: &str, policy: &Bound<'_, PyAny>) -> Result<Suffix> {
    if policy.is_none() {
        return Ok(Suffix::Off);
    }
    if policy.is_instance_of::<PyString>() {
        return Ok(value::text(name, policy)?.parse()?);
    }
    let (py, fields) = (policy.py(), Fields(policy));
    let is = |class: &str| -> PyResult<bool> { policy.is_instance(&py.import("dlmrs.decoding")?.getattr(class)?) };
    if is("SuffixDropout")? {
        return Ok(Suffix::Dropout(SuffixDropout {
            window: fields.optional(intern!(py, "window"), value::count)?,
            k: fields.optional(intern!(py, "k"), value::number)?,
            a: fields.optional(intern!(py, "a"), value::number)?,
            kind: fields.read(intern!(py, "kind"), value::text)?.parse::<DropoutKind>()?,
            budget: fields.optional(intern!(py, "budget"), value::count)?,
        }));
    }
    if is("WindowTail")? {
        let window = fields.optional(intern!(py, "window"), value::count)?;
        return Ok(Suffix::WindowTail(WindowTail { window, tail: fields.read(intern!(py, "tail"), value::count)? }));
    }
    if is("Spotlight")? {
        let distance = fields.read(intern!(py, "distance"), value::count)?;
        return Ok(Suffix::Spotlight(Spotlight { distance, count: fields.read(intern!(py, "count"), value::count)? }));
    }
    let wanted = "a SuffixDropout, a WindowTail, a Spotlight, a policy's name, or a list of kept places for each block";
    Ok(Suffix::Kept(value::list(name, policy, wanted, value::ids)?))
}

/// Raises InputError unless all values of a suffix policy are of the right type and in range.
#[pyfunction]
#[pyo3(signature = (policy, /))]
pub(crate) fn check_suffix(policy: &Bound<'_, PyAny>) -> Result<()> {
    Ok(read("suffix", policy)?.validate()?)
}

/// The values of a published setting of suffix dropout, by its name.
#[pyfunction]
#[pyo3(signature = (name, /))]
pub(crate) fn suffix_preset<'py>(py: Python<'py>, name: &Bound<'py, PyAny>) -> Result<Bound<'py, PyDict>> {
    let found = preset(&value::text("preset", name)?)?;
    let fields = PyDict::new(py);
    fields.set_item("window", found.window)?;
    // As they are written, not as the f64 that lies nearest to the f32.
    let typed = |value: Option<f32>| value.map(|value| f64::from((value * 100.0).round()) / 100.0);
    fields.set_item("k", typed(found.k))?;
    fields.set_item("a", typed(found.a))?;
    Ok(fields)
}

/// The names of the published settings of suffix dropout.
#[pyfunction]
pub(crate) fn suffix_presets() -> Vec<&'static str> {
    presets()
}

/// How likely each mask behind a block is to be kept, the nearest first, where an answer has so many slots.
#[pyfunction]
#[pyo3(signature = (policy, slots, /))]
pub(crate) fn kept_probabilities(policy: &Bound<'_, PyAny>, slots: &Bound<'_, PyAny>) -> Result<Vec<f64>> {
    match read("policy", policy)? {
        Suffix::Dropout(dropout) => {
            dropout.validate()?;
            Ok(dropout.probabilities(value::count("slots", slots)?))
        }
        _ => Err(value::refuse("policy", policy, "a SuffixDropout").into()),
    }
}
