//! Our CPU kernels behind [`Arithmetic`]: f32, contiguous tensors on the host.

use std::ops::Deref;
use std::sync::Arc;

use candle_core::{CpuStorage, DType, Device, Storage, Tensor};
use dlmrs_kernels::{self as kernels, AttentionPass, PackedLinear, Team};

use super::{Arithmetic, AttentionInput, Product, Rotation};
use crate::error::Result;

/// The arithmetic of `dlmrs-kernels`.
pub(crate) struct Kernels {
    team: Arc<Team>,
    device: Device,
}

impl Kernels {
    /// Kernels that share the work of each operation among `team`.
    pub(crate) fn new(team: Arc<Team>) -> Self {
        Self { team, device: Device::Cpu }
    }
}

/// The numbers of a contiguous f32 tensor on the host, lent for as long as this lives.
struct HostSlice<G> {
    storage: G,
    range: std::ops::Range<usize>,
}

fn host(tensor: &Tensor) -> Result<HostSlice<impl Deref<Target = Storage> + '_>> {
    let (storage, layout) = tensor.storage_and_layout();
    match (&*storage, layout.contiguous_offsets()) {
        (Storage::Cpu(CpuStorage::F32(_)), Some((from, to))) => Ok(HostSlice { storage, range: from..to }),
        _ => Err(candle_core::Error::Msg(format!("a contiguous f32 tensor on the host was expected, not {tensor:?}")).into()),
    }
}

impl<G: Deref<Target = Storage>> Deref for HostSlice<G> {
    type Target = [f32];
    fn deref(&self) -> &[f32] {
        match &*self.storage {
            Storage::Cpu(CpuStorage::F32(values)) => &values[self.range.clone()],
            _ => &[], // not reached: `host` lets no other storage in
        }
    }
}

/// A copy that may be written to.
fn owned(tensor: &Tensor) -> Result<Vec<f32>> {
    Ok(host(tensor)?.to_vec())
}

struct Packed {
    weight: PackedLinear,
    bias: Option<Vec<f32>>,
    team: Arc<Team>,
}

impl Product for Packed {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let rows = x.dim(0)?;
        let mut out = vec![0f32; rows * self.weight.n()]; // [R, N]
        self.weight.matmul(&self.team, &host(x)?, rows, self.bias.as_deref(), &mut out);
        Ok(Tensor::from_vec(out, (rows, self.weight.n()), &Device::Cpu)?)
    }

    fn columns(&self, x: &Tensor, from: usize, to: usize) -> Result<Vec<f32>> {
        let rows = x.dim(0)?;
        let mut out = vec![0f32; rows * (to - from)]; // [R, to - from]
        self.weight.matmul_columns(&self.team, &host(x)?, rows, from, to, &mut out);
        Ok(out)
    }
}

impl Arithmetic for Kernels {
    fn product(&self, weight: Vec<f32>, n: usize, k: usize, bias: Option<Vec<f32>>) -> Result<Arc<dyn Product>> {
        Ok(Arc::new(Packed { weight: PackedLinear::pack(&weight, n, k), bias, team: self.team.clone() }))
    }

    fn tensor(&self, data: Vec<f32>, shape: &[usize]) -> Result<Tensor> {
        Ok(Tensor::from_vec(data, shape, &Device::Cpu)?)
    }

    fn rms_norm(&self, x: &Tensor, weight: &Tensor, eps: f64) -> Result<Tensor> {
        let mut out = vec![0f32; x.elem_count()];
        kernels::rms_norm(&self.team, &host(x)?, &host(weight)?, eps as f32, &mut out);
        Ok(Tensor::from_vec(out, x.shape(), &Device::Cpu)?)
    }

    fn rotate(&self, x: Tensor, rotation: &Rotation) -> Result<Tensor> {
        let (_, heads, head_dim) = x.dims3()?; // [R, heads, D]
        let mut out = owned(&x)?;
        let (cos, sin) = (host(&rotation.cos)?, host(&rotation.sin)?);
        kernels::rotate(&self.team, &mut out, heads, head_dim, rotation.rotary_dim, &cos, &sin);
        Ok(Tensor::from_vec(out, x.shape(), &Device::Cpu)?)
    }

    fn silu_mul(&self, gate: Tensor, up: &Tensor) -> Result<Tensor> {
        let mut out = owned(&gate)?;
        kernels::silu_mul(&self.team, &mut out, &host(up)?);
        Ok(Tensor::from_vec(out, gate.shape(), &Device::Cpu)?)
    }

    fn add(&self, x: Tensor, y: &Tensor) -> Result<Tensor> {
        let mut out = owned(&x)?;
        kernels::add_assign(&self.team, &mut out, &host(y)?);
        Ok(Tensor::from_vec(out, x.shape(), &Device::Cpu)?)
    }

    fn attention(&self, passes: &[AttentionInput<'_>]) -> Result<Vec<Tensor>> {
        passes.iter().map(|pass| self.attention_of(pass)).collect()
    }

    fn dtype(&self) -> DType {
        DType::F32
    }

    fn device(&self) -> &Device {
        &self.device
    }

    fn team(&self) -> &Team {
        &self.team
    }
}

impl Kernels {
    fn attention_of(&self, pass: &AttentionInput<'_>) -> Result<Tensor> {
        let (rows, heads, head_dim) = pass.q.dims3()?;
        let kv_heads = pass.k.dim(1)?;
        let mut out = vec![0f32; rows * heads * head_dim]; // [Q, H, D]
        let capacity = match pass.cache {
            Some((keys, _)) => keys.dim(1)?,
            None => 0,
        };
        let empty = Tensor::zeros(0, DType::F32, &Device::Cpu)?;
        let (cache_k, cache_v) = pass.cache.unwrap_or((&empty, &empty));
        let input = AttentionPass {
            q: &host(&pass.q)?,
            cache_k: &host(cache_k)?,
            cache_v: &host(cache_v)?,
            capacity,
            cached: pass.cached,
            k: &host(pass.k)?,
            v: &host(pass.v)?,
            rows,
            heads,
            kv_heads,
            head_dim,
            scale: 1.0 / (head_dim as f32).sqrt(),
            sight: pass.sight,
        };
        kernels::attention(&self.team, &mut [(input, &mut out)]);
        Ok(Tensor::from_vec(out, (rows, heads * head_dim), &Device::Cpu)?)
    }
}
