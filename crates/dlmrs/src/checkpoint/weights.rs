//! The weights of a checkpoint: mapped, checked as a whole against the config, read one tensor at a time.

use std::collections::BTreeMap;
use std::ops::Range;

use dlmrs_kernels::QuantisedRows;
use half::{bf16, f16};
use safetensors::Dtype;

use super::shard::{Shard, Stored};
use super::{ExpertLayout, Folder, ModelConfig, Names, StoredRows, blocks, check, index, rounded};
use crate::{Error, Result};

/// The type that a tensor is stored in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoredType {
    /// 32-bit floating point.
    #[default]
    F32,
    /// The upper half of an f32.
    Bf16,
    /// IEEE half precision.
    F16,
    /// GGUF: blocks of 32 with a scale, 8 bits a number.
    Q8_0,
    /// GGUF: blocks of 32 with a scale, 4 bits a number.
    Q4_0,
    /// GGUF: blocks of 256 with a scale for each 16, 6 bits a number.
    Q6K,
    /// GGUF: blocks of 256 with a scale and an offset for each 32, 4 bits a number.
    Q4K,
    /// Rounded by `dlmrs quantize`: a byte each, a scale for each 128.
    Int8,
    /// Rounded by `dlmrs quantize`: half a byte each, a scale for each 32.
    Int4,
    /// Rounded by `dlmrs quantize`: half a byte each, a scale for each 128.
    Int4Wide,
}

impl StoredType {
    pub(super) fn of(dtype: Dtype) -> Option<Self> {
        match dtype {
            Dtype::F32 => Some(Self::F32),
            Dtype::BF16 => Some(Self::Bf16),
            Dtype::F16 => Some(Self::F16),
            _ => None,
        }
    }

    /// As safetensors or GGUF calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::Bf16 => "BF16",
            Self::F16 => "F16",
            Self::Q8_0 => "Q8_0",
            Self::Q4_0 => "Q4_0",
            Self::Q6K => "Q6_K",
            Self::Q4K => "Q4_K",
            Self::Int8 => "int8",
            Self::Int4 => "int4",
            Self::Int4Wide => "int4-128",
        }
    }

    /// How many numbers stand together in a block, and how many bytes a block has. A row is made of whole blocks. Rounded rows are
    /// not made of blocks; theirs would be (1, 1).
    pub fn block(self) -> (usize, usize) {
        match self {
            Self::F32 => (1, 4),
            Self::Bf16 | Self::F16 => (1, 2),
            Self::Q8_0 => (32, 34),
            Self::Q4_0 => (32, 18),
            Self::Q6K => (256, 210),
            Self::Q4K => (256, 144),
            Self::Int8 | Self::Int4 | Self::Int4Wide => (1, 1),
        }
    }

    /// Appends the numbers of some blocks.
    fn widen(self, values: &mut Vec<f32>, bytes: &[u8]) {
        match self {
            Self::F32 => widen(values, bytes, f32::from_le_bytes),
            Self::Bf16 => widen(values, bytes, |pair| bf16::from_le_bytes(pair).to_f32()),
            Self::F16 => widen(values, bytes, |pair| f16::from_le_bytes(pair).to_f32()),
            Self::Q8_0 => blocks::q8_0(values, bytes),
            Self::Q4_0 => blocks::q4_0(values, bytes),
            Self::Q6K => blocks::q6_k(values, bytes),
            Self::Q4K => blocks::q4_k(values, bytes),
            // Read row by row, see `load_rounded`.
            Self::Int8 | Self::Int4 | Self::Int4Wide => {}
        }
    }
}

/// Where a checked tensor is.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) shard: usize,
    pub(super) dtype: StoredType,
    pub(super) stored: Stored,
    /// The head size D, where the rows of each head are stored in pairs: rows i and i + D / 2 side by side.
    pub(super) paired: Option<usize>,
}

