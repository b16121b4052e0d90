//! A JSON file of a checkpoint, read key by key: every wrong value is an error that names the file, the key, what was found and what
//! would be right.

use serde_json::{Map, Value};

use super::Folder;
use crate::{Error, Result};

/// One JSON object and the name of its file.
pub(super) struct Object {
    pub(super) file: String,
    map: Map<String, Value>,
}

impl Object {
    /// Reads a file of the folder; None if there is none.
    pub(super) fn read(folder: &Folder, name: &str) -> Result<Option<Self>> {
        folder.read(name)?.map(|bytes| Self::parse(folder.describe(name), &bytes)).transpose()
    }

    /// An object that was not read from JSON.
    pub(super) fn new(file: String, map: Map<String, Value>) -> Self {
        Self { file, map }
    }

    pub(super) fn parse(file: String, bytes: &[u8]) -> Result<Self> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            Error::checkpoint(&file, format!("is not UTF-8 text: the byte at offset {} begins no character", error.valid_up_to()))
        })?;
        match serde_json::from_str(text) {
            Ok(Value::Object(map)) => Ok(Self { file, map }),
            Ok(other) => Err(Error::checkpoint(file, format!("must hold a JSON object, but holds {}", shown(&other)))),
            Err(error) => Err(Error::checkpoint(file, format!("is not valid JSON: {error}"))),
        }
    }

    /// An object inside this one, e.g. `rope_scaling`; errors then name `key.inner`.
    pub(super) fn error(&self, message: impl Into<String>) -> Error {
        Error::checkpoint(&self.file, message)
    }

    /// The value of a key; null counts as absent, as in the reference configurations.
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    fn wrong(&self, key: &str, value: &Value, right: &str) -> Error {
        self.error(format!("{key} is {}, but must be {right}", shown(value)))
    }

    fn missing(&self, key: &str, right: &str) -> Error {
        self.error(format!("{key} is missing; it must be {right}"))
    }

    /// A size from 1 to `max`.
    pub(super) fn size(&self, key: &str, max: usize) -> Result<usize> {
        self.optional_size(key, max)?.ok_or_else(|| self.missing(key, &format!("a whole number from 1 to {max}")))
    }

    pub(super) fn optional_size(&self, key: &str, max: usize) -> Result<Option<usize>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let size = value.as_u64().and_then(|n| usize::try_from(n).ok()).filter(|n| (1..=max).contains(n));
        size.map(Some).ok_or_else(|| self.wrong(key, value, &format!("a whole number from 1 to {max}")))
    }

    /// A whole number from 0 to `max`.
    pub(super) fn optional_count(&self, key: &str, max: usize) -> Result<Option<usize>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let count = value.as_u64().and_then(|n| usize::try_from(n).ok()).filter(|n| *n <= max);
        count.map(Some).ok_or_else(|| self.wrong(key, value, &format!("a whole number from 0 to {max}")))
    }

    /// A number within bounds, both included.
    pub(super) fn number(&self, key: &str, low: f64, high: f64) -> Result<f64> {
        self.optional_number(key, low, high)?.ok_or_else(|| self.missing(key, &format!("a number from {low} to {high}")))
    }

    pub(super) fn optional_number(&self, key: &str, low: f64, high: f64) -> Result<Option<f64>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = value.as_f64().filter(|n| (low..=high).contains(n));
        number.map(Some).ok_or_else(|| self.wrong(key, value, &format!("a number from {low} to {high}")))
    }

    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.wrong(key, value, "true or false"))
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<&str>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| self.wrong(key, value, "a string"))
    }

    /// One token id.
    pub(super) fn id(&self, key: &str) -> Result<Option<u32>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        self.as_id(key, value).map(Some)
    }

    /// One token id or a list of them; absent is an empty list.
    pub(super) fn ids(&self, key: &str) -> Result<Vec<u32>> {
        match self.get(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(ids)) => ids.iter().map(|id| self.as_id(key, id)).collect(),
            Some(id) => Ok(vec![self.as_id(key, id)?]),
        }
    }

    fn as_id(&self, key: &str, value: &Value) -> Result<u32> {
        let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
        id.ok_or_else(|| self.wrong(key, value, "a token id, a whole number from 0 on"))
    }

    /// Refuses a key unless it is absent or has the one value that is implemented.
    pub(super) fn only(&self, key: &str, supported: &Value) -> Result<()> {
        match self.get(key) {
            Some(value) if value != supported => {
                Err(self.error(format!("{key} is {}, but only {} is supported", shown(value), shown(supported))))
            }
            _ => Ok(()),
        }
    }

    /// Like [`Object::only`], and the key must be there, because the family's own default is another value.
    pub(super) fn exactly(&self, key: &str, supported: &Value) -> Result<()> {
        if self.get(key).is_none() {
            return Err(self.missing(key, &shown(supported)));
        }
        self.only(key, supported)
    }

    /// The object at a key, whose own keys are then named `key.inner`.
    pub(super) fn inner(&self, key: &str) -> Result<Option<Self>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(Self { file: format!("{}: {key}", self.file), map: map.clone() })),
            Some(value) => Err(self.wrong(key, value, "an object")),
        }
    }

    /// Keys that have a value.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.map.iter().filter(|(_, value)| !value.is_null()).map(|(key, _)| key.as_str())
    }
}

/// A value as it stands in the file, cut short: a message must stay readable whatever the file holds.
pub(crate) fn shown(value: &Value) -> String {
    const MOST: usize = 60;
    let text = value.to_string();
    if text.chars().count() <= MOST { text } else { text.chars().take(MOST).chain("...".chars()).collect() }
}
