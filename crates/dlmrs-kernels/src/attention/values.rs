//! Values weighted by what softmax gave.

use crate::simd::{LANES, Line, Simd};

/// Adds `values [run, D]`, weighted by the first lanes of `weights [run]`, to `sums [queries, D]`, in the order of the run. Values and sums
/// lie in whole lines, `wide` each; a query is a lane.
#[inline(always)]
pub(super) fn weigh<S: Simd>(s: S, weights: &[Line], values: &[Line], sums: &mut [Line], wide: usize) {
    for (index, sums) in sums.chunks_mut(S::ROWS * wide).enumerate() {
        let lane = index * S::ROWS;
        macro_rules! heights {
            ($($m:literal)+) => {
                match sums.len() / wide {
                    $($m if $m <= S::ROWS => rows::<S, $m>(s, lane, weights, values, sums, wide),)+
                    height => unreachable!("a block of {height} queries"),
                }
            };
        }
        heights!(1 2 3 4 5 6 7 8);
    }
}

/// The lanes `lane..lane + M`.
#[inline(always)]
fn rows<S: Simd, const M: usize>(s: S, lane: usize, weights: &[Line], values: &[Line], sums: &mut [Line], wide: usize) {
    let mut column = 0;
    while column < wide {
        if 2 * S::ROWS <= S::TILE && column + 2 <= wide {
            tile::<S, M, 2>(s, lane, weights, values, sums, wide, column);
            column += 2;
        } else {
            tile::<S, M, 1>(s, lane, weights, values, sums, wide, column);
            column += 1;
        }
    }
}

/// P vectors of each row, from line `column` on.
#[allow(clippy::needless_range_loop, reason = "m and p index several arrays at once")]
#[inline(always)]
fn tile<S: Simd, const M: usize, const P: usize>(
    s: S,
    lane: usize,
    weights: &[Line],
    values: &[Line],
    sums: &mut [Line],
    wide: usize,
    column: usize,
) {
    let mut acc = [[s.splat(0.0); P]; M];
    for m in 0..M {
        for p in 0..P {
            acc[m][p] = s.load(&sums[m * wide + column + p].0);
        }
    }
    assert!(lane + M <= LANES && column + P <= wide);
    for (weight, value) in weights.iter().zip(values.chunks_exact(wide)) {
        let mut v = [s.splat(0.0); P];
        for p in 0..P {
            v[p] = s.load(&value[column + p].0);
        }
        for m in 0..M {
            let weight = s.splat(weight.0[lane + m]);
            for p in 0..P {
                acc[m][p] = s.fma(weight, v[p], acc[m][p]);
            }
        }
    }
    for m in 0..M {
        for p in 0..P {
            s.store(acc[m][p], &mut sums[m * wide + column + p].0);
        }
    }
}
