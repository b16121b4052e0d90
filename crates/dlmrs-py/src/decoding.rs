//! The methods of `dlmrs.decoding` as the library's.

use dlmrs::decode::{Acceptance, Amount, BlockPreset, DreamAlg, Fallback, Refresh, Remasking, Strategy, Variant, VerifyLayout, estimator};
use dlmrs::speculate::route::{Policy, Score};
use dlmrs::{BlockDiffusion, Canvas, Decoding, Editing, Error, Lookahead, S2D2, SimSD, SubBlockDiffusion};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyType};

use crate::errors::Result;
use crate::params::Fields;
use crate::{suffix, value};

/// A method of decoding; None is the model's own.
pub(crate) fn read(decoding: Option<&Bound<'_, PyAny>>) -> Result<Option<Decoding>> {
    value::given(decoding, |decoding| {
        for (class, read) in &METHODS {
            if class.holds(decoding)? {
                return read(decoding);
            }
        }
        Err(value::refuse("decoding", decoding, "a BlockDiffusion, a Canvas, a Lookahead, a SimSD, an S2D2, a SubBlockDiffusion or None")
            .into())
    })
}

type Read = fn(&Bound<'_, PyAny>) -> Result<Decoding>;

/// The methods of `dlmrs.decoding`.
static METHODS: [(Class, Read); 6] = [
    (Class::new("BlockDiffusion"), editable),
    (Class::new("Canvas"), |object| Ok(Decoding::Canvas(canvas(object)?))),
    (Class::new("Lookahead"), |object| Ok(Decoding::Lookahead(lookahead(object)?))),
    (Class::new("SimSD"), |object| Ok(Decoding::SimSD(simsd(object)?))),
    (Class::new("S2D2"), |object| Ok(Decoding::S2D2(s2d2(object)?))),
    (Class::new("SubBlockDiffusion"), |object| Ok(Decoding::SubBlock(sub_block(object)?))),
];

/// What `Lookahead` takes for bidirectional models.
static CANVAS: Class = Class::new("Canvas");

/// The policies of `S2D2`.
static POLICIES: [Class; 3] = [Class::new("MinSpan"), Class::new("ScoreThreshold"), Class::new("Hysteresis")];

/// A class of `dlmrs.decoding`, looked up once.
struct Class(&'static str, PyOnceLock<Py<PyType>>);

impl Class {
    const fn new(name: &'static str) -> Self {
        Self(name, PyOnceLock::new())
    }

    fn holds(&self, object: &Bound<'_, PyAny>) -> Result<bool> {
        Ok(object.is_instance(self.1.import(object.py(), "dlmrs.decoding", self.0)?)?)
    }
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

/// With an editing threshold it is another method.
fn editable(decoding: &Bound<'_, PyAny>) -> Result<Decoding> {
    let (py, fields) = (decoding.py(), Fields(decoding));
    let block = block_diffusion(decoding)?;
    let max_post_steps = fields.optional(intern!(py, "max_post_steps"), value::count)?;
    match (fields.read(intern!(py, "editing_threshold"), or_off)?, max_post_steps) {
        (None, None) => Ok(Decoding::Block(block)),
        (None, Some(_)) => Err(Error::input("max_post_steps", "has an effect with an editing_threshold only; leave it out").into()),
        (Some(editing_threshold), given) => {
            let max_post_steps = given.unwrap_or(Editing::default().max_post_steps);
            Ok(Decoding::Editing(Editing { block, editing_threshold, max_post_steps }))
        }
    }
}

/// "off" or a number.
fn or_off(name: &str, object: &Bound<'_, PyAny>) -> Result<Option<f32>> {
    match object.extract::<String>() {
        Ok(text) if text == "off" => Ok(None),
        Ok(_) => Err(value::refuse(name, object, "a number or \"off\"").into()),
        Err(_) => value::number(name, object).map(Some),
    }
}

/// The values of a published setting of block diffusion, by its name.
#[pyfunction]
#[pyo3(signature = (name, /))]
pub(crate) fn block_preset<'py>(py: Python<'py>, name: &Bound<'py, PyAny>) -> Result<Bound<'py, PyDict>> {
    let preset = BlockPreset::named(&value::text("preset", name)?)?;
    // As they are written, not as the f64 that lies nearest to the f32.
    let typed = |value: f32| f64::from((value * 100.0).round()) / 100.0;
    let fields = PyDict::new(py);
    fields.set_item("threshold", typed(preset.threshold))?;
    if let Some((threshold, steps)) = preset.editing {
        fields.set_item("editing_threshold", typed(threshold))?;
        fields.set_item("max_post_steps", steps)?;
    }
    Ok(fields)
}

/// The names of the published settings of block diffusion.
#[pyfunction]
pub(crate) fn block_presets() -> Vec<&'static str> {
    BlockPreset::names().to_vec()
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

fn lookahead(decoding: &Bound<'_, PyAny>) -> Result<Lookahead> {
    let (py, fields) = (decoding.py(), Fields(decoding));
    Ok(Lookahead {
        block: block_diffusion(decoding)?,
        canvas: fields.optional(intern!(py, "canvas"), |name, object| match CANVAS.holds(object)? {
            true => canvas(object),
            false => Err(value::refuse(name, object, "a Canvas or None").into()),
        })?,
        blocks: fields.read(intern!(py, "blocks"), value::count)?,
        probes: fields.read(intern!(py, "probes"), value::count)?,
        alternatives: fields.read(intern!(py, "alternatives"), value::flag)?,
        max_rows: fields.optional(intern!(py, "max_rows"), max_rows)?,
    })
}

fn simsd(decoding: &Bound<'_, PyAny>) -> Result<SimSD> {
    let (py, fields) = (decoding.py(), Fields(decoding));
    Ok(SimSD {
        block: block_diffusion(decoding)?,
        gamma: fields
            .optional(intern!(py, "gamma"), |name, value| amount(name, value, "a number of slots, \"auto\" or None"))?
            .unwrap_or_default(),
        blocks: fields.read(intern!(py, "blocks"), value::count)?,
        draft_steps: fields.optional(intern!(py, "draft_steps"), value::count)?,
        own_guesses: fields.read(intern!(py, "own_guesses"), value::flag)?,
        alternatives: fields.read(intern!(py, "alternatives"), value::flag)?,
        max_rows: fields.read(intern!(py, "max_rows"), max_rows)?,
        layout: fields.read(intern!(py, "layout"), value::text)?.parse::<VerifyLayout>()?,
        accept: fields.read(intern!(py, "accept"), value::text)?.parse::<Acceptance>()?,
        align_positions: fields.read(intern!(py, "align_positions"), value::flag)?,
        fallback: fields.read(intern!(py, "fallback"), value::text)?.parse::<Fallback>()?,
        overlap: fields.read(intern!(py, "overlap"), value::flag)?,
    })
}

/// A count, or "auto".
fn amount(name: &str, object: &Bound<'_, PyAny>, wanted: &str) -> Result<Amount> {
    match object.extract::<String>() {
        Ok(text) if text == "auto" => Ok(Amount::Auto),
        Ok(_) => Err(value::refuse(name, object, wanted).into()),
        Err(_) => value::count(name, object).map(Amount::AtMost),
    }
}

/// "off", "auto" or a number of rows.
fn max_rows(name: &str, object: &Bound<'_, PyAny>) -> Result<Amount> {
    match object.extract::<String>() {
        Ok(text) if text == "off" => Ok(Amount::All),
        _ => amount(name, object, "\"off\", \"auto\" or a number of rows"),
    }
}

fn s2d2(decoding: &Bound<'_, PyAny>) -> Result<S2D2> {
    let (py, fields) = (decoding.py(), Fields(decoding));
    Ok(S2D2 {
        block: block_diffusion(decoding)?,
        variant: fields.read(intern!(py, "variant"), value::text)?.parse::<Variant>()?,
        ar_cache: fields.read(intern!(py, "ar_cache"), value::flag)?,
        policy: fields.read(intern!(py, "policy"), policy)?,
    })
}

fn sub_block(decoding: &Bound<'_, PyAny>) -> Result<SubBlockDiffusion> {
    let (py, fields) = (decoding.py(), Fields(decoding));
    Ok(SubBlockDiffusion {
        block_length: fields.optional(intern!(py, "block_length"), value::count)?,
        sub_block: fields.optional(intern!(py, "sub_block"), value::count)?,
        threshold: fields.optional(intern!(py, "threshold"), value::number)?,
        sub_block_cache: fields.read(intern!(py, "sub_block_cache"), value::flag)?,
    })
}

fn policy(name: &str, policy: &Bound<'_, PyAny>) -> Result<Policy> {
    let (py, fields) = (policy.py(), Fields(policy));
    let [min_span, score_threshold, hysteresis] = &POLICIES;
    if min_span.holds(policy)? {
        return Ok(Policy::MinSpan(fields.read(intern!(py, "min_span"), value::count)?));
    }
    if score_threshold.holds(policy)? {
        return Ok(Policy::ScoreThreshold { score: score(&fields, py)?, threshold: fields.read(intern!(py, "threshold"), value::number)? });
    }
    if hysteresis.holds(policy)? {
        let (on, off) = (fields.read(intern!(py, "on"), value::number)?, fields.read(intern!(py, "off"), value::number)?);
        return Ok(Policy::Hysteresis { score: score(&fields, py)?, on, off });
    }
    Err(value::refuse(name, policy, "a MinSpan, a ScoreThreshold or a Hysteresis").into())
}

fn score(fields: &Fields<'_, '_>, py: Python<'_>) -> Result<Score> {
    let estimator_name = fields.read(intern!(py, "estimator"), value::text)?;
    Ok(Score {
        estimator: estimator(&estimator_name, fields.optional(intern!(py, "estimator_value"), value::number)?)?,
        penalty: fields.read(intern!(py, "penalty"), value::number)?,
        dynamic: fields.read(intern!(py, "dynamic"), value::flag)?,
    })
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
