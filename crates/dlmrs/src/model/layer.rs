//! One decoder layer for every family: RMSNorm, attention with rotary positions, RMSNorm, feed-forward, two residuals.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use candle_core::Tensor;

use super::Part;
use super::mixture::{Expert, Mixture};
use crate::arithmetic::{Arithmetic, AttentionInput, Product, Rotation};
use crate::error::Result;

pub(crate) struct Layer {
    pub(crate) input_norm: Tensor,  // [C]
    pub(crate) q: Arc<dyn Product>, // [H * D, C]
    pub(crate) k: Arc<dyn Product>, // [G * D, C]
    pub(crate) v: Arc<dyn Product>, // [G * D, C]
    pub(crate) o: Arc<dyn Product>, // [C, H * D]
    /// Norms by head of queries and keys, [D] each (the Qwen3 bodies).
    pub(crate) head_norms: Option<(Tensor, Tensor)>,
    pub(crate) post_norm: Tensor, // [C]
    pub(crate) feed_forward: FeedForward,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) eps: f64,
}

/// What stands between the second norm and the second residual.
pub(crate) enum FeedForward {
    /// down(silu(gate(x)) * up(x))
    Dense(Expert),
    /// A few of many such, chosen for each row.
    Mixture(Mixture),
}

impl FeedForward {
    /// x [R, C] -> [R, C]
    fn forward(&self, arithmetic: &dyn Arithmetic, x: &Tensor) -> Result<Tensor> {
        match self {
            Self::Dense(expert) => expert.forward(arithmetic, x),
            Self::Mixture(mixture) => mixture.forward(arithmetic, x),
        }
    }

    /// How often an expert's weights have been read so far.
    pub(crate) fn expert_reads(&self) -> u64 {
        match self {
            Self::Dense(_) => 0,
            Self::Mixture(mixture) => mixture.reads.load(Ordering::Relaxed),
        }
    }
}

impl Layer {
    /// x [R, C] -> [R, C], and the keys and values that are kept go into the caches.
    ///
    /// In the last layer `narrowed` holds the rows that are read and their rotation: then only those rows get queries, attention and
    /// feed-forward, and the result has only them. With no row to read the result is empty.
    pub(crate) fn forward(
        &self,
        arithmetic: &dyn Arithmetic,
        index: usize,
        x: Tensor,
        rotation: &Rotation,
        narrowed: Option<(&[u32], &Rotation)>,
        parts: &[Part<'_>],
    ) -> Result<Tensor> {
        let h = arithmetic.rms_norm(&x, &self.input_norm, self.eps)?; // [R, C]
        let k = self.heads_of(arithmetic, &self.k, &h, self.kv_heads, self.head_norms.as_ref().map(|n| &n.1))?; // [R, G, D]
        let k = arithmetic.rotate(k, rotation)?;
        let v = self.heads_of(arithmetic, &self.v, &h, self.kv_heads, None)?; // [R, G, D]
        let (x, h, rotation, reads) = match narrowed {
            None => (x, h, rotation, false),
            Some(([], _)) => {
                parts.iter().try_for_each(|part| part.store(index, &k, &v))?;
                return Ok(x.narrow(0, 0, 0)?);
            }
            Some((rows, rotation)) => (arithmetic.select(&x, rows)?, arithmetic.select(&h, rows)?, rotation, true),
        };
        let q = self.heads_of(arithmetic, &self.q, &h, self.heads, self.head_norms.as_ref().map(|n| &n.0))?; // [Q, H, D]
        let q = arithmetic.rotate(q, rotation)?;
        let seen = self.attend(arithmetic, index, &q, &k, &v, reads, parts)?; // [Q, H * D]
        parts.iter().try_for_each(|part| part.store(index, &k, &v))?;
        let x = arithmetic.add(x, &self.o.forward(&seen)?)?;
        let h = arithmetic.rms_norm(&x, &self.post_norm, self.eps)?;
        arithmetic.add(x, &self.feed_forward.forward(arithmetic, &h)?)
    }

    /// Rotated queries [R, H, D] and keys [R, G, D] of inputs x [R, C], for the tap; [`Self::forward`] computes them its own way.
    pub(crate) fn queries_and_keys(&self, arithmetic: &dyn Arithmetic, x: &Tensor, rotation: &Rotation) -> Result<(Tensor, Tensor)> {
        let h = arithmetic.rms_norm(x, &self.input_norm, self.eps)?; // [R, C]
        let norms = self.head_norms.as_ref();
        let q = self.heads_of(arithmetic, &self.q, &h, self.heads, norms.map(|n| &n.0))?;
        let k = self.heads_of(arithmetic, &self.k, &h, self.kv_heads, norms.map(|n| &n.1))?;
        Ok((arithmetic.rotate(q, rotation)?, arithmetic.rotate(k, rotation)?))
    }

    /// h [R, C] -> [R, heads, D], each head normed if there is a norm.
    fn heads_of(
        &self,
        arithmetic: &dyn Arithmetic,
        product: &Arc<dyn Product>,
        h: &Tensor,
        heads: usize,
        norm: Option<&Tensor>,
    ) -> Result<Tensor> {
        let rows = h.dim(0)?;
        let x = product.forward(h)?; // [R, heads * D]
        let x = match norm {
            Some(norm) => arithmetic.rms_norm(&x.reshape((rows * heads, self.head_dim))?, norm, self.eps)?,
            None => x,
        };
        Ok(x.reshape((rows, heads, self.head_dim))?)
    }

    /// Attention of every pass over its own cache and rows: q [Q, H, D], k and v [R, G, D] of all passes -> [Q, H * D].
    #[allow(clippy::too_many_arguments)]
    fn attend(
        &self,
        arithmetic: &dyn Arithmetic,
        index: usize,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        reads: bool,
        parts: &[Part<'_>],
    ) -> Result<Tensor> {
        let mut from = 0; // first query row of the pass
        let mut own = Vec::with_capacity(parts.len());
        for part in parts {
            let queries = if reads { part.pass.read.len() } else { part.pass.rows() };
            let rows = part.pass.rows();
            own.push((q.narrow(0, from, queries)?, k.narrow(0, part.from, rows)?, v.narrow(0, part.from, rows)?));
            from += queries;
        }
        let inputs: Vec<_> = parts
            .iter()
            .zip(&own)
            .filter(|(_, (q, ..))| q.elem_count() > 0)
            .map(|(part, (q, k, v))| AttentionInput {
                q: q.clone(),
                k,
                v,
                cache: if part.pass.base > 0 { part.cache.layer(index) } else { None },
                cached: part.pass.base,
                sight: &part.sight,
            })
            .collect();
        let mut outputs = arithmetic.attention(&inputs)?;
        match outputs.len() {
            1 => Ok(outputs.remove(0)),
            _ => Ok(Tensor::cat(&outputs, 0)?),
        }
    }
}
