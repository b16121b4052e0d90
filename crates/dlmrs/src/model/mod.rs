//! The model: one entry, [`Model::forward`], for every family and every way of decoding.

mod hidden;
mod layer;
mod load;
mod memory;
mod mixture;
mod router;
mod tap;

use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use dlmrs_kernels::{Sight, Team};

pub(crate) use hidden::no_token;
pub use hidden::{Guide, Hidden, RowScan};
pub use load::LoadOptions;

use crate::arithmetic::{Arithmetic, Product, Rotation};
use crate::cache::{EntryShape, KvCache};
use crate::checkpoint::ModelConfig;
use crate::error::{Error, Result};
use crate::pass::{Keep, Pass};
use layer::Layer;
use tap::Tapping;

/// A decoder-only transformer of one of the supported families. It knows nothing about how text is decoded with it.
pub struct Model {
    config: ModelConfig,
    arithmetic: Arc<dyn Arithmetic>,
    /// [V, C]; None where it is tied to the head.
    embedding: Option<Tensor>,
    layers: Vec<Layer>,
    norm: Tensor, // [C]
    head: Arc<dyn Product>,
    inverse_frequencies: Vec<f32>,
    max_entries: usize,
    weights: &'static str,
}

/// The rows of one pass inside a forward.
pub(crate) struct Part<'a> {
    pub(crate) pass: &'a Pass,
    pub(crate) cache: &'a mut KvCache,
    /// First row of the pass among all rows.
    pub(crate) from: usize,
    /// Who sees whom, for all rows; in the last layer for those that are read.
    pub(crate) sight: Sight,
}

impl Model {
    /// What the checkpoint says of itself.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// An empty cache for one canvas.
    pub fn new_cache(&self) -> KvCache {
        let shape = EntryShape {
            layers: self.config.layers,
            kv_heads: self.config.kv_heads,
            head_dim: self.config.head_dim,
            dtype: self.arithmetic.dtype(),
            device: self.arithmetic.device().clone(),
        };
        KvCache::new(shape, self.max_entries)
    }

    /// The threads that work for this model.
    pub fn team(&self) -> &Team {
        self.arithmetic.team()
    }

    /// How the weights are held: "f32", "bf16", "f16", "int8", "int4" or "int4-128".
    pub fn weights(&self) -> &'static str {
        self.weights
    }

    /// The type of the activations.
    pub fn dtype(&self) -> DType {
        self.arithmetic.dtype()
    }

    /// Where the weights are.
    pub fn device(&self) -> &Device {
        self.arithmetic.device()
    }

    /// How often the weights of an expert of a mixture have been read so far, over all layers: once for each pass of a forward's rows
    /// through an expert that any of them chose. 0 without a mixture.
    pub fn expert_reads(&self) -> u64 {
        self.layers.iter().map(|layer| layer.feed_forward.expert_reads()).sum()
    }

    /// Runs several passes at once; each weight is read once for the rows of all of them, attention stays inside a pass.
    /// All passes are checked before any arithmetic. If a forward fails later, its caches are emptied.
    pub fn forward(&self, passes: &mut [(Pass, &mut KvCache)]) -> Result<Hidden> {
        for (pass, cache) in passes.iter() {
            pass.validate(cache.len(), self.config.vocab)?;
            cache.check(pass.kept_len())?;
        }
        let result = self.run(passes);
        if result.is_err() {
            passes.iter_mut().for_each(|(_, cache)| cache.truncate(0));
        }
        result
    }

    fn run(&self, passes: &mut [(Pass, &mut KvCache)]) -> Result<Hidden> {
        let mut parts = Vec::with_capacity(passes.len());
        let (mut rows, mut counts) = (0, Vec::with_capacity(passes.len()));
        for (pass, cache) in passes.iter_mut() {
            cache.truncate(pass.base);
            cache.reserve(pass.kept_len())?;
            let sight = pass.sight(cache.positions());
            parts.push(Part { pass, cache, from: rows, sight });
            rows += pass.rows();
            counts.push(pass.read.len());
        }
        let tokens: Vec<u32> = parts.iter().flat_map(|p| p.pass.tokens.iter().copied()).collect();
        let positions: Vec<u32> = parts.iter().flat_map(|p| p.pass.positions.iter().copied()).collect();
        let read: Vec<u32> = parts.iter().flat_map(|p| p.pass.read.iter().map(|&row| row + p.from as u32)).collect();

        let mut x = match &self.embedding {
            // The table may be held in fewer bits than the activations.
            Some(table) => self.arithmetic.select(table, &tokens)?.to_dtype(self.arithmetic.dtype())?,
            None => self.head.weights_of(&tokens)?,
        }; // [R, C]
        let mut taps: Vec<Tapping> = parts.iter().map(Tapping::new).collect();
        let rotation = self.rotation(&positions)?;
        let read_rotation = self.rotation(&read.iter().map(|&row| positions[row as usize]).collect::<Vec<_>>())?;
        let last = self.layers.len() - 1;
        for (index, layer) in self.layers.iter().enumerate() {
            for (tap, part) in taps.iter_mut().zip(&parts) {
                tap.look(&*self.arithmetic, index, layer, &x, &rotation, part)?;
            }
            let narrowed = (index == last).then_some((read.as_slice(), &read_rotation));
            if narrowed.is_some() {
                parts.iter_mut().for_each(Part::narrow);
            }
            x = layer.forward(&*self.arithmetic, index, x, &rotation, narrowed, &parts)?;
        }
        for part in &mut parts {
            part.declare_kept();
        }
        let rows = if read.is_empty() { x } else { self.arithmetic.rms_norm(&x, &self.norm, self.config.rms_eps)? }; // [read rows, C]
        let taps = taps.into_iter().map(|tap| tap.finish(self.layers.len())).collect();
        Ok(Hidden::new(rows, counts, self.head.clone(), self.arithmetic.clone(), self.config.vocab).with_taps(taps))
    }

    /// Angles in f32, as the references compute them.
    fn rotation(&self, positions: &[u32]) -> Result<Rotation> {
        let half = self.inverse_frequencies.len();
        let angles = || positions.iter().flat_map(|&p| self.inverse_frequencies.iter().map(move |f| p as f32 * f));
        let table = |values: Vec<f32>| Tensor::from_vec(values, (positions.len(), half), &Device::Cpu); // [R, rotary_dim / 2]
        Ok(Rotation {
            cos: table(angles().map(f32::cos).collect())?,
            sin: table(angles().map(f32::sin).collect())?,
            rotary_dim: 2 * half,
            full_precision: self.config.rope.full_precision,
        })
    }
}

