//! Tiles in plain loops, and real ones where there are some, against what vectors compute.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::linear::place::Outputs;
use crate::linear::{PackedLinear, WeightType};
use crate::{Isa, Team, linear_reference};

fn noise(seed: u32, len: usize) -> Vec<f32> {
    (0..len as u32)
        .map(|i| {
            ((i.wrapping_mul(2_654_435_761) ^ seed.wrapping_mul(0x9E37_79B9)).wrapping_mul(0x85EB_CA6B) >> 8) as f32 / 8_388_608.0 - 1.0
        })
        .collect()
}

fn packed(kind: WeightType, n: usize, k: usize) -> PackedLinear {
    let mut packed = PackedLinear::zeros(kind, n, k);
    packed.fill(&Team::alone(), 0, &noise(1, n * k));
    packed
}

fn over_tiles(team: &Team, w: &PackedLinear, x: &[f32], rows: usize, bias: Option<&[f32]>) -> Vec<f32> {
    let mut out = vec![f32::NAN; rows * w.n()];
    if !out.is_empty() {
        match w.kind() {
            WeightType::Bf16Pairs => pairs::product(w, team, x, rows, Outputs::new(0..w.n(), bias, &mut out)),
            WeightType::Int8 => bytes::product::<false>(w, team, x, rows, Outputs::new(0..w.n(), bias, &mut out)),
            _ => bytes::product::<true>(w, team, x, rows, Outputs::new(0..w.n(), bias, &mut out)),
        }
    }
    out
}

fn teams() -> Vec<Team> {
    let levels = Isa::available().into_iter().filter(|isa| matches!(isa, Isa::Scalar | Isa::Amx));
    levels.flat_map(|isa| [1, 2].map(|threads| Team::with_isa(threads, isa).unwrap())).collect()
}

/// Sizes at all edges: outputs, inputs (a step is 32 pairs or 64 bytes, a run 1536 pairs), rows.
const SIZES: [(usize, usize, usize); 12] = [
    (1, 1, 1),
    (16, 32, 16),
    (17, 33, 17),
    (33, 31, 5),
    (40, 64, 32),
    (48, 65, 33),
    (70, 300, 48),
    (31, 129, 40),
    (16, 1600, 20),
    (80, 3100, 3),
    (20, 250, 200),
    (5, 0, 3),
];

const BYTES: [WeightType; 3] = [WeightType::Int8, WeightType::Int4 { group: 32 }, WeightType::Int4 { group: 128 }];

#[test]
fn bytes_have_the_bits_that_vectors_have() {
    for kind in BYTES {
        for (n, k, rows) in SIZES {
            let (w, x, bias) = (packed(kind, n, k), noise(2, rows * k), noise(3, n));
            for team in teams() {
                let mut want = vec![0.0; rows * n];
                // At AMX itself few rows are given to vectors; one row at a time is the same product.
                for (x, want) in x.chunks(k.max(1)).zip(want.chunks_mut(n)) {
                    w.matmul(&team, x, 1, Some(&bias), want);
                }
                if k == 0 {
                    want.chunks_mut(n).for_each(|row| row.copy_from_slice(&bias));
                }
                let got = over_tiles(&team, &w, &x, rows, Some(&bias));
                assert_eq!(bits(&got), bits(&want), "{kind:?} {n} x {k}, {rows} rows, {:?}", team.isa());
            }
        }
    }
}

#[test]
fn pairs_are_right_and_a_row_has_the_same_bits_anywhere() {
    for (n, k, rows) in SIZES {
        let (w, x, bias) = (packed(WeightType::Bf16Pairs, n, k), noise(2, rows * k), noise(3, n));
        let (mut weight, rounded) = (vec![0.0; n * k], PackedLinear::pack(&x, rows, k));
        for (index, row) in weight.chunks_mut(k.max(1)).enumerate() {
            w.output(index, row);
        }
        let mut as_bf16 = PackedLinear::zeros(WeightType::Bf16, rounded.n(), k);
        as_bf16.fill(&Team::alone(), 0, &x);
        let mut near = vec![0.0; rows * k];
        near.chunks_mut(k.max(1)).enumerate().for_each(|(index, row)| as_bf16.output(index, row));
        let want = linear_reference(&weight, n, k, &near, rows, Some(&bias));
        for team in teams() {
            let got = over_tiles(&team, &w, &x, rows, Some(&bias));
            for (i, (got, want)) in got.iter().zip(&want).enumerate() {
                assert!((got - want).abs() <= 1e-6 * (4.0 + k as f32), "{n} x {k}, {rows} rows, at {i}: {got} instead of {want}");
            }
            for (row, got) in got.chunks(n).enumerate() {
                let alone = over_tiles(&team, &w, &x[row * k..(row + 1) * k], 1, Some(&bias));
                assert_eq!(bits(got), bits(&alone), "row {row} of {rows}, {n} x {k}");
            }
        }
    }
}

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|number| number.to_bits()).collect()
}

#[test]
fn what_is_not_finite_stays_in_its_row_and_the_smallest_numbers_are_zero() {
    let (n, k) = (20, 300);
    for kind in [WeightType::Bf16Pairs, BYTES[0], BYTES[1], BYTES[2]] {
        let w = packed(kind, n, k);
        for team in teams() {
            let mut x = noise(2, 20 * k);
            x[17 * k + 131] = f32::NAN;
            x[3 * k + 2] = f32::INFINITY;
            let out = over_tiles(&team, &w, &x, 20, None);
            for (row, out) in out.chunks(n).enumerate() {
                assert!(out.iter().all(|value| value.is_finite() != (row == 17 || row == 3)), "{kind:?}, row {row}");
            }
            let tiny: Vec<f32> = noise(2, 20 * k).iter().map(|x| x * 1e-40).collect();
            assert!(over_tiles(&team, &w, &tiny, 20, None).iter().all(|out| *out == 0.0), "{kind:?}");
        }
    }
}

/// Products that pass one part of the outputs alone.
#[test]
fn columns_are_those_of_the_whole() {
    for kind in [WeightType::Bf16Pairs, BYTES[0], BYTES[1]] {
        let (n, k, rows) = (90, 200, 37);
        let (w, x) = (packed(kind, n, k), noise(2, rows * k));
        for team in teams() {
            let whole = over_tiles(&team, &w, &x, rows, None);
            for columns in [0..90, 16..50, 80..90, 32..33] {
                let mut part = vec![f32::NAN; rows * columns.len()];
                match kind {
                    WeightType::Bf16Pairs => pairs::product(&w, &team, &x, rows, Outputs::new(columns.clone(), None, &mut part)),
                    WeightType::Int8 => bytes::product::<false>(&w, &team, &x, rows, Outputs::new(columns.clone(), None, &mut part)),
                    _ => bytes::product::<true>(&w, &team, &x, rows, Outputs::new(columns.clone(), None, &mut part)),
                }
                let want: Vec<f32> = whole.chunks(n).flat_map(|row| &row[columns.clone()]).copied().collect();
                assert_eq!(bits(&part), bits(&want), "{kind:?}, {columns:?}");
            }
        }
    }
}