/// The tensors of a checkpoint. Files are mapped, so opening costs no memory; they must not be changed or cut short while they are
/// open, or the process may be ended by the system.
#[derive(Debug)]
pub struct Weights {
    shards: Vec<Shard>,
    entries: BTreeMap<String, Entry>,
    layout: ExpertLayout,
    names: Names,
    whole: String,
}

impl Weights {
    /// Maps the files, parses their headers and checks that every tensor of the config is there once with its shape, and no other.
    /// No weight is read.
    pub fn open(folder: &Folder, config: &ModelConfig) -> Result<Self> {
        Self::find(folder, config)?.ok_or_else(|| index::no_weights(folder))
    }

    /// Like [`Weights::open`], but None if the folder has no weights at all.
    pub fn find(folder: &Folder, config: &ModelConfig) -> Result<Option<Self>> {
        let Some(shards) = index::open_shards(folder)? else { return Ok(None) };
        let whole = match shards.as_slice() {
            [one] => one.file.clone(),
            _ => folder.path().display().to_string(),
        };
        let names = Names::in_folder(config.family, folder);
        let check::Checked { mut entries, layout } = check::entries(&shards, config, &names, &whole)?;
        let paired = if names.paired() { config.layers } else { 0 };
        for layer in (0..paired).map(|index| names.layer(config, index)) {
            for name in [layer.q, layer.k] {
                entries.entry(name).and_modify(|entry| entry.paired = Some(config.head_dim));
            }
        }
        Ok(Some(Self { shards, entries, layout, names, whole }))
    }

    /// What the tensors are called here.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Whether a tensor is stored.
    pub fn has(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// Whether the output head is stored; otherwise it is the embedding. What is stored decides, not the config's tie flag.
    pub fn has_head(&self) -> bool {
        self.has(self.names.head)
    }

    /// A tensor's shape.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.entries.get(name).map(|entry| entry.stored.shape.as_slice())
    }

    /// The type a tensor is stored in.
    pub fn dtype(&self, name: &str) -> Option<StoredType> {
        self.entries.get(name).map(|entry| entry.dtype)
    }

    /// The file a tensor is in, for messages.
    pub fn file(&self, name: &str) -> Option<&str> {
        let shard = self.entries.get(name).and_then(|entry| self.shards.get(entry.shard));
        shard.map(|shard| shard.file.as_str())
    }

    /// How the experts of a mixture are stored.
    pub fn expert_layout(&self) -> ExpertLayout {
        self.layout
    }

    /// A tensor's numbers in row-major order, widened to f32, which changes none of them (a number of a quantised block is its scale
    /// times its digits, plus its offset). A NaN or an infinity is an error.
    pub fn load_f32(&self, name: &str) -> Result<Vec<f32>> {
        self.load(name, None)
    }

    /// Like [`Weights::load_f32`], some rows of a tensor, counted over all its dimensions but the last.
    pub fn load_rows_f32(&self, part: &StoredRows) -> Result<Vec<f32>> {
        self.load(&part.tensor, part.rows.as_ref())
    }

    /// Some rows of a tensor that is stored rounded, as they are stored. None if it is stored in another way.
    pub(crate) fn load_rounded(&self, part: &StoredRows) -> Result<Option<QuantisedRows>> {
        let (entry, shard) = self.find_entry(&part.tensor)?;
        let Some(kind) = entry.dtype.rounded() else { return Ok(None) };
        let k = entry.stored.shape.last().copied().unwrap_or(1);
        let (row, bytes) = (rounded::row_bytes(kind, k), shard.bytes(&entry.stored));
        let rows = part.rows.clone().unwrap_or(0..bytes.len() / row.max(1));
        let Some(bytes) = bytes.get(rows.start.saturating_mul(row)..rows.end.saturating_mul(row)) else {
            return Err(Error::checkpoint(&self.whole, format!("{} has no rows {rows:?}", part.tensor)));
        };
        let rows = rounded::read(kind, k, bytes);
        rows.map(Some).map_err(|problem| Error::checkpoint(&shard.file, format!("{} {problem}", rounded::name(&part.tensor, kind))))
    }

