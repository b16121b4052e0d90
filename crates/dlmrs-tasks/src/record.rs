//! A record and its fields.

use serde_json::{Map, Value};

use crate::{Error, Result};

/// A record of a data set, as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Where it stands, for messages: "line 3 of test.jsonl", "row 7 of test.parquet".
    pub place: String,
    /// Its fields.
    pub fields: Map<String, Value>,
}

impl Record {
    /// An error about this record.
    pub fn error(&self, message: impl Into<String>) -> Error {
        Error::at(&self.place, message)
    }

    /// A field that must be there; `wanted` says what it should hold, e.g. "the question, a string".
    pub fn field(&self, name: &str, wanted: &str) -> Result<&Value> {
        let found = self.fields.get(name).filter(|value| !value.is_null());
        found.ok_or_else(|| {
            let names: Vec<_> = self.fields.keys().map(String::as_str).collect();
            let names = if names.is_empty() { "none".into() } else { names.join(", ") };
            self.error(format!("the field {name:?} is missing ({wanted}); the fields here are: {names}"))
        })
    }

    /// A field that holds text other than white space.
    pub fn text(&self, name: &str) -> Result<&str> {
        match self.field(name, "a string")? {
            Value::String(text) if text.trim().is_empty() => Err(self.error(format!("the field {name:?} is empty"))),
            Value::String(text) => Ok(text),
            other => Err(self.error(format!("the field {name:?} is {}, it should be a string", kind(other)))),
        }
    }

    /// A field that holds a list of strings, which may be empty.
    pub fn texts(&self, name: &str) -> Result<Vec<&str>> {
        let list = self.field(name, "a list of strings")?;
        let wrong = |found: &Value| self.error(format!("the field {name:?} holds {}, it should be a list of strings", kind(found)));
        let list = list.as_array().ok_or_else(|| wrong(list))?;
        list.iter().map(|item| item.as_str().ok_or_else(|| wrong(item))).collect()
    }
}

/// What a value is, for messages.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
