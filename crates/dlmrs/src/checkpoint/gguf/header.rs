//! The header of a GGUF file: metadata, and which tensors stand where.
//!
//! Lengths and counts come from the file, so each is compared with what is left of it before anything is done with it; a list is walked
//! through and not kept. What is allocated is bounded by the bytes of the header.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde_json::{Map, Number, Value};

use super::MAGIC;
use crate::checkpoint::StoredType;
use crate::checkpoint::shard::Stored;

/// Nothing in them differs that is read here.
const VERSIONS: [u32; 2] = [2, 3];
/// The largest vocabularies take some 10 MB.
const MAX_HEADER: usize = 256 << 20;
const MAX_KEYS: u64 = 1 << 16;
const MAX_TENSORS: u64 = 1 << 20;
const MAX_DIMENSIONS: u32 = 4;
const MAX_ALIGNMENT: u64 = 1 << 20;

/// A number's, a text's or a list's type in the metadata.
const STRING: u32 = 8;
const LIST: u32 = 9;

/// What the header says.
#[derive(Debug)]
pub(super) struct Header {
    /// The metadata. In place of a list stands an object with the number of its elements.
    pub(super) scalars: Map<String, Value>,
    pub(super) lists: BTreeMap<String, List>,
    /// By name.
    pub(super) tensors: Vec<(String, Stored)>,
}

/// A list of the metadata, whose elements have been found to lie within the file.
#[derive(Clone, Debug)]
pub(super) struct List {
    kind: u32,
    pub(super) count: usize,
    range: Range<usize>,
}

impl List {
    /// Its texts, None if it is of something else. `bytes` are the file's.
    pub(super) fn texts<'a>(&self, bytes: &'a [u8]) -> Option<Result<Vec<&'a str>, String>> {
        (self.kind == STRING).then(|| {
            let mut cursor = Cursor { bytes, at: self.range.start };
            (0..self.count).map(|_| cursor.text()).collect()
        })
    }

    /// Its whole numbers, None if it is of something else.
    pub(super) fn numbers(&self, bytes: &[u8]) -> Option<Result<Vec<i64>, String>> {
        let mut cursor = Cursor { bytes, at: self.range.start };
        let number = |value: Value| value.as_i64().ok_or_else(|| "holds a number that is not whole".to_string());
        (size(self.kind).is_some() && self.kind != 6 && self.kind != 12)
            .then(|| (0..self.count).map(|_| cursor.scalar(self.kind).and_then(number)).collect())
    }
}

