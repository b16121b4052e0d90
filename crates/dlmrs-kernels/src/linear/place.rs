//! Where the sums of a tile, a few rows by a few panels, are written.

use std::ops::Range;

use crate::disjoint::Disjoint;
use crate::simd::{LANES, Simd};

/// The outputs that a product computes, and where they are written.
pub(super) struct Outputs<'a> {
    /// The first one is a multiple of 16.
    columns: Range<usize>,
    /// Of all outputs of the weight.
    bias: Option<&'a [f32]>,
    /// `[R, columns]`
    out: Disjoint<'a>,
}

impl<'a> Outputs<'a> {
    pub(super) fn new(columns: Range<usize>, bias: Option<&'a [f32]>, out: &'a mut [f32]) -> Self {
        Outputs { columns, bias, out: Disjoint::new(out) }
    }

    /// The panels that have them.
    pub(super) fn panels(&self) -> Range<usize> {
        self.columns.start / LANES..self.columns.end.div_ceil(LANES)
    }

    /// Where the tile of `count` panels from `panel` on belongs whose first row is `row`.
    #[inline(always)]
    pub(super) fn place(&self, row: usize, panel: usize, count: usize) -> Place<'a> {
        let (stride, column) = (self.columns.len(), panel * LANES - self.columns.start);
        Place { out: self.out, at: row * stride + column, stride, columns: (count * LANES).min(stride - column) }
    }

    /// The bias of `count` panels from `panel` on.
    #[inline(always)]
    pub(super) fn bias(&self, panel: usize, count: usize) -> Option<&'a [f32]> {
        self.bias.map(|bias| &bias[panel * LANES..((panel + count) * LANES).min(self.columns.end)])
    }
}

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

impl Place<'_> {
    /// The same columns some rows further down.
    #[inline(always)]
    pub(super) fn below(self, rows: usize) -> Self {
        Place { at: self.at + rows * self.stride, ..self }
    }
}

/// Writes the sums of a tile, with the bias of its columns added where there is one.
///
/// # Safety
/// The M rows of `place` lie within its `out`, and nobody else uses them meanwhile.
#[allow(clippy::needless_range_loop, reason = "m and p are also the row and the panel")]
#[inline(always)]
pub(super) unsafe fn put<S: Simd, const M: usize, const P: usize>(s: S, sums: [[S::V; P]; M], place: Place<'_>, bias: Option<&[f32]>) {
    for m in 0..M {
        for p in 0..P {
            let mut sum = sums[m][p];
            if let Some(bias) = bias {
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

/// The sums that an earlier run of the tile has written.
///
/// # Safety
/// As for [`put`].
#[allow(clippy::needless_range_loop, reason = "m and p are also the row and the panel")]
#[inline(always)]
pub(super) unsafe fn take<S: Simd, const M: usize, const P: usize>(s: S, place: Place<'_>) -> [[S::V; P]; M] {
    let mut sums = [[s.splat(0.0); P]; M];
    for m in 0..M {
        for p in 0..P {
            // SAFETY: the caller grants these rows.
            let part = unsafe { columns(place, m, p) };
            sums[m][p] = load(s, part);
        }
    }
    sums
}

/// The columns of panel `p` in row `m` of the tile, as far as they exist.
///
/// # Safety
/// As for [`put`].
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