impl Part<'_> {
    /// From all rows to those that are read.
    fn narrow(&mut self) {
        self.sight.class_of_row = self.pass.read.iter().map(|&row| self.sight.class_of_row[row as usize]).collect();
    }

    /// Stores the keys and values [R_all, G, D] of one layer that the pass keeps.
    fn store(&self, layer: usize, k: &Tensor, v: &Tensor) -> Result<()> {
        let runs = match &self.pass.keep {
            Keep::Nothing => return Ok(()),
            Keep::Append(rows) => runs(rows, |i| self.pass.base + i),
            Keep::Overwrite { rows, slots } => runs(rows, |i| slots[i] as usize),
        };
        for (row, entry, n) in runs {
            let (k, v) = (k.narrow(0, self.from + row, n)?, v.narrow(0, self.from + row, n)?);
            self.cache.write(layer, entry, &k, &v)?;
        }
        Ok(())
    }

    fn declare_kept(&mut self) {
        let positions = &self.pass.positions;
        match &self.pass.keep {
            Keep::Nothing => {}
            Keep::Append(rows) => {
                for (i, &row) in rows.iter().enumerate() {
                    self.cache.set_position(self.pass.base + i, positions[row as usize]);
                }
            }
            Keep::Overwrite { rows, slots } => {
                for (&row, &slot) in rows.iter().zip(slots) {
                    self.cache.set_position(slot as usize, positions[row as usize]);
                }
            }
        }
    }
}

/// Splits "row -> entry" into runs in which both go up by one: (first row, first entry, length).
fn runs(rows: &[u32], entry: impl Fn(usize) -> usize) -> Vec<(usize, usize, usize)> {
    let mut runs: Vec<(usize, usize, usize)> = Vec::new();
    for (i, &row) in rows.iter().enumerate() {
        let (row, entry) = (row as usize, entry(i));
        match runs.last_mut() {
            Some((r, e, n)) if *r + *n == row && *e + *n == entry => *n += 1,
            _ => runs.push((row, entry, 1)),
        }
    }
    runs
}

/// Refuses NaN and infinity; `place` names where they were found.
pub(crate) fn check_finite(values: &[f32], place: impl FnOnce() -> String) -> Result<()> {
    match values.iter().find(|v| !v.is_finite()) {
        None => Ok(()),
        Some(v) => Err(Error::NotFinite { place: place(), found: if v.is_nan() { "NaN" } else { "an infinite value" } }),
    }
}