/// Bytes of a number's type; None for texts, lists and unknown types.
fn size(kind: u32) -> Option<u64> {
    match kind {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}

/// Reads the header of a file. An error is the end of a sentence that begins with the file's name.
pub(super) fn read(bytes: &[u8]) -> Result<Header, String> {
    if !bytes.starts_with(MAGIC) {
        return Err(format!("is not a GGUF file: it does not begin with {:?}", String::from_utf8_lossy(MAGIC)));
    }
    let mut cursor = Cursor { bytes, at: MAGIC.len() };
    let version = cursor.u32()?;
    if VERSIONS.contains(&version.swap_bytes()) {
        return Err("is a big-endian GGUF file, but only little-endian ones are read".to_string());
    }
    if !VERSIONS.contains(&version) {
        return Err(format!("is of GGUF version {version}, but only versions 2 and 3 are read"));
    }
    let (tensors, keys) = (cursor.u64()?, cursor.u64()?);
    if tensors > MAX_TENSORS || keys > MAX_KEYS {
        return Err(format!(
            "announces {tensors} tensors and {keys} keys of metadata, but no file has more than {MAX_TENSORS} and {MAX_KEYS}"
        ));
    }
    let (mut scalars, mut lists) = (Map::new(), BTreeMap::new());
    for _ in 0..keys {
        let key = cursor.text()?.to_string();
        let kind = cursor.u32()?;
        let value = match kind {
            STRING => Value::from(cursor.text()?),
            LIST => {
                let list = cursor.list(&key)?;
                let value = Value::Object(super::object([("values", list.count.into())]));
                lists.insert(key.clone(), list);
                value
            }
            _ => cursor.scalar(kind).map_err(|message| format!("{key:?}: {message}"))?,
        };
        if scalars.insert(key.clone(), value).is_some() {
            return Err(format!("has the key {key:?} twice in its metadata"));
        }
    }
    let tensors = read_tensors(&mut cursor, tensors, alignment(&scalars)?)?;
    Ok(Header { scalars, lists, tensors })
}

/// To how many bytes data are aligned.
fn alignment(scalars: &Map<String, Value>) -> Result<u64, String> {
    let Some(value) = scalars.get("general.alignment") else { return Ok(32) };
    let found = value.as_u64().filter(|n| n.is_power_of_two() && *n <= MAX_ALIGNMENT);
    found.ok_or_else(|| format!("general.alignment is {value}, but must be a power of two up to {MAX_ALIGNMENT}"))
}

/// The tensors with their places in the file, in the order of their names.
fn read_tensors(cursor: &mut Cursor<'_>, count: u64, alignment: u64) -> Result<Vec<(String, Stored)>, String> {
    let (mut tensors, mut seen) = (Vec::new(), BTreeSet::new());
    for _ in 0..count {
        let name = cursor.text()?;
        if !seen.insert(name) {
            return Err(format!("holds the tensor {name:?} twice"));
        }
        let dimensions = cursor.u32()?;
        if !(1..=MAX_DIMENSIONS).contains(&dimensions) {
            return Err(format!("gives the tensor {name:?} {dimensions} dimensions, but must give 1 to {MAX_DIMENSIONS}"));
        }
        // The innermost comes first.
        let mut shape = Vec::new();
        for _ in 0..dimensions {
            shape.push(cursor.u64()?);
        }
        shape.reverse();
        tensors.push((name.to_string(), shape, cursor.u32()?, cursor.u64()?));
    }
    let data = (cursor.at as u64).next_multiple_of(alignment);
    let file = cursor.bytes.len();
    let placed = tensors.into_iter().map(|(name, shape, kind, offset)| place(name, &shape, kind, data, offset, file));
    let mut placed: Vec<_> = placed.collect::<Result<_, _>>()?;
    placed.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(placed)
}

/// One tensor, if it lies within a file of `file` bytes.
fn place(name: String, shape: &[u64], kind: u32, data: u64, offset: u64, file: usize) -> Result<(String, Stored), String> {
    let dtype = stored_type(kind);
    let width = shape.last().copied().unwrap_or(1);
    let (block, size) = dtype.as_ref().map_or((1, 0), |dtype| dtype.block());
    if !width.is_multiple_of(block as u64) {
        let kind = dtype.map_or("", StoredType::name);
        return Err(format!("has {name:?} with rows of {width} numbers as {kind}, which stores blocks of {block}"));
    }
    let numbers = shape.iter().try_fold(1_u64, |product, n| product.checked_mul(*n));
    let bytes = numbers.and_then(|numbers| (numbers / block as u64).checked_mul(size as u64));
    let start = data.checked_add(offset);
    let end = start.zip(bytes).and_then(|(start, bytes)| start.checked_add(bytes));
    match (start, end) {
        (Some(start), Some(end)) if end <= file as u64 => {
            let shape = shape.iter().map(|n| usize::try_from(*n).unwrap_or(usize::MAX)).collect();
            Ok((name, Stored { shape, dtype, range: start as usize..end as usize }))
        }
        (_, Some(end)) => Err(format!("is cut short: the tensor {name:?} ends at byte {end}, but the file has only {file} bytes")),
        _ => Err(format!("gives the tensor {name:?} the shape {shape:?} at offset {offset}, which no file could hold")),
    }
}

/// ggml's number of a type.
fn stored_type(kind: u32) -> Result<StoredType, String> {
    const OTHERS: [(u32, &str); 8] =
        [(3, "Q4_1"), (6, "Q5_0"), (7, "Q5_1"), (9, "Q8_1"), (10, "Q2_K"), (11, "Q3_K"), (13, "Q5_K"), (15, "Q8_K")];
    Ok(match kind {
        0 => StoredType::F32,
        1 => StoredType::F16,
        2 => StoredType::Q4_0,
        8 => StoredType::Q8_0,
        12 => StoredType::Q4K,
        14 => StoredType::Q6K,
        30 => StoredType::Bf16,
        _ => {
            let name = OTHERS.iter().find(|(other, _)| *other == kind).map_or(format!("type {kind}"), |(_, name)| (*name).to_string());
            return Err(format!("{name}, but only F32, F16, BF16, Q8_0, Q4_0, Q6_K and Q4_K are read"));
        }
    })
}

/// A place in the file, from which values are read in a row.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, n: u64) -> Result<&'a [u8], String> {
        let end = usize::try_from(n).ok().and_then(|n| self.at.checked_add(n));
        match end.and_then(|end| self.bytes.get(self.at..end)) {
            Some(_) if end.is_some_and(|end| end > MAX_HEADER) => Err(format!("has a header of more than {MAX_HEADER} bytes")),
            Some(taken) => {
                self.at += taken.len();
                Ok(taken)
            }
            None => {
                let (at, all) = (self.at, self.bytes.len());
                Err(format!("is cut short or damaged: at byte {at} its header needs {n} bytes more, but the file has only {all} in all"))
            }
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        Ok(self.take(N as u64)?.first_chunk().copied().unwrap_or([0; N]))
    }

    fn u32(&mut self) -> Result<u32, String> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, String> {
        self.array().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Result<&'a str, String> {
        let (at, length) = (self.at, self.u64()?);
        std::str::from_utf8(self.take(length)?).map_err(|_| format!("is damaged: the text at byte {at} is not UTF-8"))
    }

    fn scalar(&mut self, kind: u32) -> Result<Value, String> {
        Ok(match kind {
            0 => self.array().map(u8::from_le_bytes)?.into(),
            1 => self.array().map(i8::from_le_bytes)?.into(),
            2 => self.array().map(u16::from_le_bytes)?.into(),
            3 => self.array().map(i16::from_le_bytes)?.into(),
            4 => self.u32()?.into(),
            5 => self.array().map(i32::from_le_bytes)?.into(),
            // 1e-5 as an f32 is meant to be 1e-5: the shortest number that is this f32.
            6 => float(self.array().map(f32::from_le_bytes)?.to_string()),
            7 => (self.array::<1>()? != [0]).into(),
            10 => self.u64()?.into(),
            11 => self.array().map(i64::from_le_bytes)?.into(),
            12 => float(self.array().map(f64::from_le_bytes)?.to_string()),
            _ => return Err(format!("has a value of type {kind}, but types go from 0 to 12")),
        })
    }

    /// Walks through a list, so that its elements are known to be there.
    fn list(&mut self, key: &str) -> Result<List, String> {
        let (kind, count) = (self.u32()?, self.u64()?);
        let start = self.at;
        match size(kind) {
            Some(size) => drop(self.take(count.saturating_mul(size))?),
            None if kind == STRING => {
                for _ in 0..count {
                    let length = self.u64()?;
                    self.take(length)?;
                }
            }
            None => return Err(format!("{key:?} is a list of type {kind}, but only lists of numbers and of texts are read")),
        }
        let count = usize::try_from(count).map_err(|_| format!("{key:?} is a list of {count} values, more than there can be"))?;
        Ok(List { kind, count, range: start..self.at })
    }
}

/// A number that JSON can hold, else its text.
fn float(text: String) -> Value {
    text.parse().ok().and_then(Number::from_f64).map_or(Value::from(text), Value::Number)
}
