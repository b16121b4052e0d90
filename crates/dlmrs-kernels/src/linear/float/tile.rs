//! The innermost product of floats: a few rows by a few panels, with all sums in registers.

use crate::linear::ahead::Ahead;
use crate::linear::format::Format;
use crate::linear::place::{Place, put, take};
use crate::simd::{Simd, Words};

/// What happens to the sums before and after this run over x.
#[derive(Clone, Copy)]
pub(super) struct Ends<'a> {
    /// Begin at zero, not with what an earlier run left in `out`. (To put an f32 down and take it up again is exact.)
    pub(super) first: bool,
    /// Added after the last run, for the tile's columns.
    pub(super) bias: Option<&'a [f32]>,
}

/// [`tile`] for a height known only at run time.
///
/// # Safety
/// As for [`tile`].
#[inline(always)]
pub(super) unsafe fn tile_of_height<S: Simd, F: Format, const P: usize>(
    s: S,
    height: usize,
    x: &[f32],
    w: [&[Words]; P],
    ahead: Ahead<P>,
    place: Place<'_>,
    ends: Ends<'_>,
) {
    macro_rules! heights {
        ($($m:literal)+) => {
            match height {
                // Heights that this level never asks for are not compiled.
                // SAFETY: passed on to the caller.
                $($m if $m <= S::ROWS && $m * P <= S::TILE => unsafe { tile::<S, F, $m, P>(s, x, w, ahead, place, ends) },)+
                _ => unreachable!("a tile of {height} rows"),
            }
        };
    }
    heights!(1 2 3 4 5 6 7 8)
}

/// Adds `x [words, M]` times `P` panels of lines to a tile `[M, P * 16]`: one accumulator an output, x from first to last.
///
/// # Safety
/// The M rows of `place` lie within `out`, and nobody else uses them meanwhile.
#[allow(clippy::needless_range_loop, reason = "p indexes several arrays at once")]
#[inline(always)]
unsafe fn tile<S: Simd, F: Format, const M: usize, const P: usize>(
    s: S,
    x: &[f32],
    panels: [&[Words]; P],
    ahead: Ahead<P>,
    place: Place<'_>,
    ends: Ends<'_>,
) {
    let (x, _) = x.as_chunks::<M>();
    let mut sums = [[s.splat(0.0); P]; M];
    if !ends.first {
        // SAFETY: passed on to the caller.
        sums = unsafe { take::<S, M, P>(s, place) };
    }
    assert!(panels.iter().all(|panel| panel.len() == x.len().div_ceil(F::STEP)));
    let whole = x.len() / F::STEP;
    let mut until = ahead.start();
    for line in 0..whole {
        // No closures here: they would be compiled without the level's instructions.
        let mut lines = [&Words::ZERO; P];
        for p in 0..P {
            // SAFETY: line < whole, which is at most the length of each panel.
            lines[p] = unsafe { panels[p].get_unchecked(line) };
        }
        ahead.fetch(s, line, &mut until);
        for step in 0..F::STEP {
            // SAFETY: line * STEP + step < whole * STEP <= x.len().
            let x = unsafe { x.get_unchecked(line * F::STEP + step) };
            add_step::<S, F, M, P>(s, x, lines, step, &mut sums);
        }
    }
    // An odd number of inputs leaves a part of a line.
    for step in 0..x.len() % F::STEP {
        let mut lines = [&Words::ZERO; P];
        for p in 0..P {
            lines[p] = &panels[p][whole];
        }
        add_step::<S, F, M, P>(s, &x[whole * F::STEP + step], lines, step, &mut sums);
    }
    // SAFETY: passed on to the caller.
    unsafe { put::<S, M, P>(s, sums, place, ends.bias) };
}

/// One word of x of each row by the weights that meet it.
#[allow(clippy::needless_range_loop, reason = "m and p index several arrays at once")]
#[inline(always)]
fn add_step<S: Simd, F: Format, const M: usize, const P: usize>(
    s: S,
    x: &[f32; M],
    lines: [&Words; P],
    step: usize,
    sums: &mut [[S::V; P]; M],
) {
    let mut w = [s.splat(0.0); P];
    for p in 0..P {
        w[p] = F::weights(s, lines[p], step);
    }
    for m in 0..M {
        let x = s.splat(x[m]);
        for p in 0..P {
            sums[m][p] = F::add_product(s, x, w[p], sums[m][p]);
        }
    }
}
