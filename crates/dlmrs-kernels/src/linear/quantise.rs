//! Weights rounded to bytes and half bytes, by group of inputs.

use super::WeightType;
use super::format::{from_bf16, to_bf16, to_bf16_up};
use super::groups::Groups;
use crate::Isa;
use crate::simd::{Kernel, LANES, Simd, launch};

/// Some outputs of a quantised weight: `value * scale` is the weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuantisedRows {
    /// [`WeightType::Int8`] or [`WeightType::Int4`].
    pub kind: WeightType,
    /// K, the inputs.
    pub k: usize,
    /// `[N, K]`: -127 to 127 in bytes, -8 to 7 in half bytes.
    pub values: Vec<i8>,
    /// `[N, groups]`: bf16 by their bits.
    pub scales: Vec<u16>,
}

impl QuantisedRows {
    /// N, the outputs.
    pub fn count(&self) -> usize {
        self.values.len().checked_div(self.k).unwrap_or(0)
    }

    /// The weights `[N, K]` that they stand for.
    pub fn weights(&self) -> Vec<f32> {
        let groups = Groups::of(self.kind, self.k);
        let mut weights = Vec::with_capacity(self.values.len());
        for (row, scales) in self.values.chunks(self.k.max(1)).zip(self.scales.chunks(groups.count().max(1))) {
            for (g, scale) in scales.iter().enumerate() {
                weights.extend(row[groups.inputs(g)].iter().map(|value| f32::from(*value) * from_bf16(*scale)));
            }
        }
        weights
    }
}

/// Rounds `rows [N, K]` of a weight to a quantised type. A group's numbers depend on that group alone, and are the same at every level.
///
/// Bytes: the scale is the largest number over 127, rounded up to bf16, so that nothing is cut off. Half bytes: of some scales around
/// that which maps the largest number to -8, and the best scale for the values that each gives, the one with the least squared error.
pub fn quantise_rows(kind: WeightType, rows: &[f32], k: usize) -> QuantisedRows {
    let groups = Groups::of(kind, k);
    let count = rows.len().checked_div(k).unwrap_or(0);
    let mut values = vec![0; rows.len()];
    let mut scales = vec![0; count * groups.count()];
    let half = matches!(kind, WeightType::Int4 { .. });
    if k > 0 {
        let to = (values.as_mut_slice(), scales.as_mut_slice());
        launch(Isa::best(), RoundRows { rows, k, groups, half, to });
    }
    QuantisedRows { kind, k, values, scales }
}

struct RoundRows<'a> {
    rows: &'a [f32],
    k: usize,
    groups: Groups,
    half: bool,
    to: (&'a mut [i8], &'a mut [u16]),
}

impl Kernel for RoundRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _s: S) {
        let (values, scales) = self.to;
        let of_rows = values.chunks_exact_mut(self.k).zip(scales.chunks_exact_mut(self.groups.count()));
        for (row, (values, scales)) in self.rows.chunks_exact(self.k).zip(of_rows) {
            for (g, scale) in scales.iter_mut().enumerate() {
                let inputs = self.groups.inputs(g);
                let (numbers, values) = (&row[inputs.clone()], &mut values[inputs]);
                *scale = if self.half { round_half(numbers, values) } else { round_whole(numbers, values) };
            }
        }
    }
}

/// Bytes.
#[inline(always)]
fn round_whole(numbers: &[f32], values: &mut [i8]) -> u16 {
    let largest = numbers.iter().fold(0f32, |largest, number| largest.max(number.abs()));
    let scale = to_bf16_up(largest / 127.0);
    put(numbers, from_bf16(scale), (-127.0, 127.0), values);
    scale
}

/// Half bytes.
#[inline(always)]
fn round_half(numbers: &[f32], values: &mut [i8]) -> u16 {
    let extreme = numbers.iter().fold(0f32, |extreme, number| if number.abs() > extreme.abs() { *number } else { extreme });
    let (mut best, mut best_gain) = (extreme / -8.0, f32::NEG_INFINITY);
    for steps in [-8.0f32, -7.0, -7.5, -8.5, -9.0] {
        let (products, squares) = fit(numbers, steps / extreme);
        // The squared error is that of the zero weight less this.
        let gain = products * products / squares;
        if gain > best_gain {
            (best, best_gain) = (products / squares, gain);
        }
    }
    let scale = to_bf16(best);
    put(numbers, from_bf16(scale), (-8.0, 7.0), values);
    scale
}

/// The sums of number by value and of squared values, if numbers are divided so and rounded to half bytes.
#[inline(always)]
fn fit(numbers: &[f32], inverse: f32) -> (f32, f32) {
    let (mut products, mut squares) = ([0f32; LANES], [0f32; LANES]);
    for chunk in numbers.chunks(LANES) {
        for (lane, number) in chunk.iter().enumerate() {
            let value = (number * inverse).round_ties_even().clamp(-8.0, 7.0);
            products[lane] += number * value;
            squares[lane] += value * value;
        }
    }
    (products.iter().sum(), squares.iter().sum())
}

#[inline(always)]
fn put(numbers: &[f32], scale: f32, (low, high): (f32, f32), values: &mut [i8]) {
    // A group that is zero, or too small for a scale, is zero.
    let inverse = if scale == 0.0 || !(1.0 / scale).is_finite() { 0.0 } else { 1.0 / scale };
    for (value, number) in values.iter_mut().zip(numbers) {
        *value = (number * inverse).round_ties_even().clamp(low, high) as i8;
    }
}
