//! The innermost product: a few rows by a few panels, with all sums in registers.

use crate::disjoint::Disjoint;
use crate::simd::{LANES, Line, Simd};

/// Where the results of a tile belong.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) out: Disjoint<'a>,
    /// The tile's first element in `out`.
    pub(super) at: usize,
    /// From one row of `out` to the next.
    pub(super) stride: usize,
    /// Columns of the tile that exist; the last panel may be a partial one.
    pub(super) columns: usize,
}

/// What happens to the sums before and after this run over k.
#[derive(Clone, Copy)]
pub(super) struct Ends<'a> {
    /// Begin at zero, not with what an earlier run left in `out`. (To put an f32 down and take it up again is exact.)
    pub(super) first: bool,
    /// Added after the last run, for the tile's columns.
    pub(super) bias: Option<&'a [f32]>,
    /// Fetch the weights ahead: they come from memory, not from a cache.
    pub(super) fetch: bool,
}

/// How far ahead the weights are fetched, in lines. A guess that measures well; past the end of the weight it is harmless.
const AHEAD: usize = 24;

/// Adds `x [k, M]` times `P` panels `[k, 16]` to a tile `[M, P * 16]`: one accumulator an output, k from first to last.
///
/// # Safety
/// The M rows of `place` lie within `out`, and nobody else uses them meanwhile.
#[allow(clippy::needless_range_loop, reason = "m and p index several arrays at once")]
#[inline(always)]
pub(super) unsafe fn tile<S: Simd, const M: usize, const P: usize>(
    s: S,
    x: &[f32],
    panels: [&[Line]; P],
    place: Place<'_>,
    ends: Ends<'_>,
) {
    let (x, _) = x.as_chunks::<M>();
    let mut sums = [[s.splat(0.0); P]; M];
    if !ends.first {
        for m in 0..M {
            for p in 0..P {
                // SAFETY: the caller grants these rows.
                let part = unsafe { columns(place, m, p) };
                sums[m][p] = load(s, part);
            }
        }
    }
    assert!(panels.iter().all(|panel| panel.len() == x.len()));
    for (i, x) in x.iter().enumerate() {
        let mut w = [s.splat(0.0); P];
        for p in 0..P {
            // SAFETY: i < x.len(), which is the length of each panel.
            let line = unsafe { panels[p].get_unchecked(i) };
            if ends.fetch {
                s.prefetch(std::ptr::from_ref(line).wrapping_add(AHEAD).cast());
            }
            w[p] = s.load(&line.0);
        }
        for m in 0..M {
            let x = s.splat(x[m]);
            for p in 0..P {
                sums[m][p] = s.fma(x, w[p], sums[m][p]);
            }
        }
    }
    for m in 0..M {
        for p in 0..P {
            let mut sum = sums[m][p];
            if let Some(bias) = ends.bias {
                sum = s.add(sum, load(s, &bias[(p * LANES).min(bias.len())..]));
            }
            // SAFETY: the caller grants these rows.
            let part = unsafe { columns(place, m, p) };
            match part.as_chunks_mut::<LANES>() {
                ([whole], []) => s.store(sum, whole),
                _ => s.store_some(sum, part),
            }
        }
    }
}

/// The columns of panel `p` in row `m` of the tile, as far as they exist.
///
/// # Safety
/// As for [`tile`].
#[inline(always)]
unsafe fn columns<'a>(place: Place<'a>, m: usize, p: usize) -> &'a mut [f32] {
    let from = (p * LANES).min(place.columns);
    let to = (from + LANES).min(place.columns);
    let row = place.at + m * place.stride;
    // SAFETY: the caller grants this row of the tile.
    unsafe { place.out.part(row + from..row + to) }
}

/// The first 16 elements, zeros where there are none.
#[inline(always)]
fn load<S: Simd>(s: S, from: &[f32]) -> S::V {
    match from.first_chunk::<LANES>() {
        Some(whole) => s.load(whole),
        None => s.load_some(from, 0.0),
    }
}
