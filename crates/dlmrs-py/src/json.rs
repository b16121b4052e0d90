//! Python objects as JSON values and back: messages, tools and template variables in, reports out.

use dlmrs::Error;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple};
use serde_json::{Map, Number, Value};

use crate::errors::Result;
use crate::value::refuse;

/// Nesting beyond this is a loop or a mistake.
const DEEPEST: usize = 64;

/// None, bools, numbers, strings, lists, tuples and mappings with string keys.
pub(crate) fn from_python(name: &str, object: &Bound<'_, PyAny>) -> Result<Value> {
    convert(name, object, 0)
}

/// As [`from_python`], for a mapping.
pub(crate) fn map(name: &str, object: &Bound<'_, PyMapping>) -> Result<Map<String, Value>> {
    entries(name, object, 0)
}

fn convert(name: &str, object: &Bound<'_, PyAny>, depth: usize) -> Result<Value> {
    if depth > DEEPEST {
        return Err(Error::input(name, format!("is nested more than {DEEPEST} deep; plain data is needed")).into());
    }
    if object.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(flag) = object.cast::<PyBool>() {
        return Ok(Value::Bool(flag.is_true()));
    }
    if object.is_instance_of::<PyString>() {
        return Ok(Value::String(crate::value::text(name, object)?));
    }
    if object.is_instance_of::<PyInt>() {
        let number = object.extract::<i64>().map(Number::from).or_else(|_| object.extract::<u64>().map(Number::from));
        return number.map(Value::Number).map_err(|_| refuse(name, object, "a whole number of 64 bits").into());
    }
    if object.is_instance_of::<PyFloat>() {
        let number = Number::from_f64(object.extract()?);
        return number.map(Value::Number).ok_or_else(|| refuse(name, object, "a finite number").into());
    }
    if let Ok(mapping) = object.cast::<PyMapping>() {
        return Ok(Value::Object(entries(name, mapping, depth)?));
    }
    if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
        let item = |item: PyResult<Bound<'_, PyAny>>| convert(name, &item?, depth + 1);
        return Ok(Value::Array(object.try_iter()?.map(item).collect::<Result<_>>()?));
    }
    Err(refuse(name, object, "plain data (None, bool, int, float, str, list or dict)").into())
}

fn entries(name: &str, object: &Bound<'_, PyMapping>, depth: usize) -> Result<Map<String, Value>> {
    let entry = |item: Bound<'_, PyAny>| {
        let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
        let key: String = key.extract().map_err(|_| refuse(&format!("a key of {name}"), &key, "a string"))?;
        let value = convert(&format!("{name}[{key:?}]"), &value, depth + 1)?;
        Ok((key, value))
    };
    object.items()?.iter().map(entry).collect()
}

/// The Python object for a value.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(flag) => PyBool::new(py, *flag).to_owned().into_any(),
        Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
            (Some(number), _, _) => number.into_pyobject(py)?.into_any(),
            (_, Some(number), _) => number.into_pyobject(py)?.into_any(),
            (_, _, number) => PyFloat::new(py, number.unwrap_or(f64::NAN)).into_any(),
        },
        Value::String(text) => PyString::new(py, text).into_any(),
        Value::Array(items) => {
            let items = items.iter().map(|item| to_python(py, item)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, items)?.into_any()
        }
        Value::Object(map) => {
            let dict = PyDict::new(py);
            for (key, value) in map {
                dict.set_item(key, to_python(py, value)?)?;
            }
            dict.into_any()
        }
    })
}
