//! Keys and values of one canvas, preallocated by layer, with the position of each entry.

use candle_core::{DType, Device, Tensor};

use crate::error::{Error, Result};

/// What one cache entry is made of.
#[derive(Clone, Debug)]
pub(crate) struct EntryShape {
    pub(crate) layers: usize,
    /// G
    pub(crate) kv_heads: usize,
    /// D
    pub(crate) head_dim: usize,
    pub(crate) dtype: DType,
    pub(crate) device: Device,
}

/// Keys (rotated) and values as [G, capacity, D] a layer. The first `len` entries are valid; nothing is ever read beyond them.
#[derive(Debug)]
pub struct KvCache {
    shape: EntryShape,
    /// Keys and values a layer; empty until the first entry is reserved.
    layers: Vec<(Tensor, Tensor)>,
    capacity: usize,
    limit: usize,
    positions: Vec<u32>,
}

impl KvCache {
    /// An empty cache that may grow to `limit` entries. Nothing is allocated before the first entry is kept.
    pub(crate) fn new(shape: EntryShape, limit: usize) -> Self {
        Self { shape, layers: Vec::new(), capacity: 0, limit, positions: Vec::new() }
    }

    /// Number of valid entries.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Whether there is no valid entry.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Rotary positions of the valid entries.
    pub fn positions(&self) -> &[u32] {
        &self.positions
    }

    /// Entries that fit without another allocation.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Bytes that are allocated.
    pub fn bytes(&self) -> usize {
        2 * self.shape.layers * self.shape.kv_heads * self.capacity * self.shape.head_dim * self.shape.dtype.size_in_bytes()
    }

    /// Forgets all entries from `len` on.
    pub fn truncate(&mut self, len: usize) {
        self.positions.truncate(len);
    }

    /// An independent copy.
    pub fn fork(&self) -> Result<Self> {
        let layers = self.layers.iter().map(|(k, v)| Ok((k.copy()?, v.copy()?))).collect::<Result<_>>()?;
        Ok(Self { shape: self.shape.clone(), layers, positions: self.positions.clone(), ..*self })
    }

    /// Refuses a cache of `entries` entries before any work is done for it.
    pub(crate) fn check(&self, entries: usize) -> Result<()> {
        if entries > self.limit {
            return Err(Error::Capacity {
                what: "cache",
                message: format!("{entries} entries are needed, but at most {} are allowed", self.limit),
            });
        }
        Ok(())
    }

    /// Makes room for `entries` entries; those that are there stay.
    pub fn reserve(&mut self, entries: usize) -> Result<()> {
        self.check(entries)?;
        if entries <= self.capacity {
            return Ok(());
        }
        let capacity = entries.max(self.capacity * 2).min(self.limit);
        let EntryShape { kv_heads, head_dim, dtype, ref device, .. } = self.shape;
        let grow = |old: Option<&Tensor>| -> Result<Tensor> {
            let new = Tensor::zeros((kv_heads, capacity, head_dim), dtype, device)?;
            if let (Some(old), true) = (old, !self.positions.is_empty()) {
                new.slice_set(&old.narrow(1, 0, self.positions.len())?.contiguous()?, 1, 0)?;
            }
            Ok(new)
        };
        let layers = (0..self.shape.layers).map(|l| {
            let old = self.layers.get(l);
            Ok((grow(old.map(|o| &o.0))?, grow(old.map(|o| &o.1))?))
        });
        self.layers = layers.collect::<Result<_>>()?;
        self.capacity = capacity;
        Ok(())
    }

    /// Keys and values of a layer, [G, capacity, D] each; None while nothing is allocated.
    pub(crate) fn layer(&self, layer: usize) -> Option<(&Tensor, &Tensor)> {
        self.layers.get(layer).map(|(k, v)| (k, v))
    }

    /// Writes keys and values [n, G, D] of one layer to the entries `from..from + n`, which must be reserved.
    pub(crate) fn write(&self, layer: usize, from: usize, k: &Tensor, v: &Tensor) -> Result<()> {
        let (keys, values) = &self.layers[layer];
        keys.slice_set(&k.transpose(0, 1)?.contiguous()?, 1, from)?; // [n, G, D] -> [G, n, D]
        values.slice_set(&v.transpose(0, 1)?.contiguous()?, 1, from)?;
        Ok(())
    }

    /// Declares entries that all layers have written: behind the valid ones, or in their place.
    pub(crate) fn set_position(&mut self, entry: usize, position: u32) {
        match self.positions.get_mut(entry) {
            Some(p) => *p = position,
            None => self.positions.push(position),
        }
    }
}
