//! From a checkpoint's tensors to a model.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use dlmrs_kernels::{QuantisedRows, Team};

use super::Model;
use super::layer::{FeedForward, Layer};
use super::memory;
use super::mixture::{Expert, Mixture};
use super::router::Chooser;
use crate::arithmetic::{self, Arithmetic, Backend, Matrix, Precision, Product, Role};
use crate::checkpoint::{self, Folder, LayerNames, MixtureNames, ModelConfig, Names, StoredRows, StoredType, Weights, number_type};
use crate::device;
use crate::error::{Error, Result};

/// How a model is brought into memory.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// See [`device::parse`].
    pub device: String,
    /// How the weights are held.
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
        let names = weights.names();
        let stored = number_type(weights.dtype(names.embedding));
        let on_cpu = device.is_cpu();
        let arithmetic = arithmetic::choose(options.backend, device, options.dtype, stored, Arc::new(team))?;
        if on_cpu && options.backend != Backend::Plain {
            memory::check(&weights, &config, options.dtype)?;
        }
        let held = match options.dtype {
            Precision::Auto if on_cpu && options.backend == Backend::Plain => Precision::F32.name(),
            Precision::Auto if on_cpu => match weights.dtype(&names.layer(&config, 0).q) {
                Some(StoredType::Bf16) => Precision::Bf16.name(),
                Some(stored) if stored.rounded().is_some() => stored.name(),
                _ => Precision::F32.name(),
            },
            Precision::Auto => stored.as_str(),
            precision => precision.name(),
        };
        Self::from_weights(&weights, config, arithmetic, held, progress)
    }

    fn from_weights(
        weights: &Weights,
        config: ModelConfig,
        arithmetic: Arc<dyn Arithmetic>,
        held: &'static str,
        progress: &mut dyn FnMut(usize, usize) -> bool,
    ) -> Result<Self> {
        let names = *weights.names();
        let reader = Reader { weights, config: &config, arithmetic: &*arithmetic };
        let (v, c) = (config.vocab, config.hidden);
        let mut report = |done| if progress(done, config.layers + 1) { Ok(()) } else { Err(Error::Interrupted) };
        let mut layers = Vec::with_capacity(config.layers);
        for index in 0..config.layers {
            layers.push(reader.layer(&names, index)?);
            report(index + 1)?;
        }
        // A stored head wins over what the config says of tying.
        let (embedding, head) = match weights.has_head() {
            true => (Some(arithmetic.table(&reader.matrix(names.embedding, v, c))?), names.head),
            false => (None, names.embedding),
        };
        let (norm, head) = (reader.vector(names.final_norm)?, arithmetic.product(&reader.matrix(head, v, c), Role::Head, None)?);
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
            weights: held,
        })
    }
}

/// A matrix [N, K] that is some rows of a tensor.
struct StoredMatrix<'a> {
    weights: &'a Weights,
    tensor: String,
    /// Its first row in the tensor.
    first: usize,
    n: usize,
    k: usize,
}

impl StoredMatrix<'_> {
    fn part(&self, range: std::ops::Range<usize>) -> StoredRows {
        StoredRows { tensor: self.tensor.clone(), rows: Some(self.first + range.start..self.first + range.end) }
    }
}

