//! Products with weights of every type: right, the same at every level that can promise it, and the same for a row wherever it stands.
#![allow(clippy::unwrap_used)]

mod common;

use common::{PLACES, among, assert_close, assert_same, noise, teams};
use dlmrs_kernels::{Isa, PackedLinear, Team, WeightType, linear_reference, quantise_rows};
use proptest::prelude::*;

const INT4: WeightType = WeightType::Int4 { group: 32 };
const INT4_WIDE: WeightType = WeightType::Int4 { group: 128 };
const QUANTISED: [WeightType; 3] = [WeightType::Int8, INT4, INT4_WIDE];
const ALL: [WeightType; 6] = [WeightType::F32, WeightType::Bf16, WeightType::Bf16Pairs, WeightType::Int8, INT4, INT4_WIDE];

fn packed(kind: WeightType, weight: &[f32], n: usize, k: usize) -> PackedLinear {
    let mut packed = PackedLinear::zeros(kind, n, k);
    packed.fill(&Team::alone(), 0, weight);
    packed
}

fn matmul(team: &Team, w: &PackedLinear, x: &[f32], rows: usize, bias: Option<&[f32]>) -> Vec<f32> {
    // NaN shows what is not written.
    let mut out = vec![f32::NAN; rows * w.n()];
    w.matmul(team, x, rows, bias, &mut out);
    out
}

fn to_bf16(value: f32) -> f32 {
    let bits = value.to_bits();
    f32::from_bits(bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) & 0xffff_0000)
}

/// x with each group of each row rounded to 255 levels, in obvious loops.
fn rounded_inputs(x: &[f32], k: usize, group: usize) -> Vec<f32> {
    let mut out = Vec::with_capacity(x.len());
    for row in x.chunks(k.max(1)) {
        for group in row.chunks(group) {
            let scale = group.iter().fold(0f32, |largest, value| largest.max(value.abs())) / 127.0;
            out.extend(group.iter().map(|value| if scale == 0.0 { 0.0 } else { (value * (1.0 / scale)).round_ties_even() * scale }));
        }
    }
    out
}

/// What a product of this type computes, in f64.
fn reference(kind: WeightType, weight: &[f32], n: usize, k: usize, x: &[f32], rows: usize, bias: Option<&[f32]>) -> Vec<f32> {
    let all = |values: &[f32]| values.iter().copied().map(to_bf16).collect::<Vec<_>>();
    match kind {
        WeightType::F32 => linear_reference(weight, n, k, x, rows, bias),
        WeightType::Bf16 => linear_reference(&all(weight), n, k, x, rows, bias),
        WeightType::Bf16Pairs => linear_reference(&all(weight), n, k, &all(x), rows, bias),
        _ => {
            let x = rounded_inputs(x, k, kind.group().unwrap());
            linear_reference(&quantise_rows(kind, weight, k).weights(), n, k, &x, rows, bias)
        }
    }
}

#[track_caller]
fn check(kind: WeightType, n: usize, k: usize, rows: usize, with_bias: bool) {
    let (weight, x, bias) = (noise(1, n * k), noise(2, rows * k), noise(3, n));
    let bias = with_bias.then_some(bias.as_slice());
    let w = packed(kind, &weight, n, k);
    let want = reference(kind, &weight, n, k, &x, rows, bias);
    for team in teams() {
        assert_close(&matmul(&team, &w, &x, rows, bias), &want, 1e-6 * (4.0 + k as f32));
    }
}

fn kinds() -> impl Strategy<Value = WeightType> {
    (0..ALL.len()).prop_map(|i| ALL[i])
}

