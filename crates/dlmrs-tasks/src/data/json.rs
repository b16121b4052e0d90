//! JSON: an object a line, or one array of objects.

use std::io::{BufRead, Read};

use serde::Deserializer;
use serde::de::{Error as _, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::Records;
use crate::{Error, Record, Result, record};

/// The longest line: far more than any record needs, and little enough to hold.
const LONGEST_LINE: u64 = 64 << 20;

/// The records of a JSON text: an array if it begins with `[`, else an object a line. A byte order mark is skipped.
pub(super) fn records(name: String, mut reader: impl BufRead + 'static) -> Result<Records> {
    let start = reader.fill_buf().map_err(|e| unreadable(&name, &e))?;
    if start.starts_with(b"\xef\xbb\xbf") {
        reader.consume(3);
    }
    let start = reader.fill_buf().map_err(|e| unreadable(&name, &e))?;
    match start.trim_ascii_start().first() {
        Some(b'[') => array(name, reader),
        _ => Ok(Box::new(Lines { name, reader, number: 0, ended: false })),
    }
}

fn unreadable(place: &str, e: &std::io::Error) -> Error {
    Error::at(place, format!("cannot be read: {e}"))
}

/// An object a line; blank lines are skipped.
struct Lines<R> {
    name: String,
    reader: R,
    number: usize,
    ended: bool,
}

impl<R: BufRead> Lines<R> {
    fn record(&mut self) -> Result<Option<Record>> {
        let mut line = Vec::new();
        loop {
            self.number += 1;
            line.clear();
            let place = || format!("line {} of {}", self.number, self.name);
            let length = (&mut self.reader).take(LONGEST_LINE + 1).read_until(b'\n', &mut line).map_err(|e| unreadable(&place(), &e))?;
            if length == 0 {
                return Ok(None);
            }
            if length as u64 > LONGEST_LINE {
                return Err(Error::at(place(), format!("the line is longer than {} MiB; a record should be one line", LONGEST_LINE >> 20)));
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            let value = serde_json::from_slice(&line).map_err(|e| Error::at(place(), not_json(&e, e.column())))?;
            return object(value, place()).map(Some);
        }
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = Result<Record>;

    /// Nothing follows an error: what comes after a broken line is not to be trusted.
    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let record = self.record();
        self.ended = !matches!(record, Ok(Some(_)));
        record.transpose()
    }
}

fn not_json(e: &serde_json::Error, column: usize) -> String {
    let message = e.to_string();
    let reason = message.rsplit_once(" at line ").map_or(message.as_str(), |(reason, _)| reason);
    format!("column {column}{} {reason}", if e.is_data() { ":" } else { " is not JSON:" })
}

fn object(value: Value, place: String) -> Result<Record> {
    match value {
        Value::Object(fields) => Ok(Record { place, fields }),
        other => Err(Error::at(place, not_a_record(&other))),
    }
}

fn not_a_record(found: &Value) -> String {
    format!("{} was found where a record should be, an object in braces", record::kind(found))
}

/// An array of objects. The text is never in memory as a whole, the records are.
fn array(name: String, reader: impl BufRead) -> Result<Records> {
    let mut deserializer = serde_json::Deserializer::from_reader(reader);
    let found = deserializer.deserialize_seq(Items).and_then(|items| deserializer.end().map(|()| items));
    let items = found.map_err(|e| match e.io_error_kind() {
        Some(_) => Error::at(&name, format!("cannot be read: {e}")),
        None => Error::at(format!("line {} of {name}", e.line()), not_json(&e, e.column())),
    })?;
    let place = move |index: usize| format!("record {} of {name}", index + 1);
    Ok(Box::new(items.into_iter().enumerate().map(move |(index, fields)| Ok(Record { place: place(index), fields }))))
}

struct Items;

impl<'de> Visitor<'de> for Items {
    type Value = Vec<Map<String, Value>>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an array of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            match item {
                Value::Object(fields) => items.push(fields),
                other => return Err(A::Error::custom(not_a_record(&other))),
            }
        }
        Ok(items)
    }
}
