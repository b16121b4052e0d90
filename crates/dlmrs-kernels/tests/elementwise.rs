//! Row-wise operations: right, and the same for an element wherever it stands.
#![allow(clippy::unwrap_used)]

mod common;

use common::{PLACES, among, assert_close, assert_same, noise, teams};
use dlmrs_kernels::{Isa, Team, add_assign, rms_norm, rotate, silu_mul};
use proptest::prelude::*;

fn norm(team: &Team, x: &[f32], weight: &[f32]) -> Vec<f32> {
    let mut out = vec![f32::NAN; x.len()];
    rms_norm(team, x, weight, 1e-6, &mut out);
    out
}

fn silu(team: &Team, gate: &[f32], up: &[f32]) -> Vec<f32> {
    let mut out = gate.to_vec();
    silu_mul(team, &mut out, up);
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn rms_norm_equals_the_formula(columns in 1usize..200, rows in 0usize..40) {
        let (x, weight) = (noise(1, rows * columns), noise(2, columns));
        let mut want = Vec::new();
        for row in x.chunks_exact(columns) {
            let mean = row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / columns as f64;
            want.extend(row.iter().zip(&weight).map(|(x, w)| (f64::from(*x) / (mean + 1e-6).sqrt() * f64::from(*w)) as f32));
        }
        for team in teams() {
            assert_close(&norm(&team, &x, &weight), &want, 1e-5);
        }
    }

    #[test]
    fn silu_mul_equals_the_formula(len in 0usize..200) {
        let (gate, up): (Vec<f32>, _) = (noise(1, len).iter().map(|g| 20.0 * g).collect(), noise(2, len));
        let formula = |(g, u): (&f32, &f32)| (f64::from(*g) / (1.0 + (-f64::from(*g)).exp()) * f64::from(*u)) as f32;
        let want: Vec<f32> = gate.iter().zip(&up).map(formula).collect();
        for team in teams() {
            assert_close(&silu(&team, &gate, &up), &want, 4e-6);
        }
    }

    #[test]
    fn rotate_equals_the_formula(rows in 0usize..20, heads in 1usize..4, half in 0usize..40, rest in 0usize..20) {
        let d = 2 * half + rest;
        let (x, cos, sin) = (noise(1, rows * heads * d), noise(2, rows * half), noise(3, rows * half));
        let mut want = x.clone();
        for (r, h, i) in (0..rows).flat_map(|r| (0..heads).flat_map(move |h| (0..half).map(move |i| (r, h, i)))) {
            let (a, b) = ((r * heads + h) * d + i, (r * heads + h) * d + i + half);
            let (c, s) = (cos[r * half + i], sin[r * half + i]);
            (want[a], want[b]) = (x[a] * c - x[b] * s, x[b] * c + x[a] * s);
        }
        for team in teams() {
            let mut out = x.clone();
            rotate(&team, &mut out, heads, d, 2 * half, &cos, &sin);
            assert_same(&out, &want);
        }
    }
}

#[test]
fn a_row_has_the_same_bits_everywhere() {
    for columns in [1, 16, 203, 1000] {
        let (row, weight) = (noise(1, columns), noise(2, columns));
        for isa in Isa::available() {
            let one = Team::with_isa(1, isa).unwrap();
            let (normed, gated) = (norm(&one, &row, &weight), silu(&one, &row, &weight));
            for threads in [1, 2] {
                let team = Team::with_isa(threads, isa).unwrap();
                for (rows, at) in PLACES {
                    let x = among(&row, rows, at, 3);
                    assert_same(&norm(&team, &x, &weight)[at * columns..][..columns], &normed);
                    assert_same(&silu(&team, &x, &among(&weight, rows, at, 4))[at * columns..][..columns], &gated);
                }
            }
        }
    }
}

#[test]
fn silu_has_its_limits() {
    let gate = [f32::MAX, 100.0, 0.0, -0.0, -100.0, -1e30, f32::NAN];
    for team in teams() {
        let out = silu(&team, &gate, &[1.0; 7]);
        assert_same(&out[..3], &[f32::MAX, 100.0, 0.0]);
        assert!(out[4].abs() < 1e-30 && out[5].abs() < 1e-30 && out[6].is_nan(), "{out:?}");
    }
}

#[test]
fn sums_are_sums() {
    for team in teams() {
        for len in [0, 1, 15, 33, 40_000] {
            let (mut x, y) = (noise(1, len), noise(2, len));
            let want: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x + y).collect();
            add_assign(&team, &mut x, &y);
            assert_same(&x, &want);
        }
    }
}
