//! Our CPU kernels behind [`Arithmetic`]: activations in f32, contiguous tensors on the host; weights as the caller wants them.

use std::ops::Deref;
use std::sync::Arc;

use candle_core::{CpuStorage, DType, Device, Storage, Tensor};
use dlmrs_kernels::{self as kernels, AttentionPass, PackedLinear, Team, WeightType};
use half::bf16;

use super::weights::weight_type;
use super::{Arithmetic, AttentionInput, Matrix, Precision, Product, Role, Rotation, WeightedSum, rows_at_once};
use crate::error::Result;

/// The arithmetic of `dlmrs-kernels`.
pub(crate) struct Kernels {
    team: Arc<Team>,
    device: Device,
    precision: Precision,
}

impl Kernels {
    /// Kernels that share the work of each operation among `team`, over weights that are held in `precision`.
    pub(crate) fn new(team: Arc<Team>, precision: Precision) -> Self {
        Self { team, device: Device::Cpu, precision }
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

    fn weights_of(&self, ids: &[u32]) -> Result<Tensor> {
        let k = self.weight.k();
        let mut rows = vec![0f32; ids.len() * k]; // [ids, K]
        for (&id, row) in ids.iter().zip(rows.chunks_mut(k)) {
            self.weight.output(id as usize, row);
        }
        Ok(Tensor::from_vec(rows, (ids.len(), k), &Device::Cpu)?)
    }
}

/// A sum that is added to in place.
struct Sum {
    values: Vec<f32>, // [R, C]
    rows: usize,
    width: usize,
}

impl WeightedSum for Sum {
    fn add(&mut self, y: &Tensor, rows: &[u32], weights: &[f32]) -> Result<()> {
        let y = host(y)?; // [N, C]
        for ((&row, weight), y) in rows.iter().zip(weights).zip(y.chunks(self.width)) {
            let sum = &mut self.values[row as usize * self.width..][..self.width];
            sum.iter_mut().zip(y).for_each(|(sum, y)| *sum += weight * y);
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Tensor> {
        Ok(Tensor::from_vec(self.values, (self.rows, self.width), &Device::Cpu)?)
    }
}

impl Arithmetic for Kernels {
    fn product(&self, weight: &dyn Matrix, role: Role, bias: Option<Vec<f32>>) -> Result<Arc<dyn Product>> {
        let (n, k) = (weight.n(), weight.k());
        let mut packed = PackedLinear::zeros(weight_type(self.precision, role, weight.stored()), n, k);
        let as_stored = weight.stored().rounded() == Some(packed.kind());
        for first in (0..n).step_by(rows_at_once(k)) {
            let range = first..(first + rows_at_once(k)).min(n);
            // Rows that are rounded in this way already are taken as they are.
            let rounded = if as_stored { weight.rounded(range.clone())? } else { None };
            match rounded {
                Some(rows) => packed.fill_quantised(first, &rows),
                None => packed.fill(&self.team, first, &weight.rows(range)?),
            }
        }
        Ok(Arc::new(Packed { weight: packed, bias, team: self.team.clone() }))
    }

    fn table(&self, table: &dyn Matrix) -> Result<Tensor> {
        let (n, k) = (table.n(), table.k());
        if weight_type(self.precision, Role::Embedding, table.stored()) == WeightType::F32 {
            return self.tensor(table.rows(0..n)?, &[n, k]);
        }
        let mut narrow = Vec::with_capacity(n * k);
        for first in (0..n).step_by(rows_at_once(k)) {
            narrow.extend(table.rows(first..(first + rows_at_once(k)).min(n))?.into_iter().map(bf16::from_f32));
        }
        Ok(Tensor::from_vec(narrow, (n, k), &Device::Cpu)?)
    }

    fn weighted_sum(&self, rows: usize, width: usize) -> Result<Box<dyn WeightedSum + '_>> {
        Ok(Box::new(Sum { values: vec![0.0; rows * width], rows, width }))
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
        let empty = Tensor::zeros(0, DType::F32, &Device::Cpu)?;
        let lent = passes.iter().map(|pass| Lent::of(pass, &empty)).collect::<Result<Vec<_>>>()?;
        let mut outs: Vec<Vec<f32>> = passes.iter().map(|pass| vec![0f32; pass.q.elem_count()]).collect(); // [Q, H, D] each
        let mut work: Vec<_> =
            passes.iter().zip(&lent).zip(&mut outs).map(|((pass, lent), out)| (lent.input(pass), out.as_mut_slice())).collect();
        kernels::attention(&self.team, &mut work);
        let shaped = |(pass, out): (&AttentionInput<'_>, Vec<f32>)| {
            let (rows, heads, head_dim) = pass.q.dims3()?;
            Ok(Tensor::from_vec(out, (rows, heads * head_dim), &Device::Cpu)?)
        };
        passes.iter().zip(outs).map(shaped).collect()
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

/// The slices of one pass, lent by its tensors.
struct Lent<G> {
    q: HostSlice<G>,
    k: HostSlice<G>,
    v: HostSlice<G>,
    cache_k: HostSlice<G>,
    cache_v: HostSlice<G>,
    capacity: usize,
    /// Q, H, G, D
    sizes: (usize, usize, usize, usize),
}

impl Lent<()> {
    /// `empty` stands for the cache where there is none.
    fn of<'a>(pass: &'a AttentionInput<'_>, empty: &'a Tensor) -> Result<Lent<impl Deref<Target = Storage> + 'a>> {
        let (rows, heads, head_dim) = pass.q.dims3()?;
        let (cache_k, cache_v) = pass.cache.unwrap_or((empty, empty));
        let capacity = if pass.cache.is_some() { cache_k.dim(1)? } else { 0 };
        let sizes = (rows, heads, pass.k.dim(1)?, head_dim);
        Ok(Lent {
            q: host(&pass.q)?,
            k: host(pass.k)?,
            v: host(pass.v)?,
            cache_k: host(cache_k)?,
            cache_v: host(cache_v)?,
            capacity,
            sizes,
        })
    }
}

impl<G: Deref<Target = Storage>> Lent<G> {
    fn input<'a>(&'a self, pass: &'a AttentionInput<'_>) -> AttentionPass<'a> {
        let (rows, heads, kv_heads, head_dim) = self.sizes;
        AttentionPass {
            q: &self.q,
            cache_k: &self.cache_k,
            cache_v: &self.cache_v,
            capacity: self.capacity,
            cached: pass.cached,
            k: &self.k,
            v: &self.v,
            rows,
            heads,
            kv_heads,
            head_dim,
            scale: 1.0 / (head_dim as f32).sqrt(),
            sight: pass.sight,
        }
    }
}
