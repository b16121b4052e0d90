//! The attention of chosen rows to chosen keys, computed beside the forward in obvious loops. A pass without a tap costs a test a layer.

use candle_core::{DType, Tensor};

use super::Part;
use super::layer::Layer;
use crate::arithmetic::{Arithmetic, Rotation};
use crate::error::Result;
use crate::pass::Tap;

/// What one pass asked for, and what was seen so far.
pub(crate) struct Tapping {
    tap: Option<Tap>,
    /// The keys that each query sees.
    visible: Vec<Vec<u32>>,
    /// `[queries, keys]`, sum over layers of the mean over heads.
    sum: Vec<Vec<f64>>,
}

impl Tapping {
    pub(crate) fn new(part: &Part<'_>) -> Self {
        let tap = part.pass.tap.clone();
        let queries = tap.as_ref().map_or(&[][..], |tap| &tap.queries);
        let visible = queries.iter().map(|&row| part.sight.classes[part.sight.class_of_row[row as usize] as usize].clone()).collect();
        let sum = queries.iter().map(|_| vec![0.0; tap.as_ref().map_or(0, |tap| tap.keys.len())]).collect();
        Self { tap, visible, sum }
    }

    /// Adds one layer: x [R, C] are its inputs for all rows of the forward, before what the pass keeps is stored.
    pub(crate) fn look(
        &mut self,
        arithmetic: &dyn Arithmetic,
        index: usize,
        layer: &Layer,
        x: &Tensor,
        rotation: &Rotation,
        part: &Part<'_>,
    ) -> Result<()> {
        let Some(tap) = &self.tap else { return Ok(()) };
        let (q, k) = layer.queries_and_keys(arithmetic, x, rotation)?; // [R_all, H, D], [R_all, G, D]
        let rows = part.pass.rows();
        let host = |t: &Tensor| -> Result<Vec<Vec<Vec<f32>>>> { Ok(t.to_dtype(DType::F32)?.to_vec3()?) };
        let (q, k) = (host(&q.narrow(0, part.from, rows)?)?, host(&k.narrow(0, part.from, rows)?)?);
        let base = part.pass.base;
        let cached = match part.cache.layer(index) {
            Some((keys, _)) if base > 0 => host(&keys.narrow(1, 0, base)?)?, // [G, T, D]
            _ => Vec::new(),
        };
        let group = layer.heads / layer.kv_heads;
        let scale = 1.0 / (layer.head_dim as f64).sqrt();
        for ((&row, visible), sum) in tap.queries.iter().zip(&self.visible).zip(&mut self.sum) {
            for (head, q) in q[row as usize].iter().enumerate() {
                let key = |key: u32| match (key as usize).checked_sub(base) {
                    None => &cached[head / group][key as usize],
                    Some(row) => &k[row][head / group],
                };
                let score = |i: u32| scale * q.iter().zip(key(i)).map(|(q, k)| f64::from(*q) * f64::from(*k)).sum::<f64>();
                let scores: Vec<f64> = visible.iter().map(|&i| score(i)).collect();
                let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let total: f64 = scores.iter().map(|s| (s - most).exp()).sum();
                let mut share = vec![0.0; base + rows];
                visible.iter().zip(&scores).for_each(|(&i, s)| share[i as usize] = (s - most).exp() / total);
                tap.keys.iter().zip(sum.iter_mut()).for_each(|(&i, sum)| *sum += share[i as usize] / layer.heads as f64);
            }
        }
        Ok(())
    }

    /// `[queries, keys]`, mean over so many layers.
    pub(crate) fn finish(self, layers: usize) -> Vec<Vec<f32>> {
        self.sum.into_iter().map(|row| row.into_iter().map(|sum| (sum / layers as f64) as f32).collect()).collect()
    }
}
