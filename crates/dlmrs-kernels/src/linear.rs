//! Products with a weight that was packed once, at load.

mod ahead;
mod float;
mod format;
mod groups;
mod integer;
mod pack;
mod place;
mod quantise;
mod rows;
mod scratch;
mod share;
mod tiles;
mod walk;

use crate::simd::{LANES, Words};
use crate::{Isa, Team};
use format::{Bf16, Bf16Pairs, Bf16Rounded, F32};
use groups::Groups;
use place::Outputs;

pub use quantise::{QuantisedRows, quantise_rows};

/// How the numbers of a weight are held, and what they are multiplied with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightType {
    /// f32.
    F32,
    /// bf16, widened in registers: the bits of an f32 product with the same weights, for half of its memory.
    Bf16,
    /// bf16 with inputs rounded to bf16, as frameworks multiply in that type; the sums are f32. Faster for many rows where the CPU
    /// has products of bf16, which take numbers below 2^-126 for zero.
    Bf16Pairs,
    /// Bytes with a bf16 scale for every 128 inputs of an output. Inputs are rounded to bytes too, with a scale for every 128 inputs
    /// of a row; sums within a group are exact.
    Int8,
    /// Half bytes with a bf16 scale for every group of inputs of an output; inputs as for [`WeightType::Int8`].
    Int4 {
        /// Inputs of a group: 32 or 128.
        group: usize,
    },
}

/// Inputs that share a scale in [`WeightType::Int8`].
pub const INT8_GROUP: usize = 128;

impl WeightType {
    /// Inputs of a group, for the types that have groups.
    pub fn group(self) -> Option<usize> {
        match self {
            Self::F32 | Self::Bf16 | Self::Bf16Pairs => None,
            Self::Int8 => Some(INT8_GROUP),
            Self::Int4 { group } => Some(group),
        }
    }

    /// The memory that a packed weight `[N, K]` takes.
    pub fn bytes(self, n: usize, k: usize) -> usize {
        n.div_ceil(LANES) * self.lines(k) * size_of::<Words>()
    }

    /// Lines of a panel.
    fn lines(self, k: usize) -> usize {
        match self {
            Self::F32 => k,
            Self::Bf16 | Self::Bf16Pairs => k.div_ceil(2),
            Self::Int8 | Self::Int4 { .. } => Groups::of(self, k).lines(),
        }
    }
}

/// A weight `[N, K]`, laid out for the kernels: panels of 16 outputs, the last one filled up with zeros.
///
/// A panel is read from its first line of 64 bytes to its last one. In f32 a line has one input of the 16 outputs, in bf16 two (the
/// lower halves the first of them). Of quantised weights a line has the scales of two groups as bf16, then come these groups' lines of
/// four inputs (a byte each) or eight (half a byte each: the lower halves have the first four).
#[derive(Clone, Debug)]
pub struct PackedLinear {
    kind: WeightType,
    n: usize,
    k: usize,
    panels: Vec<Words>,
}

impl PackedLinear {
    /// Packs `weight [N, K]` as it is, in f32.
    pub fn pack(weight: &[f32], n: usize, k: usize) -> PackedLinear {
        assert_eq!(weight.len(), n * k, "weight");
        let mut packed = PackedLinear::zeros(WeightType::F32, n, k);
        packed.fill(&Team::alone(), 0, weight);
        packed
    }

    /// A weight of zeros, for [`PackedLinear::fill`].
    pub fn zeros(kind: WeightType, n: usize, k: usize) -> PackedLinear {
        if let WeightType::Int4 { group } = kind {
            assert!(group == 32 || group == 128, "a group of {group}");
        }
        PackedLinear { kind, n, k, panels: vec![Words::ZERO; n.div_ceil(LANES) * kind.lines(k)] }
    }

