//! The arithmetic of a decoder layer, behind one switch: [`Kernels`] (our CPU kernels, the default there) and [`Plain`] (Candle's own
//! operations on any device). Both compute the same functions; only `Kernels` promises that a row's bits depend on nothing but that
//! row's own inputs.
//!
//! Letters in the shape comments: R rows, T cached keys, H query heads, G key/value heads, D head size, C hidden size, K inputs, N outputs.

mod kernels;
mod plain;
mod weights;

use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use dlmrs_kernels::{Sight, Team};

pub(crate) use kernels::Kernels;
pub(crate) use plain::Plain;
pub use weights::Precision;
pub(crate) use weights::{Matrix, Role, rows_at_once, weight_bytes, weight_type};

use crate::error::{Error, Result};

/// One weight matrix [N, K], held as its arithmetic wants it.
pub(crate) trait Product: Send + Sync {
    /// x [R, K] -> [R, N], the bias added last.
    fn forward(&self, x: &Tensor) -> Result<Tensor>;
    /// Outputs `from..to` only, on the host: x [R, K] -> [R, to - from]. `from` is a multiple of 16.
    fn columns(&self, x: &Tensor, from: usize, to: usize) -> Result<Vec<f32>>;
    /// Rows of the matrix itself, [ids, K]: the embedding, where it is tied to the output head.
    fn weights_of(&self, ids: &[u32]) -> Result<Tensor>;
}

/// A sum in f32 of weighted rows that come in parts, one expert of a mixture after the other.
pub(crate) trait WeightedSum {
    /// Adds `weights[i]` times row i of y [N, C] to the row `rows[i]` of the sum; no row twice.
    fn add(&mut self, y: &Tensor, rows: &[u32], weights: &[f32]) -> Result<()>;
    /// [R, C], in the type of the activations.
    fn finish(self: Box<Self>) -> Result<Tensor>;
}

/// Rotary angles of the rows of a forward: cosines and sines, [R, rotary_dim / 2] each, in f32.
pub(crate) struct Rotation {
    pub(crate) cos: Tensor,
    pub(crate) sin: Tensor,
    pub(crate) rotary_dim: usize,
    /// Rotate in f32 whatever the activations are (LLaDA).
    pub(crate) full_precision: bool,
}

/// What attention needs of one pass. The keys are the first `cached` entries of the cache, then the rows of this pass.
pub(crate) struct AttentionInput<'a> {
    /// [Q, H, D]: the query rows, which may be fewer than the key rows (the last layer computes read rows only).
    pub(crate) q: Tensor,
    /// [R, G, D]
    pub(crate) k: &'a Tensor,
    /// [R, G, D]
    pub(crate) v: &'a Tensor,
    /// Keys and values [G, capacity, D] of the cache; None when nothing is cached.
    pub(crate) cache: Option<(&'a Tensor, &'a Tensor)>,
    pub(crate) cached: usize,
    /// By query row.
    pub(crate) sight: &'a Sight,
}

/// The operations that a decoder layer is made of.
pub(crate) trait Arithmetic: Send + Sync {
    /// Reads a weight [N, K] and takes an optional bias [N] over.
    fn product(&self, weight: &dyn Matrix, role: Role, bias: Option<Vec<f32>>) -> Result<Arc<dyn Product>>;
    /// Reads a table [N, K] whose rows are looked up.
    fn table(&self, table: &dyn Matrix) -> Result<Tensor>;
    /// A sum of R rows of C numbers, all zero so far.
    fn weighted_sum(&self, rows: usize, width: usize) -> Result<Box<dyn WeightedSum + '_>>;
    /// A vector or table as the other operations expect it.
    fn tensor(&self, data: Vec<f32>, shape: &[usize]) -> Result<Tensor>;
    /// x [R, N] by rows of `weight` [N].
    fn rms_norm(&self, x: &Tensor, weight: &Tensor, eps: f64) -> Result<Tensor>;
    /// x [R, heads, D] with the first `rotary_dim` dims of each head rotated.
    fn rotate(&self, x: Tensor, rotation: &Rotation) -> Result<Tensor>;
    /// silu(gate) * up, both [R, F].
    fn silu_mul(&self, gate: Tensor, up: &Tensor) -> Result<Tensor>;
    /// x + y
    fn add(&self, x: Tensor, y: &Tensor) -> Result<Tensor>;
    /// x [R, N] -> the rows `indices`, [indices, N].
    fn select(&self, x: &Tensor, indices: &[u32]) -> Result<Tensor> {
        let indices = Tensor::from_slice(indices, indices.len(), &Device::Cpu)?.to_device(x.device())?;
        Ok(x.index_select(&indices, 0)?)
    }
    /// One [Q, H * D] for each pass.
    fn attention(&self, passes: &[AttentionInput<'_>]) -> Result<Vec<Tensor>>;
    /// The type of activations and cache entries.
    fn dtype(&self) -> DType;
    /// Where tensors live.
    fn device(&self) -> &Device;
    /// The threads for work on the host (scanning logits).
    fn team(&self) -> &Team;
}

/// Which implementation multiplies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// Our kernels on a CPU, plain Candle elsewhere.
    #[default]
    Auto,
    /// Our kernels; a CPU only.
    Kernels,
    /// Candle's own operations, on any device.
    Plain,
}

impl std::str::FromStr for Backend {
    type Err = Error;
    fn from_str(s: &str) -> Result<Self> {
        match s {
            "auto" => Ok(Self::Auto),
            "kernels" => Ok(Self::Kernels),
            "plain" => Ok(Self::Plain),
            other => Err(Error::input("backend", format!("'{other}' is unknown; use auto, kernels or plain"))),
        }
    }
}

/// Makes the arithmetic for a device; `stored` is the number type of the checkpoint.
pub(crate) fn choose(
    backend: Backend,
    device: Device,
    precision: Precision,
    stored: DType,
    team: Arc<Team>,
) -> Result<Arc<dyn Arithmetic>> {
    let refuse = |message: String| Err(Error::input("dtype", message));
    let on_cpu = device.is_cpu();
    match backend {
        Backend::Kernels if !on_cpu => {
            return Err(Error::input("backend", "'kernels' runs on a CPU only; use plain (or auto) on an accelerator"));
        }
        Backend::Auto | Backend::Kernels if on_cpu => {
            return match precision {
                Precision::F16 => refuse("f16 is not available on a CPU; use auto, f32, bf16, int8 or int4".into()),
                _ => Ok(Arc::new(Kernels::new(team, precision))),
            };
        }
        _ => {}
    }
    let dtype = match precision {
        Precision::Bf16 | Precision::F16 if on_cpu => {
            let name = precision.name();
            return refuse(format!("{name} is not available with plain Candle on a CPU; use f32 (or auto), or another backend"));
        }
        Precision::Int4Wide => return refuse("int4-128 is for a CPU's kernels; use int4 with plain Candle".into()),
        Precision::Auto if !on_cpu => stored,
        Precision::Bf16 => DType::BF16,
        Precision::F16 => DType::F16,
        Precision::Auto | Precision::F32 | Precision::Int8 | Precision::Int4 => DType::F32,
    };
    Ok(Arc::new(Plain::new(device, dtype, precision, team)))
}
