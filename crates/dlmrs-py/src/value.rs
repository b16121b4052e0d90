//! Python values as Rust values. What does not fit is refused with the name of its field, what was found and what would be right.

use dlmrs::Error;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyList, PyMapping, PyString, PyTuple};

use crate::errors::Result;

/// Values in messages are cut to so many characters.
const SHOWN: usize = 60;

/// An [`Error::Input`] that says what was found.
pub(crate) fn refuse(name: &str, value: &Bound<'_, PyAny>, wanted: &str) -> Error {
    Error::input(name, format!("is {}; {wanted} is needed", shown(value)))
}

/// A value for a message: short, and with its type where the value alone would not tell.
fn shown(value: &Bound<'_, PyAny>) -> String {
    let kind = value.get_type().name().map_or_else(|_| "an object".into(), |name| name.to_string());
    match value.repr() {
        Ok(text) if text.to_string_lossy().chars().count() <= SHOWN => format!("{} ({kind})", text.to_string_lossy()),
        _ => format!("of type {kind}"),
    }
}

/// None stays None.
pub(crate) fn optional<'py, T>(value: &Bound<'py, PyAny>, read: impl FnOnce(&Bound<'py, PyAny>) -> Result<T>) -> Result<Option<T>> {
    if value.is_none() { Ok(None) } else { read(value).map(Some) }
}

/// As [`optional`], for an argument that may be left out.
pub(crate) fn given<'py, T>(value: Option<&Bound<'py, PyAny>>, read: impl FnOnce(&Bound<'py, PyAny>) -> Result<T>) -> Result<Option<T>> {
    value.map_or(Ok(None), |value| optional(value, read))
}

/// A whole number up to `most`; anything that Python takes as an index will do, but no bool.
fn whole(name: &str, value: &Bound<'_, PyAny>, most: u64) -> Result<u64> {
    let number = if value.is_instance_of::<PyBool>() { None } else { value.extract::<u64>().ok() };
    number.filter(|&n| n <= most).ok_or_else(|| refuse(name, value, &format!("a whole number from 0 to {most}")).into())
}

/// A number of things.
pub(crate) fn count(name: &str, value: &Bound<'_, PyAny>) -> Result<usize> {
    // As many as Python's own containers may hold.
    Ok(whole(name, value, isize::MAX as u64)? as usize)
}

/// A seed.
pub(crate) fn seed(name: &str, value: &Bound<'_, PyAny>) -> Result<u64> {
    whole(name, value, u64::MAX)
}

/// A token id, a position or the number of a row.
pub(crate) fn id(name: &str, value: &Bound<'_, PyAny>) -> Result<u32> {
    Ok(whole(name, value, u64::from(u32::MAX))? as u32)
}

/// A number; whether it is in range, finite or NaN is for the library to say.
pub(crate) fn number(name: &str, value: &Bound<'_, PyAny>) -> Result<f32> {
    let number = if value.is_instance_of::<PyBool>() { None } else { value.extract::<f64>().ok() };
    number.map(|n| n as f32).ok_or_else(|| refuse(name, value, "a number").into())
}

/// True or False.
pub(crate) fn flag(name: &str, value: &Bound<'_, PyAny>) -> Result<bool> {
    value.extract().map_err(|_| refuse(name, value, "True or False").into())
}

/// A string. Python's may hold lone surrogates, which no encoding has.
pub(crate) fn text(name: &str, value: &Bound<'_, PyAny>) -> Result<String> {
    let wanted = if value.is_instance_of::<PyString>() { "a string without lone surrogates" } else { "a string" };
    value.extract().map_err(|_| refuse(name, value, wanted).into())
}

/// Whether a value is a string or bytes: sequences, but never lists of things.
pub(crate) fn is_text(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>() || value.is_instance_of::<PyByteArray>()
}

/// The items of a list, tuple, range, set or array; None for anything else. An array gives plain Python numbers or lists.
pub(crate) fn items<'py>(value: &Bound<'py, PyAny>) -> Result<Option<Vec<Bound<'py, PyAny>>>> {
    // Asking what else it could be takes longer than reading it.
    if let Ok(list) = value.cast_exact::<PyList>() {
        return Ok(Some(list.iter().collect()));
    }
    if let Ok(tuple) = value.cast_exact::<PyTuple>() {
        return Ok(Some(tuple.iter().collect()));
    }
    if is_text(value) || value.cast::<PyMapping>().is_ok() {
        return Ok(None);
    }
    if let Some(to_list) = value.getattr_opt("tolist")? {
        return match to_list.call0()?.extract() {
            Ok(items) => Ok(Some(items)),
            Err(_) => Ok(None), // an array of no dimension is a number
        };
    }
    match value.try_iter() {
        Ok(items) => Ok(Some(items.collect::<PyResult<_>>()?)),
        Err(_) => Ok(None),
    }
}

/// A list of things.
pub(crate) fn list<'py, T>(
    name: &str,
    value: &Bound<'py, PyAny>,
    wanted: &str,
    read: impl Fn(&str, &Bound<'py, PyAny>) -> Result<T>,
) -> Result<Vec<T>> {
    let Some(items) = items(value)? else {
        return Err(refuse(name, value, wanted).into());
    };
    items.iter().enumerate().map(|(index, item)| named(name, index, item, &read)).collect()
}

/// Reads an item; its name in a message is `name[index]`, made only if there is one.
fn named<'py, T>(name: &str, index: usize, item: &Bound<'py, PyAny>, read: impl Fn(&str, &Bound<'py, PyAny>) -> Result<T>) -> Result<T> {
    read(name, item).or_else(|_| read(&format!("{name}[{index}]"), item))
}

/// A list of ids, positions or rows.
pub(crate) fn ids(name: &str, value: &Bound<'_, PyAny>) -> Result<Vec<u32>> {
    list(name, value, "a list of whole numbers", id)
}

/// One string, or a list of them.
pub(crate) fn texts(name: &str, value: &Bound<'_, PyAny>) -> Result<Vec<String>> {
    if value.is_instance_of::<PyString>() { Ok(vec![text(name, value)?]) } else { list(name, value, "a string or a list of strings", text) }
}