    fn find_entry(&self, name: &str) -> Result<(&Entry, &Shard)> {
        let found = self.entries.get(name).and_then(|entry| self.shards.get(entry.shard).map(|shard| (entry, shard)));
        found.ok_or_else(|| Error::checkpoint(&self.whole, format!("holds no tensor {name}")))
    }

    fn load(&self, name: &str, rows: Option<&Range<usize>>) -> Result<Vec<f32>> {
        let (entry, shard) = self.find_entry(name)?;
        if entry.dtype.rounded().is_some() {
            let part = StoredRows { tensor: name.to_string(), rows: rows.cloned() };
            return Ok(self.load_rounded(&part)?.map(|rows| rows.weights()).unwrap_or_default());
        }
        let width = entry.stored.shape.last().copied().unwrap_or(1).max(1);
        let (block, size) = entry.dtype.block();
        let row = width / block * size;
        let bytes = shard.bytes(&entry.stored);
        let all = 0..bytes.len() / row.max(1);
        let rows = rows.unwrap_or(&all);
        let bytes_of = |from: usize, to: usize| {
            let part = bytes.get(from.saturating_mul(row)..to.saturating_mul(row));
            part.ok_or_else(|| Error::checkpoint(&self.whole, format!("{name} has no rows {rows:?}")))
        };
        // The header's sizes have been compared with the file, so this is no more than eight times what is on disk.
        let numbers = bytes_of(rows.start, rows.end)?.len() / size * block;
        let mut values = Vec::new();
        if values.try_reserve_exact(numbers).is_err() {
            let message = format!("{name} needs {} bytes, more than there are", numbers as u128 * 4);
            return Err(Error::Capacity { what: "memory for weights", message });
        }
        match entry.paired {
            None => entry.dtype.widen(&mut values, bytes_of(rows.start, rows.end)?),
            Some(head) => {
                for from in rows.clone().map(|row| blocks::place_in_pairs(row, head)) {
                    entry.dtype.widen(&mut values, bytes_of(from, from + 1)?);
                }
            }
        }
        match values.iter().find(|value| !value.is_finite()) {
            None => Ok(values),
            Some(value) => Err(Error::NotFinite {
                place: format!("{name} in {}", shard.file),
                found: if value.is_nan() { "NaN" } else { "an infinite value" },
            }),
        }
    }

    /// Every tensor's name, shape and stored type.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &[usize], StoredType)> {
        self.entries.iter().map(|(name, entry)| (name.as_str(), entry.stored.shape.as_slice(), entry.dtype))
    }

    /// How many numbers are stored.
    pub fn parameters(&self) -> u64 {
        self.entries.values().map(|entry| entry.stored.shape.iter().product::<usize>() as u64).sum()
    }

    /// How many bytes the tensors take on disk.
    pub fn stored_bytes(&self) -> u64 {
        self.entries.values().map(|entry| entry.stored.range.len() as u64).sum()
    }

    /// The types that occur, each once.
    pub fn stored_dtypes(&self) -> Vec<String> {
        let mut types: Vec<_> = self.entries.values().map(|entry| entry.dtype).collect();
        types.sort_unstable();
        types.dedup();
        types.into_iter().map(|dtype| dtype.name().to_string()).collect()
    }

    /// The files, as the user knows them.
    pub fn files(&self) -> Vec<&str> {
        self.shards.iter().map(|shard| shard.file.as_str()).collect()
    }
}

/// Appends the numbers of `N` bytes each.
fn widen<const N: usize>(values: &mut Vec<f32>, bytes: &[u8], read: impl Fn([u8; N]) -> f32) {
    values.extend(bytes.as_chunks::<N>().0.iter().map(|chunk| read(*chunk)));
}
