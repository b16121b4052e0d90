//! Matrix products: right, and the same for a row wherever it stands.
#![allow(clippy::unwrap_used)]

mod common;

use common::{PLACES, among, assert_close, assert_same, noise, teams};
use dlmrs_kernels::{Isa, PackedLinear, Team, linear_reference};
use proptest::prelude::*;

fn matmul(team: &Team, w: &PackedLinear, x: &[f32], rows: usize, bias: Option<&[f32]>) -> Vec<f32> {
    // NaN shows what is not written.
    let mut out = vec![f32::NAN; rows * w.n()];
    w.matmul(team, x, rows, bias, &mut out);
    out
}

#[track_caller]
fn check(n: usize, k: usize, rows: usize, with_bias: bool) {
    let (weight, x, bias) = (noise(1, n * k), noise(2, rows * k), noise(3, n));
    let bias = with_bias.then_some(bias.as_slice());
    let w = PackedLinear::pack(&weight, n, k);
    let want = linear_reference(&weight, n, k, &x, rows, bias);
    for team in teams() {
        assert_close(&matmul(&team, &w, &x, rows, bias), &want, 1e-6 * (4.0 + k as f32));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn equals_the_reference(n in 1usize..150, k in 1usize..450, rows in 0usize..70, bias: bool) {
        check(n, k, rows, bias);
    }

    #[test]
    fn columns_are_those_of_the_whole(n in 1usize..200, k in 1usize..60, rows in 0usize..20, cut in (0usize..13, 0usize..200)) {
        let (from, to) = ((cut.0 * 16).min(n / 16 * 16), cut.1.min(n));
        let (from, to) = if from <= to { (from, to) } else { (0, to) };
        let w = PackedLinear::pack(&noise(1, n * k), n, k);
        let x = noise(2, rows * k);
        for team in teams() {
            let whole = matmul(&team, &w, &x, rows, None);
            let mut part = vec![f32::NAN; rows * (to - from)];
            w.matmul_columns(&team, &x, rows, from, to, &mut part);
            let want: Vec<f32> = whole.chunks_exact(n).flat_map(|row| &row[from..to]).copied().collect();
            assert_same(&part, &want);
        }
    }
}

#[test]
fn sizes_at_the_edges() {
    for (n, k, rows) in [
        (1, 1, 1),
        (1, 7, 65),
        (16, 16, 1),
        (17, 191, 8),
        (64, 192, 9),
        (65, 193, 2),
        (33, 385, 65),
        (40, 1, 5),
        (130, 700, 300),
        (33, 768, 65),
        (17, 769, 9),
        (40, 1600, 200),
    ] {
        check(n, k, rows, false);
        check(n, k, rows, true);
    }
}

#[test]
fn nothing_at_all() {
    check(5, 3, 0, true);
    let w = PackedLinear::pack(&[], 0, 4);
    for team in teams() {
        assert!(matmul(&team, &w, &noise(1, 12), 3, None).is_empty());
        // No inputs: the outputs are the bias, or zeros.
        let w = PackedLinear::pack(&[], 3, 0);
        assert_same(&matmul(&team, &w, &[], 2, None), &[0.0; 6]);
        assert_same(&matmul(&team, &w, &[], 2, Some(&[1.0, 2.0, 3.0])), &[1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
    }
}

/// Both orders of the loops over memory are met: with K = 3000 the larger blocks do not fit the cache.
#[test]
fn a_row_has_the_same_bits_everywhere() {
    for (n, k) in [(1, 5), (37, 203), (150, 3000)] {
        let (w, row, bias) = (PackedLinear::pack(&noise(1, n * k), n, k), noise(2, k), noise(3, n));
        for isa in Isa::available() {
            let alone = matmul(&Team::with_isa(1, isa).unwrap(), &w, &row, 1, Some(&bias));
            for threads in [1, 2, 3] {
                let team = Team::with_isa(threads, isa).unwrap();
                for (rows, at) in PLACES {
                    let out = matmul(&team, &w, &among(&row, rows, at, 7), rows, Some(&bias));
                    assert_same(&out[at * n..][..n], &alone);
                }
            }
        }
    }
}

#[test]
fn the_sum_goes_from_first_to_last() {
    let (k, isa) = (777, Isa::Scalar);
    let (weight, x) = (noise(1, k), noise(2, k));
    let out = matmul(&Team::with_isa(1, isa).unwrap(), &PackedLinear::pack(&weight, 1, k), &x, 1, None);
    if cfg!(all(target_arch = "x86_64", not(target_feature = "fma"))) {
        assert_same(&out, &[weight.iter().zip(&x).fold(0.0, |sum, (w, x)| x * w + sum)]);
    }
    let fused = weight.iter().zip(&x).fold(0.0f32, |sum, (w, x)| x.mul_add(*w, sum));
    for isa in Isa::available().into_iter().filter(|isa| *isa != Isa::Scalar) {
        let out = matmul(&Team::with_isa(1, isa).unwrap(), &PackedLinear::pack(&weight, 1, k), &x, 1, None);
        assert_same(&out, &[fused]);
    }
}

#[test]
fn the_packed_size_is_known() {
    let w = PackedLinear::pack(&noise(1, 17 * 5), 17, 5);
    assert_eq!((w.n(), w.k(), w.bytes()), (17, 5, 2 * 5 * 64));
}

#[test]
#[should_panic(expected = "x")]
fn a_wrong_shape_is_named() {
    PackedLinear::pack(&[1.0; 6], 2, 3).matmul(&Team::new(Some(1)).unwrap(), &[1.0; 5], 2, None, &mut [0.0; 4]);
}
