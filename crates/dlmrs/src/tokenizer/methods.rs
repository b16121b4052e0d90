//! Python's methods of strings, lists and dictionaries, paid for before they work.

use minijinja::value::Value;
use minijinja::{Error, ErrorKind, State};
use minijinja_contrib::pycompat::unknown_method_callback;

use super::limits::{charge_bytes, weigh};

/// Calls a method. The library's charge for their results only, or not at all.
pub(super) fn call(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    args.iter().try_for_each(|argument| weigh(state, argument))?;
    let first = args.first().and_then(Value::as_str);
    let Some(text) = value.as_str() else {
        if name == "count" {
            weigh(state, value)?;
        }
        return unknown_method_callback(state, value, name, args);
    };
    match (name, first) {
        ("removeprefix", Some(prefix)) => return Ok(text.strip_prefix(prefix).unwrap_or(text).into()),
        ("removesuffix", Some(suffix)) => return Ok(text.strip_suffix(suffix).unwrap_or(text).into()),
        // Each character is looked for among those to strip.
        ("strip" | "lstrip" | "rstrip", Some(set)) => charge_bytes(state, text.len().saturating_mul(set.len()))?,
        // A piece is a value of its own, however short.
        ("split", Some(separator)) if !separator.is_empty() => charge_pieces(state, text.matches(separator).count())?,
        ("split", _) => charge_pieces(state, text.split_whitespace().count())?,
        ("splitlines", _) => charge_pieces(state, text.lines().count())?,
        ("format", _) => check_widths(text, args)?,
        _ => (),
    }
    unknown_method_callback(state, value, name, args)
}

fn charge_pieces(state: &State, pieces: usize) -> Result<(), Error> {
    state.consume_fuel(pieces as u64)
}

/// The widest field of `str.format`, and the most digits behind the point.
const MAX_WIDTH: u64 = 10_000;

/// `"{:>999999999}"` asks for a gigabyte of spaces. A width can be a number in the format or an argument.
fn check_widths(format: &str, args: &[Value]) -> Result<(), Error> {
    let written = format.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let wide = written.map(|digits| digits.parse().unwrap_or(u64::MAX)).any(|width| width > MAX_WIDTH);
    let nested = format.split('{').skip(1).any(|field| !field.contains('}'));
    let given = nested && args.iter().any(|value| value.as_i64().is_some_and(|width| width.unsigned_abs() > MAX_WIDTH));
    if wide || given {
        let message = format!("a field of format() is wider than {MAX_WIDTH} characters");
        return Err(Error::new(ErrorKind::InvalidOperation, message));
    }
    Ok(())
}