    /// Packs some rows of the weight, `rows [N', K]` from the output `first` on, rounded to the type. `first` is a multiple of 16, and
    /// N' too unless these are the last ones. Each row is rounded for itself.
    pub fn fill(&mut self, team: &Team, first: usize, rows: &[f32]) {
        let count = rows.len().checked_div(self.k).unwrap_or(0);
        self.check_part(first, count);
        assert_eq!(rows.len(), count * self.k, "rows");
        pack::fill(self, team, first, rows);
    }

    /// As [`PackedLinear::fill`] with rows that are quantised already, in this weight's type.
    pub fn fill_quantised(&mut self, first: usize, rows: &QuantisedRows) {
        self.check_part(first, rows.count());
        pack::fill_quantised(self, first, rows);
    }

    fn check_part(&self, first: usize, count: usize) {
        let last = first + count == self.n;
        assert!(
            first.is_multiple_of(LANES) && first + count <= self.n && (last || count.is_multiple_of(LANES)),
            "rows {first}..{} of {}",
            first + count,
            self.n
        );
    }

    /// How the weight is held.
    pub fn kind(&self) -> WeightType {
        self.kind
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
        self.panels.len() * size_of::<Words>()
    }

    /// `out [R, N] = x [R, K] * weight^T + bias [N]`. The bias is added last.
    pub fn matmul(&self, team: &Team, x: &[f32], rows: usize, bias: Option<&[f32]>, out: &mut [f32]) {
        if let Some(bias) = bias {
            assert_eq!(bias.len(), self.n, "bias");
        }
        self.product(team, x, rows, 0..self.n, bias, out);
    }

    /// The outputs `from..to` alone: `out [R, to - from]`, the same bits as these columns of [`PackedLinear::matmul`] without a bias.
    /// `from` is a multiple of 16.
    pub fn matmul_columns(&self, team: &Team, x: &[f32], rows: usize, from: usize, to: usize, out: &mut [f32]) {
        assert!(from.is_multiple_of(LANES) && from <= to && to <= self.n, "columns {from}..{to} of {}", self.n);
        self.product(team, x, rows, from..to, None, out);
    }

    fn product(&self, team: &Team, x: &[f32], rows: usize, columns: std::ops::Range<usize>, bias: Option<&[f32]>, out: &mut [f32]) {
        assert_eq!(x.len(), rows * self.k, "x");
        assert_eq!(out.len(), rows * columns.len(), "out");
        if out.is_empty() {
            return;
        }
        let to = Outputs::new(columns, bias, out);
        let tiles = team.isa() == Isa::Amx;
        match self.kind {
            WeightType::F32 => float::product::<F32>(self, team, x, rows, to),
            WeightType::Bf16 => float::product::<Bf16>(self, team, x, rows, to),
            WeightType::Bf16Pairs if tiles => tiles::pairs::product(self, team, x, rows, to),
            WeightType::Bf16Pairs if team.isa() >= Isa::Avx512Bf16 => float::product::<Bf16Pairs>(self, team, x, rows, to),
            WeightType::Bf16Pairs => float::product::<Bf16Rounded>(self, team, x, rows, to),
            WeightType::Int8 if tiles && rows > tiles::FEW_ROWS => tiles::bytes::product::<false>(self, team, x, rows, to),
            WeightType::Int8 => integer::product::<false>(self, team, x, rows, to),
            WeightType::Int4 { .. } if tiles && rows > tiles::FEW_ROWS => tiles::bytes::product::<true>(self, team, x, rows, to),
            WeightType::Int4 { .. } => integer::product::<true>(self, team, x, rows, to),
        }
    }

    /// Copies the weights `[K]` of one output, as they are held.
    pub fn output(&self, index: usize, weights: &mut [f32]) {
        assert!(index < self.n, "output {index} of {}", self.n);
        assert_eq!(weights.len(), self.k, "weights");
        pack::output(self, index, weights);
    }

    fn panel(&self, index: usize) -> &[Words] {
        let lines = self.kind.lines(self.k);
        &self.panels[index * lines..][..lines]
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