impl Matrix for StoredMatrix<'_> {
    fn n(&self) -> usize {
        self.n
    }

    fn k(&self) -> usize {
        self.k
    }

    fn stored(&self) -> StoredType {
        self.weights.dtype(&self.tensor).unwrap_or_default()
    }

    fn rows(&self, range: std::ops::Range<usize>) -> Result<Vec<f32>> {
        self.weights.load_rows_f32(&self.part(range))
    }

    fn rounded(&self, range: std::ops::Range<usize>) -> Result<Option<QuantisedRows>> {
        self.weights.load_rounded(&self.part(range))
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

    fn matrix(&self, name: &str, n: usize, k: usize) -> StoredMatrix<'_> {
        StoredMatrix { weights: self.weights, tensor: name.to_owned(), first: 0, n, k }
    }

    fn product(&self, name: &str, bias: Option<&String>, n: usize, k: usize) -> Result<Arc<dyn Product>> {
        let bias = bias.map(|name| self.weights.load_f32(name)).transpose()?;
        self.arithmetic.product(&self.matrix(name, n, k), Role::Layer, bias)
    }

    /// A product whose matrix is some rows of a stored tensor.
    fn part(&self, part: &StoredRows, n: usize, k: usize) -> Result<Arc<dyn Product>> {
        let first = part.rows.as_ref().map_or(0, |rows| rows.start);
        let matrix = StoredMatrix { weights: self.weights, tensor: part.tensor.clone(), first, n, k };
        self.arithmetic.product(&matrix, Role::Layer, None)
    }

    /// Gate and up [F, C] and down [C, F].
    fn expert(&self, [gate, up, down]: &[StoredRows; 3], f: usize) -> Result<Expert> {
        let c = self.config.hidden;
        Ok(Expert { gate: self.part(gate, f, c)?, up: self.part(up, f, c)?, down: self.part(down, c, f)? })
    }

    fn mixture(&self, names: &MixtureNames, mixture: &checkpoint::Mixture) -> Result<Mixture> {
        let (c, e) = (self.config.hidden, mixture.experts);
        let experts = (0..e).map(|index| self.expert(&names.expert(mixture, c, index), mixture.intermediate));
        let bias = if mixture.has_bias() { self.weights.load_f32(&names.bias())? } else { Vec::new() };
        Ok(Mixture {
            router: self.arithmetic.product(&self.matrix(&names.router(), e, c), Role::Router, None)?,
            chooser: Chooser::new(mixture, bias),
            experts: experts.collect::<Result<_>>()?,
            shared: mixture.shared.map(|f| self.expert(&names.shared(), f)).transpose()?,
            reads: AtomicU64::new(0),
        })
    }

    fn feed_forward(&self, names: &Names, layer: &LayerNames, index: usize) -> Result<FeedForward> {
        match self.config.feed_forward_of(index) {
            checkpoint::FeedForward::Dense { intermediate } => {
                let whole = |name: &String| StoredRows { tensor: name.clone(), rows: None };
                Ok(FeedForward::Dense(self.expert(&[&layer.gate, &layer.up, &layer.down].map(whole), intermediate)?))
            }
            checkpoint::FeedForward::Mixture(mixture) => {
                Ok(FeedForward::Mixture(self.mixture(&names.mixture(self.weights.expert_layout(), index), &mixture)?))
            }
        }
    }

    /// q [H * D, C], k and v [G * D, C].
    fn qkv(&self, names: &LayerNames, queries: usize, keys: usize) -> Result<[Arc<dyn Product>; 3]> {
        let c = self.config.hidden;
        if names.fused_qkv {
            let rows = |from: usize, n: usize| self.part(&StoredRows { tensor: names.q.clone(), rows: Some(from..from + n) }, n, c);
            return Ok([rows(0, queries)?, rows(queries, keys)?, rows(queries + keys, keys)?]);
        }
        let bias = |index: usize| names.biases.as_ref().map(|b| &b[index]);
        Ok([
            self.product(&names.q, bias(0), queries, c)?,
            self.product(&names.k, bias(1), keys, c)?,
            self.product(&names.v, bias(2), keys, c)?,
        ])
    }

    fn layer(&self, all: &Names, index: usize) -> Result<Layer> {
        let names = &all.layer(self.config, index);
        let ModelConfig { hidden: c, heads, kv_heads, head_dim, rms_eps: eps, .. } = *self.config;
        let (queries, keys) = (heads * head_dim, kv_heads * head_dim);
        let head_norms = match &names.head_norms {
            Some([q, k]) => Some((self.vector(q)?, self.vector(k)?)),
            None => None,
        };
        let [q, k, v] = self.qkv(names, queries, keys)?;
        Ok(Layer {
            input_norm: self.vector(&names.input_norm)?,
            q,
            k,
            v,
            o: self.product(&names.o, None, c, queries)?,
            head_norms,
            post_norm: self.vector(&names.post_norm)?,
            feed_forward: self.feed_forward(all, names, index)?,
            heads,
            kv_heads,
            head_dim,
            eps,
        })
    }
}
