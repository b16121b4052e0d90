//! Checks of single values, whatever the model.

use crate::error::{Error, Result};

/// Far more than there are positions; it bounds the tables of a schedule.
const MOST_STEPS: usize = 1 << 16;

/// Refuses 0, and what would take long to lay out.
pub(super) fn steps(value: Option<usize>) -> Result<()> {
    value.map_or(Ok(()), |value| at_most_steps("steps", value))?;
    positive("steps", value)
}

/// Refuses more steps than anybody waits for.
pub(super) fn at_most_steps(name: &str, value: usize) -> Result<()> {
    match value > MOST_STEPS {
        true => Err(Error::input(name, format!("is {value}; at most {MOST_STEPS} are possible"))),
        false => Ok(()),
    }
}

/// Refuses what is not a temperature: below a millionth the division by it leaves the range of f32.
pub(crate) fn temperature(name: &str, value: f32, zero: &str) -> Result<()> {
    if value == 0.0 || value >= 1e-6 && value.is_finite() {
        return Ok(());
    }
    Err(Error::input(name, format!("is {value}; 0 ({zero}) or a number of at least 0.000001 is needed")))
}

/// Refuses 0.
pub(super) fn positive(name: &str, value: Option<usize>) -> Result<()> {
    match value {
        Some(0) => Err(Error::input(name, "is 0; at least 1 is needed")),
        _ => Ok(()),
    }
}

/// Refuses NaN.
pub(super) fn number(name: &str, value: Option<f32>) -> Result<()> {
    match value {
        Some(value) if value.is_nan() => Err(Error::input(name, "is NaN; a number is needed")),
        _ => Ok(()),
    }
}
