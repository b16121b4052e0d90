//! Products over tiles: 32 rows by 32 outputs at a time, with the sums of each 16 by 16 of them in one register.

pub(super) mod bytes;
pub(super) mod pairs;

use std::ops::Range;

use super::place::{Place, put, take};
use crate::simd::{Line, Simd, TILE_ROWS};

/// Up to so many rows, bytes are multiplied with vectors, which have the same sums: a tile would be nearly empty.
pub(super) const FEW_ROWS: usize = 4;
/// Rows of two tiles of x.
const PAIR_ROWS: usize = 2 * TILE_ROWS;

/// The rows of a block in parts of one shape each: all pairs of whole tiles, and then the rest; with the heights of a pair.
#[inline(always)]
fn parts(rows: &Range<usize>) -> [([usize; 2], Range<usize>); 2] {
    let middle = rows.start + rows.len() / PAIR_ROWS * PAIR_ROWS;
    let rest = rows.end - middle;
    let heights = [rest.min(TILE_ROWS), rest.saturating_sub(TILE_ROWS)];
    [([TILE_ROWS; 2], rows.start..middle), (heights, middle..rows.end)]
}

/// The sums of R tiles of rows by P panels.
type Sums<const R: usize, const P: usize> = [[[Line; TILE_ROWS]; P]; R];

/// What an earlier run has written at `place`, as far as the rows of each tile go.
///
/// # Safety
/// As for [`put`].
#[allow(clippy::needless_range_loop, reason = "r, p and m are also the tile, the panel and the row")]
#[inline(always)]
unsafe fn take_sums<S: Simd, const R: usize, const P: usize>(s: S, heights: [usize; 2], place: Place<'_>) -> Sums<R, P> {
    let mut sums = [[[Line::ZERO; TILE_ROWS]; P]; R];
    for r in 0..R {
        for m in 0..heights[r] {
            // SAFETY: passed on to the caller.
            let [row] = unsafe { take::<S, 1, P>(s, place.below(r * TILE_ROWS + m)) };
            for p in 0..P {
                s.store(row[p], &mut sums[r][p][m].0);
            }
        }
    }
    sums
}

/// Writes sums to `place`, as far as the rows of each tile go, with the bias of its columns where there is one.
///
/// # Safety
/// As for [`put`].
#[allow(clippy::needless_range_loop, reason = "r, p and m are also the tile, the panel and the row")]
#[inline(always)]
unsafe fn put_sums<S: Simd, const R: usize, const P: usize>(
    s: S,
    sums: &Sums<R, P>,
    heights: [usize; 2],
    place: Place<'_>,
    bias: Option<&[f32]>,
) {
    for r in 0..R {
        for m in 0..heights[r] {
            let mut row = [s.splat(0.0); P];
            for p in 0..P {
                row[p] = s.load(&sums[r][p][m].0);
            }
            // SAFETY: passed on to the caller.
            unsafe { put::<S, 1, P>(s, [row], place.below(r * TILE_ROWS + m), bias) };
        }
    }
}

#[cfg(test)]
mod tests;
