//! Candle's own operations behind [`Arithmetic`]: any device, any of its float types.

use std::sync::Arc;

use candle_core::quantized::{GgmlDType, QMatMul, QTensor};
use candle_core::{D, DType, Device, Module, Tensor};
use dlmrs_kernels::{Sight, Team};

use super::{Arithmetic, AttentionInput, Matrix, Precision, Product, Role, Rotation, WeightedSum};
use crate::error::{Error, Result};

/// The arithmetic of candle-core and candle-nn.
pub(crate) struct Plain {
    device: Device,
    dtype: DType,
    precision: Precision,
    team: Arc<Team>,
}

impl Plain {
    /// Activations of `dtype` on `device`, weights too unless `precision` quantises them; `team` serves the work that stays on the host.
    pub(crate) fn new(device: Device, dtype: DType, precision: Precision, team: Arc<Team>) -> Self {
        Self { device, dtype, precision, team }
    }

    /// A weight in Candle's blocks of 32.
    fn quantised(&self, weight: &dyn Matrix, blocks: GgmlDType, bias: Option<Tensor>) -> Result<Arc<dyn Product>> {
        let (n, k) = (weight.n(), weight.k());
        if !k.is_multiple_of(blocks.block_size()) {
            let message =
                format!("{} needs rows of a multiple of {} with plain Candle, but one has {k}", self.precision.name(), blocks.block_size());
            return Err(Error::input("dtype", message));
        }
        // On the host first, so that an accelerator never holds the f32 copy.
        let dense = Tensor::from_vec(weight.rows(0..n)?, (n, k), &Device::Cpu)?;
        let weight = QTensor::quantize_onto(&dense, blocks, &self.device)?;
        Ok(Arc::new(Quantised { weight: QMatMul::from_qtensor(weight)?, bias }))
    }
}

/// A weight in blocks of integers, on Candle's own product.
struct Quantised {
    weight: QMatMul, // [N, K]
    bias: Option<Tensor>,
}

impl Quantised {
    fn unused() -> Error {
        candle_core::Error::Msg("only the head and a router give columns and rows, and neither is quantised on plain Candle".into()).into()
    }
}

impl Product for Quantised {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let y = self.weight.forward(x)?; // [R, K] -> [R, N]
        Ok(match &self.bias {
            Some(bias) => y.broadcast_add(bias)?,
            None => y,
        })
    }

    fn columns(&self, _x: &Tensor, _from: usize, _to: usize) -> Result<Vec<f32>> {
        Err(Self::unused())
    }

    fn weights_of(&self, _ids: &[u32]) -> Result<Tensor> {
        Err(Self::unused())
    }
}

struct Dense {
    weight: Tensor, // [N, K]
    bias: Option<Tensor>,
}

impl Product for Dense {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let y = x.matmul(&self.weight.t()?)?; // [R, K] x [K, N] -> [R, N]
        Ok(match &self.bias {
            Some(bias) => y.broadcast_add(bias)?,
            None => y,
        })
    }

    fn columns(&self, x: &Tensor, from: usize, to: usize) -> Result<Vec<f32>> {
        // A router is in f32, whatever the activations are.
        let x = x.to_dtype(self.weight.dtype())?;
        let y = x.matmul(&self.weight.narrow(0, from, to - from)?.t()?)?; // [R, to - from]
        Ok(y.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?)
    }

    fn weights_of(&self, ids: &[u32]) -> Result<Tensor> {
        let ids = Tensor::from_slice(ids, ids.len(), &Device::Cpu)?.to_device(self.weight.device())?;
        Ok(self.weight.index_select(&ids, 0)?)
    }
}

/// A sum in f32 on the device, cast when it is complete.
struct Sum {
    values: Tensor, // [R, C]
    dtype: DType,
}

impl WeightedSum for Sum {
    fn add(&mut self, y: &Tensor, rows: &[u32], weights: &[f32]) -> Result<()> {
        let device = self.values.device();
        let rows = Tensor::from_slice(rows, rows.len(), &Device::Cpu)?.to_device(device)?;
        let weights = Tensor::from_slice(weights, (weights.len(), 1), &Device::Cpu)?.to_device(device)?; // [N, 1]
        self.values = self.values.index_add(&rows, &y.to_dtype(DType::F32)?.broadcast_mul(&weights)?, 0)?;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Tensor> {
        Ok(self.values.to_dtype(self.dtype)?)
    }
}

impl Arithmetic for Plain {
    fn product(&self, weight: &dyn Matrix, role: Role, bias: Option<Vec<f32>>) -> Result<Arc<dyn Product>> {
        let (n, k) = (weight.n(), weight.k());
        let bias = bias.map(|bias| self.tensor(bias, &[n])).transpose()?;
        match (self.precision, role) {
            (Precision::Int8, Role::Layer) => return self.quantised(weight, GgmlDType::Q8_0, bias),
            (Precision::Int4, Role::Layer) => return self.quantised(weight, GgmlDType::Q4_0, bias),
            _ => {}
        }
        // Converted on the host, so that an accelerator never holds the f32 copy.
        let dtype = if role == Role::Router { DType::F32 } else { self.dtype };
        let weight = Tensor::from_vec(weight.rows(0..n)?, (n, k), &Device::Cpu)?.to_dtype(dtype)?.to_device(&self.device)?;
        Ok(Arc::new(Dense { weight, bias }))
    }

    fn table(&self, table: &dyn Matrix) -> Result<Tensor> {
        self.tensor(table.rows(0..table.n())?, &[table.n(), table.k()])
    }

