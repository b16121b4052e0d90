//! What rounding a weight to fewer bits may change.
#![allow(clippy::unwrap_used)]

mod common;

use common::noise;
use dlmrs_kernels::{QuantisedRows, WeightType, quantise_rows};

const QUANTISED: [WeightType; 3] = [WeightType::Int8, WeightType::Int4 { group: 32 }, WeightType::Int4 { group: 128 }];

#[test]
fn rounding_stays_within_its_step() {
    let (k, weight) = (300, noise(5, 40 * 300));
    for kind in QUANTISED {
        let group = kind.group().unwrap();
        let rows: QuantisedRows = quantise_rows(kind, &weight, k);
        assert_eq!((rows.count(), rows.scales.len()), (40, 40 * k.div_ceil(group)));
        let rounded = rows.weights();
        for (numbers, rounded) in weight.chunks(k).zip(rounded.chunks(k)).flat_map(|(w, r)| w.chunks(group).zip(r.chunks(group))) {
            let largest = numbers.iter().fold(0f32, |largest, number| largest.max(number.abs()));
            // A byte: half a step, and what the scale's rounding to bf16 adds. Half a byte: numbers at the positive end may be cut off.
            let (bound, rms) = if kind == WeightType::Int8 { (0.5 / 127.0 * 1.01, 0.34 / 127.0) } else { (1.0 / 7.0, 0.34 / 6.5) };
            numbers.iter().zip(rounded).for_each(|(a, b)| assert!((a - b).abs() <= bound * largest, "{kind:?}: {a} became {b}"));
            let squares: f32 = numbers.iter().zip(rounded).map(|(a, b)| (a - b) * (a - b)).sum();
            let found = (squares / numbers.len() as f32).sqrt() / largest;
            assert!(numbers.len() < 16 || found <= rms, "{kind:?}: a mean error of {found}");
        }
    }
}

#[test]
fn what_is_rounded_stays_as_it_is() {
    for kind in QUANTISED {
        let once = quantise_rows(kind, &noise(5, 40 * 256), 256).weights();
        let twice = quantise_rows(kind, &once, 256).weights();
        let moved = once.iter().zip(&twice).filter(|(a, b)| (*a - *b).abs() > 0.02 * a.abs()).count();
        assert!(moved * 100 <= once.len(), "{kind:?}: {moved} of {} numbers moved", once.len());
    }
}
