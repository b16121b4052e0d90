//! Statistics of logits.

mod common;

use common::{assert_same, noise};
use dlmrs_kernels::{Isa, exp_tile, tile_stats, top_two};
use proptest::prelude::*;

const NONE: f32 = f32::NEG_INFINITY;

#[test]
fn exp_is_accurate() {
    // From where the result is 0, through the subnormal numbers, to where it is infinite.
    let x: Vec<f32> = (0..400_000).map(|i| -106.0 + i as f32 * 0.000_49).collect();
    for isa in Isa::available() {
        let mut got = x.clone();
        exp_tile(isa, &mut got, 0.0);
        let mut worst = 0.0f64;
        for (x, got) in x.iter().zip(&got) {
            let want = f64::from(*x).exp();
            let unit = f64::from((want as f32).next_up() - want as f32).max(f64::from(f32::from_bits(1)));
            if want < f64::from(f32::MAX) {
                worst = worst.max((f64::from(*got) - want).abs() / unit);
            } else {
                assert_eq!(*got, f32::INFINITY, "exp({x})");
            }
        }
        assert!(worst <= 2.0, "{isa:?}: off by {worst} units");
    }
}

#[test]
fn exp_has_its_limits() {
    for isa in Isa::available() {
        let mut x = [NONE, -1e30, -200.0, 0.0, -0.0, 200.0, f32::INFINITY, f32::NAN];
        exp_tile(isa, &mut x, 0.0);
        assert_same(&x[..7], &[0.0, 0.0, 0.0, 1.0, 1.0, f32::INFINITY, f32::INFINITY]);
        assert!(x[7].is_nan());
        let mut x = [NONE, NONE];
        exp_tile(isa, &mut x, NONE);
        assert_same(&x, &[0.0, 0.0]);
    }
}

#[test]
fn exp_does_not_depend_on_the_place() {
    for isa in Isa::available() {
        let x = noise(1, 37);
        let mut together = x.clone();
        exp_tile(isa, &mut together, 1.0);
        for (x, together) in x.iter().zip(&together) {
            let mut alone = [*x];
            exp_tile(isa, &mut alone, 1.0);
            assert_same(&alone, &[*together]);
        }
    }
}

proptest! {
    #[test]
    fn stats_equal_the_formula(len in 1usize..600, holes: bool, size in 0.1f32..50.0) {
        let mut logits: Vec<f32> = noise(len as u64, len).iter().map(|l| size * l).collect();
        if holes {
            logits.iter_mut().skip(1).step_by(3).for_each(|l| *l = NONE);
        }
        let max = logits.iter().copied().fold(NONE, f32::max);
        let seen: Vec<f64> = logits.iter().filter(|l| **l > NONE).map(|l| f64::from(*l - max)).collect();
        let (sum, weighted): (f64, f64) = (seen.iter().map(|d| d.exp()).sum(), seen.iter().map(|d| d.exp() * d).sum());
        for isa in Isa::available() {
            let stats = tile_stats(isa, &logits);
            assert_eq!((stats.max, stats.has_nan), (max, false));
            assert!((f64::from(stats.sum_exp) - sum).abs() <= 1e-5 * sum, "{stats:?}");
            assert!((f64::from(stats.sum_exp_logit) - weighted).abs() <= 1e-5 * (1.0 - weighted), "{stats:?}");
        }
    }

    #[test]
    fn top_two_is_what_sorting_says(logits in prop::collection::vec((-4i8..4).prop_map(f32::from), 1..90)) {
        let (at, max, second) = top_two(&logits);
        let mut sorted = logits.clone();
        sorted.sort_by(|a, b| b.total_cmp(a));
        assert_eq!((max, second), (sorted[0], sorted.get(1).copied().unwrap_or(NONE)));
        assert_eq!(Some(at), logits.iter().position(|l| *l == max));
    }
}

#[test]
fn stats_of_nothing() {
    for isa in Isa::available() {
        for logits in [vec![], vec![NONE], vec![NONE; 40]] {
            let stats = tile_stats(isa, &logits);
            assert_eq!((stats.max, stats.sum_exp, stats.sum_exp_logit, stats.has_nan), (NONE, 0.0, 0.0, false));
        }
    }
}

#[test]
fn what_has_no_softmax_is_flagged() {
    for isa in Isa::available() {
        let stats = tile_stats(isa, &[1.0, f32::NAN, 1.0]);
        assert_eq!((stats.max, stats.sum_exp, stats.has_nan), (1.0, 2.0, true));
        assert!(tile_stats(isa, &[f32::NAN]).has_nan);
        let mut logits = noise(1, 100);
        logits[99] = f32::INFINITY;
        assert!(tile_stats(isa, &logits).has_nan);
    }
}

#[test]
fn top_two_of_little() {
    assert_eq!(top_two(&[]), (0, NONE, NONE));
    assert_eq!(top_two(&[NONE, NONE]), (0, NONE, NONE));
    assert_eq!(top_two(&[f32::NAN, f32::NAN]), (0, NONE, NONE));
    assert_eq!(top_two(&[f32::NAN, 3.0]), (1, 3.0, NONE));
    assert_eq!(top_two(&[2.0, 5.0, 5.0]), (1, 5.0, 5.0));
}
