//! What a checkpoint is, without loading it.

use dlmrs::{Llm, Overrides};
use pyo3::prelude::*;

use crate::errors::Result;
use crate::{json, value};

/// The models inside this package, by the names that `LLM` takes.
#[pyfunction]
pub(crate) fn bundled_models() -> Vec<&'static str> {
    #[cfg(feature = "bundled")]
    return dlmrs::checkpoint::bundled::NAMES.to_vec();
    #[cfg(not(feature = "bundled"))]
    return Vec::new();
}

/// What a checkpoint is, from its config and the headers of its weights: family, sizes, memory, mask token, block length, stop tokens
/// and where each was found, and the methods that work on it. Nothing is loaded.
#[pyfunction]
#[pyo3(signature = (model, *, max_model_len=None, mask_token_id=None, block_length=None, stop_token_ids=None))]
pub(crate) fn inspect<'py>(
    model: &Bound<'py, PyAny>,
    max_model_len: Option<&Bound<'py, PyAny>>,
    mask_token_id: Option<&Bound<'py, PyAny>>,
    block_length: Option<&Bound<'py, PyAny>>,
    stop_token_ids: Option<&Bound<'py, PyAny>>,
) -> Result<Bound<'py, PyAny>> {
    let py = model.py();
    let (name, overrides) = (path(model)?, overrides(max_model_len, mask_token_id, block_length, stop_token_ids)?);
    let report = py.detach(|| Llm::inspect(&name, &overrides))?;
    let report = serde_json::to_value(report).map_err(|error| dlmrs::Error::checkpoint(name, error.to_string()))?;
    Ok(json::to_python(py, &report)?)
}

/// The name of a bundled model, or a path in any of Python's forms.
pub(crate) fn path(model: &Bound<'_, PyAny>) -> Result<String> {
    let path = model.py().import("os")?.call_method1("fspath", (model,));
    let text = path.and_then(|path| path.extract::<String>());
    text.map_err(|_| value::refuse("model", model, "the path of a folder or a GGUF file, or the name of a bundled model").into())
}

/// What the caller says in place of the checkpoint.
pub(crate) fn overrides(
    max_model_len: Option<&Bound<'_, PyAny>>,
    mask_token_id: Option<&Bound<'_, PyAny>>,
    block_length: Option<&Bound<'_, PyAny>>,
    stop_token_ids: Option<&Bound<'_, PyAny>>,
) -> Result<Overrides> {
    Ok(Overrides {
        mask_token_id: value::given(mask_token_id, |id| value::id("mask_token_id", id))?,
        block_length: value::given(block_length, |length| value::count("block_length", length))?,
        stop_token_ids: value::given(stop_token_ids, |ids| value::ids("stop_token_ids", ids))?,
        max_model_len: value::given(max_model_len, |length| value::count("max_model_len", length))?,
    })
}
