//! From a checkpoint's tensors to a model.

use std::sync::Arc;

use candle_core::DType;
use dlmrs_kernels::Team;

use super::Model;
use super::layer::{FeedForward, Layer};
use crate::arithmetic::{self, Arithmetic, Backend, Precision, Product};
use crate::checkpoint::{Folder, LayerNames, ModelConfig, Names, StoredType, Weights};
use crate::device;
use crate::error::{Error, Result};

/// How a model is brought into memory.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// See [`device::parse`].
    pub device: String,
    /// Number type of the activations.
    pub dtype: Precision,
    /// Which implementation multiplies.
    pub backend: Backend,
    /// Threads on the CPU; None: as many as the process may use.
    pub threads: Option<usize>,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self { device: "auto".into(), dtype: Precision::Auto, backend: Backend::Auto, threads: None }
    }
}

impl Model {
    /// Reads a checkpoint. Everything is checked before the first weight is read, and each weight for NaN and infinity as it is read.
    /// `progress` is told (parts read, parts in all) after each part, a layer or the rest, and ends the loading by returning false.
    pub fn load(
        folder: &Folder,
        config: ModelConfig,
        options: &LoadOptions,
        progress: &mut dyn FnMut(usize, usize) -> bool,
    ) -> Result<Self> {
        let device = device::parse(&options.device)?;
        let team = Team::new(options.threads).map_err(|message| Error::input("threads", message.trim_start_matches("threads ")))?;
        let weights = Weights::open(folder, &config)?;
        let names = Names::of(config.family);
        let stored = match weights.dtype(names.embedding) {
            Some(StoredType::Bf16) => DType::BF16,
            Some(StoredType::F16) => DType::F16,
            _ => DType::F32,
        };
        let arithmetic = arithmetic::choose(options.backend, device, options.dtype, stored, Arc::new(team))?;
        Self::from_weights(&weights, config, arithmetic, progress)
    }

    fn from_weights(
        weights: &Weights,
        config: ModelConfig,
        arithmetic: Arc<dyn Arithmetic>,
        progress: &mut dyn FnMut(usize, usize) -> bool,
    ) -> Result<Self> {
        let names = Names::of(config.family);
        let reader = Reader { weights, config: &config, arithmetic: &*arithmetic };
        let (v, c) = (config.vocab, config.hidden);
        let mut report = |done| if progress(done, config.layers + 1) { Ok(()) } else { Err(Error::Interrupted) };
        let mut layers = Vec::with_capacity(config.layers);
        for index in 0..config.layers {
            layers.push(reader.layer(&names.layer(&config, index))?);
            report(index + 1)?;
        }
        // A stored head wins over what the config says of tying.
        let (embedding, head) = match weights.has_head() {
            true => (Some(arithmetic.tensor(weights.load_f32(names.embedding)?, &[v, c])?), names.head),
            false => (None, names.embedding),
        };
        let (norm, head) = (reader.vector(names.final_norm)?, reader.product(head, None, v, c)?);
        report(config.layers + 1)?;
        Ok(Self {
            embedding,
            layers,
            norm,
            head,
            inverse_frequencies: config.rope.inverse_frequencies(),
            // A block-causal canvas is rounded up to whole blocks, so it may run past the longest sequence by less than one block.
            max_entries: 2 * config.max_positions,
            config,
            arithmetic,
        })
    }
}

struct Reader<'a> {
    weights: &'a Weights,
    config: &'a ModelConfig,
    arithmetic: &'a dyn Arithmetic,
}

impl Reader<'_> {
    fn vector(&self, name: &str) -> Result<candle_core::Tensor> {
        let data = self.weights.load_f32(name)?;
        let n = data.len();
        self.arithmetic.tensor(data, &[n])
    }

    fn product(&self, name: &str, bias: Option<&String>, n: usize, k: usize) -> Result<Arc<dyn Product>> {
        let bias = bias.map(|name| self.weights.load_f32(name)).transpose()?;
        self.arithmetic.product(self.weights.load_f32(name)?, n, k, bias)
    }

    fn layer(&self, names: &LayerNames) -> Result<Layer> {
        let ModelConfig { hidden: c, heads, kv_heads, head_dim, rms_eps: eps, .. } = *self.config;
        let (queries, keys) = (heads * head_dim, kv_heads * head_dim);
        let crate::checkpoint::FeedForward::Dense { intermediate: f } = self.config.feed_forward;
        let bias = |index: usize| names.biases.as_ref().map(|b| &b[index]);
        let head_norms = match &names.head_norms {
            Some([q, k]) => Some((self.vector(q)?, self.vector(k)?)),
            None => None,
        };
        Ok(Layer {
            input_norm: self.vector(&names.input_norm)?,
            q: self.product(&names.q, bias(0), queries, c)?,
            k: self.product(&names.k, bias(1), keys, c)?,
            v: self.product(&names.v, bias(2), keys, c)?,
            o: self.product(&names.o, None, c, queries)?,
            head_norms,
            post_norm: self.vector(&names.post_norm)?,
            feed_forward: FeedForward::Dense {
                gate: self.product(&names.gate, None, f, c)?,
                up: self.product(&names.up, None, f, c)?,
                down: self.product(&names.down, None, c, f)?,
            },
            heads,
            kv_heads,
            head_dim,
            eps,
        })
    }
}
