//! What a chat template may cost. It comes with the checkpoint, so it is a program that a stranger wrote: it must end, and it must not
//! fill the memory.
//!
//! The engine's fuel pays for instructions and for most data that they touch. What it does not pay for is charged here: values that
//! hold other values are weighed before an operator or a filter works through them (see [`super::metered`]), and methods are charged
//! before they work (see [`super::methods`]).

use std::io::{self, Write};

use minijinja::value::{StringInput, Value, ValueKind};
use minijinja::{Error, ErrorKind, State, filters};

/// Bytes of a template; the longest published ones have some 20,000.
pub(super) const MAX_SOURCE: usize = 256 << 10;
/// Templates of one checkpoint; published ones have up to three.
pub(super) const MAX_NAMED: usize = 32;
/// One unit pays for an instruction or for 64 bytes. A conversation of 1,000 messages of
/// 2,000 bytes takes 350,000 with SDAR's template.
pub(super) const FUEL: u64 = 4_000_000;
/// Bytes of the rendered prompt, beyond the longest context of any model.
pub(super) const MAX_OUTPUT: usize = 64 << 20;
/// How many operators and the like may follow one another in one expression: compiling takes the square of it.
pub(super) const MAX_OPERATORS: usize = 1000;
/// How deep lists and maps may be nested where something walks through them.
pub(super) const MAX_NESTING: usize = 64;
/// Dropping a value takes some stack for each level of lists in lists, which only fuel bounds, and so does parsing for each
/// operator. What is not touched is never used.
pub(super) const STACK: usize = 512 << 20;

/// What a template's own limits are called in messages.
#[derive(Debug, thiserror::Error)]
pub(super) enum Exceeded {
    #[error("the prompt becomes longer than {MAX_OUTPUT} bytes")]
    Output,
    #[error("a list or a map is nested deeper than {MAX_NESTING} levels")]
    Nesting,
    #[error("an expression has more than {MAX_OPERATORS} operators in a row")]
    Operators,
}

impl From<Exceeded> for Error {
    fn from(limit: Exceeded) -> Self {
        Error::new(ErrorKind::InvalidOperation, limit.to_string()).with_source(limit)
    }
}

/// Charges for data: one unit of fuel for each 64 bytes.
pub(super) fn charge_bytes(state: &State, bytes: usize) -> Result<(), Error> {
    state.consume_fuel(bytes as u64 / 64)
}

/// Charges for everything inside a value, each occurrence anew: what it would cost to print it or to compare it.
pub(super) fn weigh(state: &State, value: &Value) -> Result<(), Error> {
    weigh_at(state, value, 0)
}

fn weigh_at(state: &State, value: &Value, depth: usize) -> Result<(), Error> {
    if let Some(text) = value.as_str() {
        return charge_bytes(state, text.len());
    }
    let is_map = match value.kind() {
        ValueKind::Map => true,
        ValueKind::Seq | ValueKind::Iterable => false,
        _ => return Ok(()),
    };
    if depth == MAX_NESTING {
        return Err(Exceeded::Nesting.into());
    }
    for item in value.try_iter()?.checked() {
        let item = item?;
        state.consume_fuel(1)?;
        weigh_at(state, &item, depth + 1)?;
        if is_map {
            weigh_at(state, &value.get_item(&item)?, depth + 1)?;
        }
    }
    Ok(())
}

/// Charges for the items of a list that is about to be joined to another or repeated.
pub(super) fn count(state: &State, value: Value) -> Result<Value, Error> {
    if matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
        state.consume_fuel(value.len().unwrap_or_default() as u64 / 8)?;
    }
    Ok(value)
}

/// A list in place of something that would become one when it is asked for: such a promise can be made of another one, and so on.
pub(super) fn keep(state: &State, value: Value) -> Result<Value, Error> {
    if value.kind() != ValueKind::Iterable {
        return Ok(value);
    }
    let mut items = Vec::new();
    for item in value.try_iter()?.checked() {
        if items.len() % 8 == 0 {
            state.consume_fuel(1)?;
        }
        items.push(item?);
    }
    Ok(items.into())
}

/// As the engine's own filter, which looks for each character among those to trim.
pub(super) fn trim(state: &mut State, value: &Value, characters: Option<String>) -> Result<Value, Error> {
    let text = StringInput::new(state, value)?;
    if let Some(characters) = &characters {
        charge_bytes(state, text.as_str().len().saturating_mul(characters.len()))?;
    }
    Ok(filters::trim(text, characters.map(Into::into)))
}

/// Bytes up to [`MAX_OUTPUT`].
#[derive(Default)]
pub(super) struct Bounded(pub(super) Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_OUTPUT {
            return Err(io::Error::other(Exceeded::Output));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
