//! What the tests of all kernels share.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use dlmrs_kernels::{Isa, Team};

/// Teams of one and of two threads at each level of this CPU.
pub fn teams() -> Vec<Team> {
    let sizes = |isa| [1, 2].map(|threads| Team::with_isa(threads, isa).unwrap());
    Isa::available().into_iter().flat_map(sizes).collect()
}

/// Numbers between -1 and 1, always the same for a seed.
pub fn noise(seed: u64, len: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..len).map(next).collect()
}

/// Fails where two numbers differ by more than `tolerance`, absolutely.
#[track_caller]
pub fn assert_close(got: &[f32], want: &[f32], tolerance: f32) {
    assert_eq!(got.len(), want.len());
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        assert!((got - want).abs() <= tolerance, "at {i}: {got} instead of {want}");
    }
}

/// Fails where two numbers differ in a bit.
#[track_caller]
pub fn assert_same(got: &[f32], want: &[f32]) {
    let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(got), bits(want));
}

/// `row [C]` at place `at` among `rows` rows of noise.
pub fn among(row: &[f32], rows: usize, at: usize, seed: u64) -> Vec<f32> {
    let mut all = noise(seed, rows * row.len());
    all[at * row.len()..][..row.len()].copy_from_slice(row);
    all
}

/// How many rows, and which of them is the one that is looked at.
pub const PLACES: [(usize, usize); 10] = [(1, 0), (3, 0), (3, 2), (4, 3), (7, 6), (17, 0), (17, 16), (64, 5), (65, 64), (300, 290)];
