//! The statistics beside values worked out by hand, and what holds for all of them.
#![allow(clippy::unwrap_used, clippy::expect_used)] // tests

use dlmrs_tasks::statistics::{interval, paired};
use proptest::prelude::*;

fn p(first_only: usize, second_only: usize) -> f64 {
    paired(std::iter::repeat_n((true, false), first_only).chain(std::iter::repeat_n((false, true), second_only))).p
}

fn close(found: f64, wanted: f64) {
    assert!((found - wanted).abs() <= 1e-9 * wanted.abs().max(1e-300), "{found} is not {wanted}");
}

#[test]
fn wilson_by_hand() {
    // 8 of 10: centre (0.8 + 3.841459/20) / 1.3841459, half 1.959964 / 1.3841459 * sqrt(0.016 + 3.841459/400).
    let found = interval(8, 10);
    assert!((found.low - 0.490_162).abs() < 1e-6 && (found.high - 0.943_318).abs() < 1e-6, "{found:?}");
    // 0 of 10: from 0 to z^2 / (10 + z^2).
    let none = interval(0, 10);
    assert_eq!(none.low, 0.0);
    close(none.high, 3.841_458_820_694_124 / 13.841_458_820_694_124);
    let all = interval(10, 10);
    assert_eq!(all.high, 1.0);
    close(all.low, 10.0 / 13.841_458_820_694_124);
    let nothing = interval(0, 0);
    assert_eq!((nothing.low, nothing.high), (0.0, 1.0));
}

#[test]
fn mcnemar_by_hand() {
    assert_eq!(p(0, 0), 1.0);
    assert_eq!(p(1, 0), 1.0); // 2 * 1/2
    close(p(0, 2), 0.5); // 2 * 1/4
    close(p(5, 0), 2.0 / 32.0);
    close(p(1, 5), 2.0 * 7.0 / 64.0); // C(6,0) + C(6,1) = 7
    close(p(9, 3), 2.0 * (1.0 + 12.0 + 66.0 + 220.0) / 4096.0);
    assert_eq!(p(7, 7), 1.0);
    assert_eq!(p(7, 8), 1.0); // the sum of a half, doubled
}

#[test]
fn mcnemar_of_thousands() {
    // 2 / 2^1200 is below the range of sums, not below that of f64's logarithms: 2^-1199 underflows to 0 and must not become NaN.
    assert_eq!(p(1200, 0), 0.0);
    close(p(1000, 0), 2.0_f64.powi(-999));
    // The normal approximation with continuity correction at 5,000 pairs: z = (|2600 - 2400| - 1) / sqrt(5000) = 2.8143, p = 0.00489.
    let found = p(2600, 2400);
    assert!((found - 0.00489).abs() < 5e-5, "{found}");
    assert!(p(50_000, 49_000) < 0.002);
}

#[test]
fn pairs_are_counted() {
    let found = paired([(true, true), (true, false), (false, false), (true, true), (false, true), (true, false), (true, false)]);
    assert_eq!((found.both, found.first_only, found.second_only, found.neither), (2, 3, 1, 1));
    close(found.p, 2.0 * 5.0 / 16.0);
}

proptest! {
    #[test]
    fn an_interval_holds_the_share(of in 1usize..100_000, part in 0.0..=1.0f64) {
        let right = (part * of as f64) as usize;
        let share = right as f64 / of as f64;
        let found = interval(right, of);
        prop_assert!(0.0 <= found.low && found.low <= share && share <= found.high && found.high <= 1.0, "{found:?}");
        // The mirror image of the wrong ones.
        let wrong = interval(of - right, of);
        prop_assert!((found.low - (1.0 - wrong.high)).abs() < 1e-12 && (found.high - (1.0 - wrong.low)).abs() < 1e-12);
        // More problems, a narrower interval.
        let more = interval(4 * right, 4 * of);
        prop_assert!(more.high - more.low < found.high - found.low);
    }

    #[test]
    fn p_is_a_probability_and_symmetric(a in 0usize..4000, b in 0usize..4000) {
        let found = p(a, b);
        prop_assert!((0.0..=1.0).contains(&found), "{found}");
        prop_assert_eq!(found, p(b, a));
        // A greater difference among as many is no more probable.
        if a > b && b > 0 {
            prop_assert!(p(a + 1, b - 1) <= found);
        }
    }

    #[test]
    fn p_is_the_binomial_sum(a in 0u128..40, b in 0u128..40) {
        let n = a + b;
        let choose = |k: u128| (0..k).fold(1u128, |c, i| c * (n - i) / (i + 1));
        let tail: u128 = (0..=a.min(b)).map(choose).sum();
        let wanted = (2.0 * tail as f64 / 2.0_f64.powi(n as i32)).min(1.0);
        close(p(a as usize, b as usize), wanted);
    }
}