proptest! {
    // About as many of each type as one type alone should have.
    #![proptest_config(ProptestConfig::with_cases(384))]

    #[test]
    fn equals_the_reference(kind in kinds(), n in 1usize..150, k in 1usize..450, rows in 0usize..70, bias: bool) {
        check(kind, n, k, rows, bias);
    }

    #[test]
    fn columns_are_those_of_the_whole(kind in kinds(), n in 1usize..200, k in 1usize..300, rows in 0usize..20, cut in (0usize..13, 0usize..200)) {
        let (from, to) = ((cut.0 * 16).min(n / 16 * 16), cut.1.min(n));
        let (from, to) = if from <= to { (from, to) } else { (0, to) };
        let (w, x) = (packed(kind, &noise(1, n * k), n, k), noise(2, rows * k));
        for team in teams() {
            let whole = matmul(&team, &w, &x, rows, None);
            let mut part = vec![f32::NAN; rows * (to - from)];
            w.matmul_columns(&team, &x, rows, from, to, &mut part);
            let want: Vec<f32> = whole.chunks_exact(n).flat_map(|row| &row[from..to]).copied().collect();
            assert_same(&part, &want);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// So a model that is stored in bf16 gives the same tokens in half of the memory.
    #[test]
    fn bf16_has_the_bits_of_f32(n in 1usize..70, k in 1usize..1700, rows in 1usize..20) {
        let weight: Vec<f32> = noise(1, n * k).into_iter().map(to_bf16).collect();
        let (x, bias) = (noise(2, rows * k), noise(3, n));
        let (wide, narrow) = (packed(WeightType::F32, &weight, n, k), packed(WeightType::Bf16, &weight, n, k));
        for team in teams() {
            assert_same(&matmul(&team, &narrow, &x, rows, Some(&bias)), &matmul(&team, &wide, &x, rows, Some(&bias)));
        }
    }

    /// Sums of bytes are exact, and every level above the scalar one adds the groups with the same instruction.
    #[test]
    fn quantised_products_are_equal_across_levels(n in 1usize..70, k in 1usize..700, rows in 1usize..20, which in 0usize..3) {
        let (w, x) = (packed(QUANTISED[which], &noise(1, n * k), n, k), noise(2, rows * k));
        let outs: Vec<_> = Isa::available().into_iter().filter(|isa| *isa != Isa::Scalar)
            .map(|isa| matmul(&Team::with_isa(1, isa).unwrap(), &w, &x, rows, None)).collect();
        for pair in outs.windows(2) {
            assert_same(&pair[0], &pair[1]);
        }
    }
}

#[test]
fn sizes_at_the_edges() {
    for kind in ALL {
        for (n, k, rows) in [
            (1, 1, 1),
            (1, 7, 65),
            (16, 16, 1),
            (16, 128, 1),
            (17, 129, 8),
            (17, 191, 8),
            (64, 192, 9),
            (64, 256, 9),
            (65, 193, 2),
            (65, 257, 2),
            (33, 31, 65),
            (33, 385, 65),
            (33, 768, 65),
            (17, 769, 9),
            (33, 1600, 140),
            (40, 1, 5),
            (5, 3, 0),
        ] {
            check(kind, n, k, rows, false);
            check(kind, n, k, rows, true);
        }
    }
    // More rows than a block of floats has.
    for with_bias in [false, true] {
        check(WeightType::F32, 130, 700, 300, with_bias);
        check(WeightType::F32, 40, 1600, 200, with_bias);
    }
}

#[test]
fn nothing_at_all() {
    for kind in ALL {
        for team in teams() {
            assert!(matmul(&team, &packed(kind, &[], 0, 4), &noise(1, 12), 3, None).is_empty());
            let w = packed(kind, &[], 3, 0);
            assert_same(&matmul(&team, &w, &[], 2, None), &[0.0; 6]);
            assert_same(&matmul(&team, &w, &[], 2, Some(&[1.0, 2.0, 3.0])), &[1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
        }
    }
}

/// Both orders of the loops over memory are met: with K = 3000 the larger blocks of f32 do not fit the cache.
#[test]
fn a_row_has_the_same_bits_everywhere() {
    for kind in ALL {
        let largest = if kind == WeightType::F32 { (150, 3000) } else { (80, 1700) };
        for (n, k) in [(1, 5), (37, 203), largest] {
            let (w, row, bias) = (packed(kind, &noise(1, n * k), n, k), noise(2, k), noise(3, n));
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
fn what_is_not_finite_stays_in_its_row() {
    for kind in ALL {
        let (n, k) = (20, 300);
        let (w, row) = (packed(kind, &noise(1, n * k), n, k), noise(2, k));
        for team in teams() {
            for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let mut x = [row.clone(), row.clone(), row.clone()].concat();
                x[k + 131] = bad;
                let out = matmul(&team, &w, &x, 3, None);
                assert!(out[n..2 * n].iter().all(|value| !value.is_finite()), "{kind:?} hides {bad}");
                let alone = matmul(&team, &w, &row, 1, None);
                assert_same(&out[..n], &alone);
                assert_same(&out[2 * n..], &alone);
            }
        }
    }
}

#[test]
fn the_smallest_numbers_do_no_harm() {
    for kind in ALL {
        for size in [0.0, 1e-45, 1e-39, 1e-30] {
            let (weight, x): (Vec<f32>, Vec<f32>) = (noise(1, 20 * 150), noise(2, 3 * 150).into_iter().map(|x| x * size).collect());
            for team in teams() {
                let out = matmul(&team, &packed(kind, &weight, 20, 150), &x, 3, None);
                assert_close(&out, &reference(WeightType::F32, &weight, 20, 150, &x, 3, None), 10.0 * size.max(1e-36));
                let tiny: Vec<f32> = weight.iter().map(|w| w * size).collect();
                assert!(matmul(&team, &packed(kind, &tiny, 20, 150), &noise(2, 450), 3, None).iter().all(|out| out.is_finite()));
            }
        }
    }
}

#[test]
fn an_output_is_what_was_packed() {
    for kind in ALL {
        let (n, k) = (37, 301);
        let (weight, mut got) = (noise(1, n * k), vec![0.0; k]);
        let w = packed(kind, &weight, n, k);
        let want: Vec<f32> = match kind {
            WeightType::F32 => weight.clone(),
            WeightType::Bf16 | WeightType::Bf16Pairs => weight.iter().copied().map(to_bf16).collect(),
            _ => quantise_rows(kind, &weight, k).weights(),
        };
        for index in 0..n {
            w.output(index, &mut got);
            assert_same(&got, &want[index * k..][..k]);
        }
    }
}

#[test]
fn parts_make_the_whole() {
    let (n, k) = (53, 200);
    let (weight, x) = (noise(1, n * k), noise(2, 2 * k));
    for kind in ALL {
        let team = Team::new(Some(2)).unwrap();
        let whole = matmul(&team, &packed(kind, &weight, n, k), &x, 2, None);
        let mut parts = PackedLinear::zeros(kind, n, k);
        for (first, last) in [(32, 53), (0, 16), (16, 32)] {
            parts.fill(&team, first, &weight[first * k..last * k]);
        }
        assert_same(&matmul(&team, &parts, &x, 2, None), &whole);
        if kind.group().is_some() {
            let mut quantised = PackedLinear::zeros(kind, n, k);
            quantised.fill_quantised(0, &quantise_rows(kind, &weight[..32 * k], k));
            quantised.fill_quantised(32, &quantise_rows(kind, &weight[32 * k..], k));
            assert_same(&matmul(&team, &quantised, &x, 2, None), &whole);
        }
    }
}

#[test]
fn the_packed_size_is_known() {
    for (kind, lines) in [(WeightType::F32, 300), (WeightType::Bf16, 150), (WeightType::Int8, 2 + 75), (INT4, 5 + 38), (INT4_WIDE, 2 + 38)]
    {
        assert_eq!(kind.bytes(17, 300), 2 * lines * 64, "{kind:?}");
        assert_eq!(packed(kind, &noise(1, 17 * 300), 17, 300).bytes(), kind.bytes(17, 300));
    }
}

#[test]
#[should_panic(expected = "rows 16..40 of 53")]
fn a_part_that_does_not_fit_is_named() {
    PackedLinear::zeros(WeightType::Int8, 53, 4).fill(&Team::alone(), 16, &[0.0; 24 * 4]);
}

#[test]
#[should_panic(expected = "x")]
fn a_wrong_shape_is_named() {
    PackedLinear::pack(&[1.0; 6], 2, 3).matmul(&Team::new(Some(1)).unwrap(), &[1.0; 5], 2, None, &mut [0.0; 4]);
}
