//! Rotary positions: what the config says of them, and the inverse frequencies that follow.

use serde_json::Value;

use super::json::{Object, shown};
use crate::Result;

/// How positions turn queries and keys. Dimension d is paired with d + rotary_dim / 2 in every family (half-rotate, as GPT-NeoX does it).
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// The base of the frequencies.
    pub theta: f64,
    /// How many leading dimensions of a head are turned; even, at most the head size.
    pub rotary_dim: usize,
    /// LLaDA: rotate in f32 whatever the activations are. Elsewhere the rotation is done in the type of the activations.
    pub full_precision: bool,
    /// How the frequencies are stretched for contexts longer than the training's.
    pub scaling: RopeScaling,
}

/// A stretching of the rotary frequencies. Other kinds are refused when the config is read, never ignored.
#[derive(Clone, Debug, PartialEq)]
pub enum RopeScaling {
    /// None: `rope_scaling` is absent, null or of type "default".
    None,
    /// Every frequency divided by `factor`.
    Linear {
        /// How much longer the context becomes.
        factor: f64,
    },
    /// Llama 3: long waves divided by `factor`, short ones kept, a ramp between.
    Llama3 {
        /// How much longer the context becomes.
        factor: f64,
        /// Waves longer than `original_max_positions / low_freq_factor` are stretched fully.
        low_freq_factor: f64,
        /// Waves shorter than `original_max_positions / high_freq_factor` are kept.
        high_freq_factor: f64,
        /// The context of the original training.
        original_max_positions: usize,
    },
}

const SUPPORTED: &str = "default, linear and llama3";

impl Rope {
    /// `[rotary_dim / 2]` inverse frequencies in f32, `1 / theta^(2i / rotary_dim)`, then scaled.
    ///
    /// The exponent, the power and the quotient are each rounded to f32, as the references do; the power itself is taken in f64, so
    /// that it is rounded correctly and the same on every platform.
    pub fn inverse_frequencies(&self) -> Vec<f32> {
        let theta = f64::from(self.theta as f32);
        (0..self.rotary_dim / 2)
            .map(|i| {
                let exponent = (2 * i) as f32 / self.rotary_dim as f32;
                self.scaling.apply(1.0 / theta.powf(f64::from(exponent)) as f32)
            })
            .collect()
    }

    /// Reads `rope_theta`, `partial_rotary_factor` and `rope_scaling`, or transformers 5's `rope_parameters` that holds all three.
    pub(super) fn read(config: &Object, head_dim: usize) -> Result<Self> {
        let parameters = config.inner("rope_parameters")?;
        let old = config.inner("rope_scaling")?;
        if parameters.is_some() && old.is_some() && config.get("rope_parameters") != config.get("rope_scaling") {
            return Err(config.error("rope_scaling and rope_parameters are both given and differ; keep one of them"));
        }
        let inner = parameters.or(old);
        let theta = match shared(config, inner.as_ref(), "rope_theta", 1.0, 1e12)? {
            Some(theta) => theta,
            // Absent everywhere: let the error name the key.
            None => config.number("rope_theta", 1.0, 1e12)?,
        };
        let partial = shared(config, inner.as_ref(), "partial_rotary_factor", 1e-3, 1.0)?.unwrap_or(1.0);
        let rotary = head_dim as f64 * partial;
        let rotary_dim = rotary as usize;
        if rotary_dim as f64 != rotary || rotary_dim == 0 || !rotary_dim.is_multiple_of(2) {
            return Err(config.error(format!(
                "partial_rotary_factor is {partial}, which turns {rotary} of the head's {head_dim} dimensions; it must be an even number of them"
            )));
        }
        let scaling = inner.as_ref().map_or(Ok(RopeScaling::None), RopeScaling::read)?;
        Ok(Self { theta, rotary_dim, full_precision: false, scaling })
    }
}

/// A number that may stand in the config itself or in its rope object; in both only if they agree.
fn shared(config: &Object, inner: Option<&Object>, key: &str, low: f64, high: f64) -> Result<Option<f64>> {
    let outside = config.optional_number(key, low, high)?;
    let inside = inner.map(|inner| inner.optional_number(key, low, high)).transpose()?.flatten();
    match (outside, inside) {
        (Some(a), Some(b)) if a != b => Err(config.error(format!("{key} is {a}, but {b} in the rope parameters; they must agree"))),
        _ => Ok(inside.or(outside)),
    }
}

impl RopeScaling {
    fn read(object: &Object) -> Result<Self> {
        let kind = match (object.text("rope_type")?, object.text("type")?) {
            (Some(a), Some(b)) if a != b => {
                return Err(object.error(format!("rope_type is {a:?}, but type is {b:?}; they must agree")));
            }
            (a, b) => a.or(b),
        };
        let (scaling, known): (Self, &[&str]) = match kind {
            Some("default") => (Self::None, &[]),
            Some("linear") => (Self::Linear { factor: factor(object)? }, &["factor"]),
            Some("llama3") => {
                (Self::llama3(object)?, &["factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"])
            }
            // `rope_parameters` with nothing but a theta, and an empty object.
            None if object.keys().all(|key| SHARED_KEYS.contains(&key)) => (Self::None, &[]),
            None => return Err(object.error(format!("rope_type is missing; supported are {SUPPORTED}"))),
            Some(other) => {
                let kind = shown(&Value::from(other));
                return Err(object.error(format!("rope_type {kind} is not supported; supported are {SUPPORTED}")));
            }
        };
        match object.keys().find(|key| !known.contains(key) && !SHARED_KEYS.contains(key)) {
            Some(key) => Err(object.error(format!(
                "{} has no meaning for rope_type {:?} here, and nothing that may change the positions is ignored",
                shown(&Value::from(key)),
                kind.unwrap_or("default")
            ))),
            None => Ok(scaling),
        }
    }

    fn llama3(object: &Object) -> Result<Self> {
        let low_freq_factor = object.number("low_freq_factor", 1e-6, 1e6)?;
        let high_freq_factor = object.number("high_freq_factor", 1e-6, 1e6)?;
        if high_freq_factor <= low_freq_factor {
            return Err(
                object.error(format!("high_freq_factor is {high_freq_factor}, but must be above low_freq_factor, {low_freq_factor}"))
            );
        }
        let original_max_positions = object.size("original_max_position_embeddings", super::config::MAX_POSITIONS)?;
        Ok(Self::Llama3 { factor: factor(object)?, low_freq_factor, high_freq_factor, original_max_positions })
    }

    /// One inverse frequency, stretched; in f32 throughout, as the reference does.
    fn apply(&self, frequency: f32) -> f32 {
        match *self {
            Self::None => frequency,
            Self::Linear { factor } => frequency / factor as f32,
            Self::Llama3 { factor, low_freq_factor, high_freq_factor, original_max_positions } => {
                let (factor, low, high) = (factor as f32, low_freq_factor as f32, high_freq_factor as f32);
                let original = original_max_positions as f32;
                let wave = std::f32::consts::TAU / frequency;
                if wave > original / low {
                    frequency / factor
                } else if wave < original / high {
                    frequency
                } else {
                    let smooth = (original / wave - low) / (high - low);
                    (1.0 - smooth) * frequency / factor + smooth * frequency
                }
            }
        }
    }
}

/// Keys of a rope object that say something other than how to scale, and which [`Rope::read`] has taken.
const SHARED_KEYS: [&str; 4] = ["rope_type", "type", "rope_theta", "partial_rotary_factor"];

fn factor(object: &Object) -> Result<f64> {
    object.number("factor", 1.0, 1e6)
}
