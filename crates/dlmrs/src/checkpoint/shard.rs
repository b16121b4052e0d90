//! One file of weights: mapped into memory, its header checked against its length. No weight is read here.
//!
//! Safetensors headers are parsed here, those of GGUF files in [`super::gguf`].

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;
use safetensors::tensor::Metadata;

use super::folder::regular_file;
use super::{Folder, StoredType};
use crate::{Error, Result};

/// Bytes of the number at the start of a file that says how long the header is.
const LENGTH_BYTES: usize = 8;
/// The format's own limit.
const MAX_HEADER: u64 = 100_000_000;

/// A mapped file of tensors.
#[derive(Debug)]
pub(super) struct Shard {
    /// The file as the user knows it.
    pub(super) file: String,
    /// Its name within the folder.
    pub(super) name: String,
    /// Its tensors by name, in the order of the names.
    pub(super) tensors: Vec<(String, Stored)>,
    pub(super) bytes: Bytes,
}

/// A tensor as the header of its file describes it.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) shape: Vec<usize>,
    /// The type, or what is wrong with it: the end of a sentence.
    pub(super) dtype: Result<StoredType, String>,
    /// Which bytes of the file are its own.
    pub(super) range: Range<usize>,
}

/// The content of a file.
#[derive(Clone, Debug)]
pub(super) enum Bytes {
    Mapped(Arc<Mmap>),
    Bundled(&'static [u8]),
}

impl Bytes {
    pub(super) fn all(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Bundled(bytes) => bytes,
        }
    }
}

impl Shard {
    /// Maps a file and parses its header; None if there is no such file.
    pub(super) fn open(folder: &Folder, name: &str) -> Result<Option<Self>> {
        let bytes = match folder {
            Folder::Disk(path) => map(&path.join(name))?,
            Folder::Bundled(_, files) => files.iter().find(|(file, _)| *file == name).map(|(_, bytes)| Bytes::Bundled(bytes)),
            Folder::Gguf(_) => None,
        };
        bytes.map(|bytes| Self::parse(folder.describe(name), name, bytes)).transpose()
    }

    fn parse(file: String, name: &str, bytes: Bytes) -> Result<Self> {
        let all = bytes.all();
        let length = match all.first_chunk::<LENGTH_BYTES>() {
            Some(first) => u64::from_le_bytes(*first),
            None => {
                let message = format!("has {} bytes, but a safetensors file begins with {LENGTH_BYTES} that hold a length", all.len());
                return Err(Error::checkpoint(file, message));
            }
        };
        let data = usize::try_from(length).ok().and_then(|length| length.checked_add(LENGTH_BYTES)).filter(|_| length <= MAX_HEADER);
        let Some(header) = data.and_then(|data| all.get(LENGTH_BYTES..data)) else {
            let message = format!(
                "is not a safetensors file or is cut short: it announces a header of {length} bytes, but has {} bytes in all",
                all.len()
            );
            return Err(Error::checkpoint(file, message));
        };
        // The crate's own reader adds these lengths unchecked, so the header is parsed alone and its end compared here.
        let metadata: Metadata = serde_json::from_slice(header)
            .map_err(|error| Error::checkpoint(&file, format!("the safetensors header is malformed: {error}")))?;
        let (data, wanted) = (LENGTH_BYTES + header.len(), metadata.data_len());
        if all.len() - data != wanted {
            let (verdict, found) = if all.len() - data < wanted { ("is cut short", "only ") } else { ("has a tail", "") };
            let message = format!(
                "{verdict}: its header describes {wanted} bytes of tensors, which with the header make {} bytes, but the file has {found}{} bytes",
                wanted as u128 + data as u128,
                all.len()
            );
            return Err(Error::checkpoint(file, message));
        }
        let stored = |(name, info): (String, &safetensors::tensor::TensorInfo)| {
            let dtype = StoredType::of(info.dtype).ok_or_else(|| format!("{}, but only F32, BF16 and F16 are read", info.dtype));
            let (start, end) = info.data_offsets;
            (name, Stored { shape: info.shape.clone(), dtype, range: data + start..data + end })
        };
        let mut tensors: Vec<_> = metadata.tensors().into_iter().map(stored).collect();
        // The map's order is random; messages must not be.
        tensors.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(Self { file, name: name.to_string(), tensors, bytes })
    }

    /// The bytes of a tensor of this file.
    pub(super) fn bytes(&self, stored: &Stored) -> &[u8] {
        self.bytes.all().get(stored.range.clone()).unwrap_or_default()
    }
}

/// Maps a regular file; None if there is none.
#[allow(unsafe_code)]
pub(super) fn map(path: &Path) -> Result<Option<Bytes>> {
    if regular_file(path)?.is_none() {
        return Ok(None);
    }
    let file = std::fs::File::open(path).map_err(|error| Error::io("open", path, error))?;
    // SAFETY: the map is private to this module, read only, and lives as long as its `Mmap`. What Rust cannot rule out is that another
    // program changes the file meanwhile; weights are written once and replaced by renaming, and every engine that maps them relies on
    // that. A file cut short while it is mapped would end the process with a signal, and the documentation of `Weights` says so.
    let map = unsafe { Mmap::map(&file) };
    map.map(|map| Some(Bytes::Mapped(Arc::new(map)))).map_err(|error| Error::io("map", path, error))
}
