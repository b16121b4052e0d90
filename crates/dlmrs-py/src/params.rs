//! `dlmrs.SamplingParams` as the library's.

use std::collections::BTreeMap;

use dlmrs::{Error, SamplingParams};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyMapping, PyString, PyType};

use crate::errors::Result;
use crate::value;

/// An object of settings, read field by field. Names are interned, or each would become a new string in each call.
pub(crate) struct Fields<'a, 'py>(pub(crate) &'a Bound<'py, PyAny>);

impl<'py> Fields<'_, 'py> {
    /// A field that must have a value.
    pub(crate) fn read<T>(&self, name: &Bound<'py, PyString>, read: impl FnOnce(&str, &Bound<'py, PyAny>) -> Result<T>) -> Result<T> {
        read(name.to_str()?, &self.0.getattr(name)?)
    }

    /// A field that may be None.
    pub(crate) fn optional<T>(
        &self,
        name: &Bound<'py, PyString>,
        read: impl FnOnce(&str, &Bound<'py, PyAny>) -> Result<T>,
    ) -> Result<Option<T>> {
        value::optional(&self.0.getattr(name)?, |value| read(name.to_str()?, value))
    }
}

fn read(params: &Bound<'_, PyAny>) -> Result<SamplingParams> {
    let (py, fields) = (params.py(), Fields(params));
    Ok(SamplingParams {
        max_tokens: fields.read(intern!(py, "max_tokens"), value::count)?,
        min_tokens: fields.read(intern!(py, "min_tokens"), value::count)?,
        temperature: fields.read(intern!(py, "temperature"), value::number)?,
        top_p: fields.read(intern!(py, "top_p"), value::number)?,
        top_k: fields.read(intern!(py, "top_k"), value::count)?,
        seed: fields.optional(intern!(py, "seed"), value::seed)?,
        stop: fields.read(intern!(py, "stop"), value::texts)?,
        stop_token_ids: fields.read(intern!(py, "stop_token_ids"), value::ids)?,
        ignore_eos: fields.read(intern!(py, "ignore_eos"), value::flag)?,
        repetition_penalty: fields.read(intern!(py, "repetition_penalty"), value::number)?,
        logit_bias: fields.optional(intern!(py, "logit_bias"), biases)?.unwrap_or_default(),
        banned_token_ids: fields.read(intern!(py, "banned_token_ids"), value::ids)?,
        trace: fields.read(intern!(py, "trace"), value::flag)?,
    })
}

fn biases(name: &str, object: &Bound<'_, PyAny>) -> Result<BTreeMap<u32, f32>> {
    let mapping = object.cast::<PyMapping>().map_err(|_| value::refuse(name, object, "a dict of token ids and numbers"))?;
    let pair = |item: Bound<'_, PyAny>| {
        let (id, bias): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
        Ok((value::id(name, &id)?, value::number(name, &bias)?))
    };
    mapping.items()?.iter().map(pair).collect()
}

/// The setting of a single request.
pub(crate) fn one(params: Option<&Bound<'_, PyAny>>) -> Result<SamplingParams> {
    match params.filter(|params| !params.is_none()) {
        None => Ok(SamplingParams::default()),
        Some(params) if is_params(params)? => read(params),
        Some(params) => Err(value::refuse("params", params, "a SamplingParams").into()),
    }
}

/// One setting for all of `prompts` requests, or a list of one for each.
pub(crate) fn for_each(params: Option<&Bound<'_, PyAny>>, prompts: usize) -> Result<Vec<SamplingParams>> {
    let Some(params) = params.filter(|params| !params.is_none()) else {
        return Ok(vec![SamplingParams::default(); prompts]);
    };
    if is_params(params)? {
        return Ok(vec![read(params)?; prompts]);
    }
    let one = |name: &str, params: &Bound<'_, PyAny>| match is_params(params)? {
        true => read(params),
        false => Err(value::refuse(name, params, "a SamplingParams").into()),
    };
    let all = value::list("params", params, "a SamplingParams or a list of one for each prompt", one)?;
    match all.len() == prompts {
        true => Ok(all),
        false => {
            let message =
                format!("has {} entries for {prompts} prompts; one for each prompt (or a single one for all) is needed", all.len());
            Err(Error::input("params", message).into())
        }
    }
}

fn is_params(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    object.is_instance(CLASS.import(object.py(), "dlmrs.params", "SamplingParams")?)
}

/// Raises InputError unless all values of a SamplingParams are of the right type and in range, whatever the model.
#[pyfunction]
#[pyo3(signature = (params, /))]
pub(crate) fn check_params(params: &Bound<'_, PyAny>) -> Result<()> {
    Ok(read(params)?.validate(usize::MAX)?)
}
