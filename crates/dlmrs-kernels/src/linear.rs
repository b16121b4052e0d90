//! Products with a weight that was packed once, at load.

mod product;
mod tile;

use crate::Team;
use crate::simd::{LANES, Line};

/// A weight `[N, K]`, laid out for the kernels: panels of 16 outputs, each `[K, 16]`, the last one filled up with zeros.
#[derive(Clone, Debug)]
pub struct PackedLinear {
    n: usize,
    k: usize,
    panels: Vec<Line>,
}

impl PackedLinear {
    /// Packs `weight [N, K]`.
    pub fn pack(weight: &[f32], n: usize, k: usize) -> PackedLinear {
        assert_eq!(weight.len(), n * k, "weight");
        let mut panels = vec![Line::ZERO; n.div_ceil(LANES) * k];
        if k > 0 {
            for (panel, outputs) in panels.chunks_exact_mut(k).zip(weight.chunks(LANES * k)) {
                for (lane, row) in outputs.chunks_exact(k).enumerate() {
                    for (line, value) in panel.iter_mut().zip(row) {
                        line.0[lane] = *value;
                    }
                }
            }
        }
        PackedLinear { n, k, panels }
    }

    /// N, the outputs.
    pub fn n(&self) -> usize {
        self.n
    }

    /// K, the inputs.
    pub fn k(&self) -> usize {
        self.k
    }

    /// The memory that the panels take.
    pub fn bytes(&self) -> usize {
        self.panels.len() * size_of::<Line>()
    }

    /// `out [R, N] = x [R, K] * weight^T + bias [N]`. The bias is added last.
    pub fn matmul(&self, team: &Team, x: &[f32], rows: usize, bias: Option<&[f32]>, out: &mut [f32]) {
        if let Some(bias) = bias {
            assert_eq!(bias.len(), self.n, "bias");
        }
        product::product(self, team, x, rows, 0..self.n, bias, out);
    }

    /// The outputs `from..to` alone: `out [R, to - from]`, the same bits as these columns of [`PackedLinear::matmul`] without a bias.
    /// `from` is a multiple of 16.
    pub fn matmul_columns(&self, team: &Team, x: &[f32], rows: usize, from: usize, to: usize, out: &mut [f32]) {
        assert!(from.is_multiple_of(LANES) && from <= to && to <= self.n, "columns {from}..{to} of {}", self.n);
        product::product(self, team, x, rows, from..to, None, out);
    }

    /// Copies the weights `[K]` of one output.
    pub fn output(&self, index: usize, weights: &mut [f32]) {
        assert!(index < self.n, "output {index} of {}", self.n);
        assert_eq!(weights.len(), self.k, "weights");
        for (weight, line) in weights.iter_mut().zip(self.panel(index / LANES)) {
            *weight = line.0[index % LANES];
        }
    }

    fn panel(&self, index: usize) -> &[Line] {
        &self.panels[index * self.k..][..self.k]
    }
}

/// What [`PackedLinear::matmul`] computes, in obvious loops and in f64: `weight [N, K]`, `x [R, K]`, `bias [N]` to `[R, N]`.
pub fn linear_reference(weight: &[f32], n: usize, k: usize, x: &[f32], rows: usize, bias: Option<&[f32]>) -> Vec<f32> {
    let mut out = Vec::with_capacity(rows * n);
    for r in 0..rows {
        for j in 0..n {
            let mut sum = 0.0;
            for i in 0..k {
                sum += f64::from(x[r * k + i]) * f64::from(weight[j * k + i]);
            }
            out.push((sum + bias.map_or(0.0, |bias| f64::from(bias[j]))) as f32);
        }
    }
    out
}