    fn weighted_sum(&self, rows: usize, width: usize) -> Result<Box<dyn WeightedSum + '_>> {
        Ok(Box::new(Sum { values: Tensor::zeros((rows, width), DType::F32, &self.device)?, dtype: self.dtype }))
    }

    fn tensor(&self, data: Vec<f32>, shape: &[usize]) -> Result<Tensor> {
        // Converted on the host, so that an accelerator never holds the f32 copy.
        Ok(Tensor::from_vec(data, shape, &Device::Cpu)?.to_dtype(self.dtype)?.to_device(&self.device)?)
    }

    fn rms_norm(&self, x: &Tensor, weight: &Tensor, eps: f64) -> Result<Tensor> {
        // In f32, then cast, then the weight: the order that the families' own code has.
        let wide = x.to_dtype(DType::F32)?;
        let mean = wide.sqr()?.mean_keepdim(D::Minus1)?;
        let scaled = wide.broadcast_div(&(mean + eps)?.sqrt()?)?;
        Ok(scaled.to_dtype(x.dtype())?.broadcast_mul(weight)?)
    }

    fn rotate(&self, x: Tensor, rotation: &Rotation) -> Result<Tensor> {
        let (rows, _, head_dim) = x.dims3()?; // [R, heads, D]
        let dtype = x.dtype();
        let working = if rotation.full_precision { DType::F32 } else { dtype };
        let half = rotation.rotary_dim / 2;
        let angle = |t: &Tensor| -> Result<Tensor> { Ok(t.reshape((rows, 1, half))?.to_device(&self.device)?.to_dtype(working)?) };
        let (cos, sin) = (angle(&rotation.cos)?, angle(&rotation.sin)?);
        let wide = x.to_dtype(working)?;
        let (a, b) = (wide.narrow(2, 0, half)?, wide.narrow(2, half, half)?);
        let first = (a.broadcast_mul(&cos)? - b.broadcast_mul(&sin)?)?;
        let second = (b.broadcast_mul(&cos)? + a.broadcast_mul(&sin)?)?;
        let mut parts = vec![first, second];
        if rotation.rotary_dim < head_dim {
            parts.push(wide.narrow(2, rotation.rotary_dim, head_dim - rotation.rotary_dim)?);
        }
        Ok(Tensor::cat(&parts, 2)?.to_dtype(dtype)?)
    }

    fn silu_mul(&self, gate: Tensor, up: &Tensor) -> Result<Tensor> {
        Ok((candle_nn::ops::silu(&gate)? * up)?)
    }

    fn add(&self, x: Tensor, y: &Tensor) -> Result<Tensor> {
        Ok((x + y)?)
    }

    fn attention(&self, passes: &[AttentionInput<'_>]) -> Result<Vec<Tensor>> {
        passes.iter().map(|pass| self.attention_of(pass)).collect()
    }

    fn dtype(&self) -> DType {
        self.dtype
    }

    fn device(&self) -> &Device {
        &self.device
    }

    fn team(&self) -> &Team {
        &self.team
    }
}

impl Plain {
    fn attention_of(&self, pass: &AttentionInput<'_>) -> Result<Tensor> {
        let (rows, heads, head_dim) = pass.q.dims3()?;
        let kv_heads = pass.k.dim(1)?;
        let group = heads / kv_heads;
        let join = |new: &Tensor, cache: Option<&Tensor>| -> Result<Tensor> {
            let new = new.transpose(0, 1)?.contiguous()?; // [R, G, D] -> [G, R, D]
            Ok(match cache {
                Some(cache) => Tensor::cat(&[&cache.narrow(1, 0, pass.cached)?, &new], 1)?, // [G, T + R, D]
                None => new,
            })
        };
        let keys = join(pass.k, pass.cache.map(|c| c.0))?;
        let values = join(pass.v, pass.cache.map(|c| c.1))?;
        let total = keys.dim(1)?;
        // [Q, H, D] -> [H, Q, D] -> [G, H/G * Q, D]: the query heads of one key/value head stand together.
        let q = pass.q.transpose(0, 1)?.contiguous()?.reshape((kv_heads, group * rows, head_dim))?;
        let scores = (q.matmul(&keys.transpose(1, 2)?)?.to_dtype(DType::F32)? * (1.0 / (head_dim as f64).sqrt()))?;
        let scores = match self.hidden_keys(pass.sight, rows, total)? {
            Some(mask) => scores.reshape((heads, rows, total))?.broadcast_add(&mask)?.reshape((kv_heads, group * rows, total))?,
            None => scores,
        };
        let weights = candle_nn::ops::softmax_last_dim(&scores)?.to_dtype(self.dtype)?;
        let out = weights.matmul(&values)?; // [G, H/G * Q, D]
        Ok(out.reshape((heads, rows, head_dim))?.transpose(0, 1)?.contiguous()?.reshape((rows, heads * head_dim))?)
    }

    /// [Q, T + R]: 0 where a row sees a key and minus infinity elsewhere; None if every row sees every key.
    fn hidden_keys(&self, sight: &Sight, rows: usize, total: usize) -> Result<Option<Tensor>> {
        if sight.classes.iter().all(|class| class.len() == total) {
            return Ok(None);
        }
        let mut mask = vec![f32::NEG_INFINITY; rows * total];
        for (row, &class) in sight.class_of_row.iter().enumerate() {
            for &key in &sight.classes[class as usize] {
                mask[row * total + key as usize] = 0.0;
            }
        }
        Ok(Some(Tensor::from_vec(mask, (1, rows, total), &Device::Cpu)?.to_device(&self.device)?))
    }
}
