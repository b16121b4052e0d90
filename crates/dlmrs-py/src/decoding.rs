//! `dlmrs.BlockDiffusion` and `dlmrs.Canvas` as the library's.

use dlmrs::decode::{DreamAlg, Refresh, Remasking, Strategy};
use dlmrs::{BlockDiffusion, Canvas, Decoding};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyType};

use crate::errors::Result;
use crate::params::Fields;
use crate::{suffix, value};

/// A method of decoding; None is the model's own.
pub(crate) fn read(decoding: Option<&Bound<'_, PyAny>>) -> Result<Option<Decoding>> {
    value::given(decoding, |decoding| {
        if is_block_diffusion(decoding)? {
            Ok(Decoding::Block(block_diffusion(decoding)?))
        } else if is_canvas(decoding)? {
            Ok(Decoding::Canvas(canvas(decoding)?))
        } else {
            Err(value::refuse("decoding", decoding, "a BlockDiffusion, a Canvas or None").into())
        }
    })
}

fn block_diffusion(decoding: &Bound<'_, PyAny>) -> Result<BlockDiffusion> {
    let (py, fields) = (decoding.py(), Fields(decoding));
    Ok(BlockDiffusion {
        block_length: fields.optional(intern!(py, "block_length"), value::count)?,
        steps: fields.optional(intern!(py, "steps"), value::count)?,
        strategy: fields.read(intern!(py, "strategy"), value::text)?.parse::<Strategy>()?,
        threshold: fields.optional(intern!(py, "threshold"), value::number)?,
        entropy_bound: fields.optional(intern!(py, "entropy_bound"), value::number)?,
    })
}

fn canvas(decoding: &Bound<'_, PyAny>) -> Result<Canvas> {
    let (py, fields) = (decoding.py(), Fields(decoding));
    Ok(Canvas {
        block_length: fields.optional(intern!(py, "block_length"), value::count)?,
        steps: fields.optional(intern!(py, "steps"), value::count)?,
        strategy: fields.read(intern!(py, "strategy"), value::text)?.parse::<Remasking>()?,
        threshold: fields.optional(intern!(py, "threshold"), value::number)?,
        factor: fields.optional(intern!(py, "factor"), value::number)?,
        factor_compat: fields.read(intern!(py, "factor_compat"), value::flag)?,
        max_reveals: fields.optional(intern!(py, "max_reveals"), value::count)?,
        cache: fields.read(intern!(py, "cache"), value::text)?.parse()?,
        refresh: fields.read(intern!(py, "refresh"), refresh)?,
        suffix: fields.read(intern!(py, "suffix"), suffix::read)?,
        early_stop: fields.read(intern!(py, "early_stop"), value::text)?.parse()?,
        cfg_scale: fields.read(intern!(py, "cfg_scale"), value::number)?,
        alg: fields.optional(intern!(py, "alg"), value::text)?.map(|alg| alg.parse::<DreamAlg>()).transpose()?,
        eps: fields.read(intern!(py, "eps"), value::number)?,
        alg_temp: fields.read(intern!(py, "alg_temp"), value::number)?,
        logits_eos_inf: fields.read(intern!(py, "logits_eos_inf"), value::flag)?,
        confidence_eos_eot_inf: fields.read(intern!(py, "confidence_eos_eot_inf"), value::flag)?,
    })
}

/// "block", "step", or a number of blocks.
fn refresh(name: &str, when: &Bound<'_, PyAny>) -> Result<Refresh> {
    match when.is_instance_of::<PyString>() {
        true => Ok(value::text(name, when)?.parse()?),
        false => Ok(Refresh::Blocks(value::count(name, when)?)),
    }
}

fn is_block_diffusion(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    object.is_instance(CLASS.import(object.py(), "dlmrs.decoding", "BlockDiffusion")?)
}

fn is_canvas(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    object.is_instance(CLASS.import(object.py(), "dlmrs.decoding", "Canvas")?)
}

/// Raises InputError unless all values of a method of decoding are of the right type and in range, whatever the model.
#[pyfunction]
#[pyo3(signature = (decoding, /))]
pub(crate) fn check_decoding(decoding: &Bound<'_, PyAny>) -> Result<()> {
    if let Some(decoding) = read(Some(decoding))? {
        decoding.validate()?;
    }
    Ok(())
}
