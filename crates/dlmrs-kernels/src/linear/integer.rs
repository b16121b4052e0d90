//! Products with quantised weights: x is rounded to bytes, a group's sum is exact, and the groups are added up in f32 from the first
//! to the last.

use std::ops::Range;

use super::PackedLinear;
use super::ahead::Ahead;
use super::groups::Groups;
use super::place::{Outputs, Place, put};
use super::rows::{ByteRows, ByteTile};
use super::share::share;
use crate::Team;
use crate::simd::{IntKernel, IntSimd, Words, launch_int};

/// Rows of a block: its bytes stay in the second-level cache while the panels pass by.
const BLOCK: usize = 128;

/// Columns of `x * weight^T + bias`; see [`PackedLinear::matmul`]. `HALF` says that weights are half bytes.
pub(super) fn product<const HALF: bool>(w: &PackedLinear, team: &Team, x: &[f32], rows: usize, to: Outputs<'_>) {
    let (groups, tile_rows) = (Groups::of(w.kind, w.k), launch_int(team.isa(), TileRows));
    ByteRows::with(team, x, rows, groups, tile_rows, |x| {
        let job = Job { w, x, groups, to };
        share(team, rows, BLOCK, job.to.panels(), w.k, |rows, panels| {
            launch_int(team.isa(), Block::<HALF> { job: &job, rows, panels });
        });
    });
}

struct Job<'a> {
    w: &'a PackedLinear,
    x: &'a ByteRows,
    groups: Groups,
    to: Outputs<'a>,
}

/// A block of rows by a chunk of panels.
struct Block<'a, const HALF: bool> {
    job: &'a Job<'a>,
    rows: Range<usize>,
    panels: Range<usize>,
}

impl<const HALF: bool> IntKernel for Block<'_, HALF> {
    type Output = ();

    #[inline(always)]
    fn run<S: IntSimd>(self, s: S) {
        let first_rows = self.rows.len().min(S::INT_ROWS);
        let wide = [4, 2, 1].into_iter().find(|p| first_rows * p <= S::INT_TILE).unwrap_or(1);
        let mut panel = self.panels.start;
        while panel < self.panels.end {
            let count = if panel + wide <= self.panels.end { wide } else { 1 };
            match count {
                4 => self.strip::<S, 4>(s, panel),
                2 => self.strip::<S, 2>(s, panel),
                _ => self.strip::<S, 1>(s, panel),
            }
            panel += count;
        }
    }
}

impl<const HALF: bool> Block<'_, HALF> {
    /// Panels from `panel` on, as far as there are so many.
    #[inline(always)]
    fn lines<const P: usize>(&self, panel: usize) -> [&[Words]; P] {
        std::array::from_fn(|p| self.job.w.panel((panel + p).min(self.panels.end - 1)))
    }

    /// P panels from `panel` on, all rows of the block.
    #[inline(always)]
    fn strip<S: IntSimd, const P: usize>(&self, s: S, panel: usize) {
        let job = self.job;
        let (panels, next) = (self.lines::<P>(panel), self.lines::<P>(panel + P));
        let tiles = self.rows.len().div_ceil(S::INT_ROWS);
        let bias = job.to.bias(panel, P);
        for (tile, row) in self.rows.clone().step_by(S::INT_ROWS).enumerate() {
            let height = S::INT_ROWS.min(self.rows.end - row);
            let place = job.to.place(row, panel, P);
            let x = job.x.tile(row, height, job.groups);
            let ahead = Ahead::new(panels, next, tile, tiles);
            // SAFETY: the rows of this block and the columns of this chunk lie within `out`, and no other task has them.
            unsafe { tile_of_height::<S, HALF, P>(s, height, x, job.groups, panels, ahead, (place, bias)) };
        }
    }
}

/// [`tile`] for a height known only at run time.
///
/// # Safety
/// As for [`tile`].
#[inline(always)]
unsafe fn tile_of_height<S: IntSimd, const HALF: bool, const P: usize>(
    s: S,
    height: usize,
    x: ByteTile<'_>,
    groups: Groups,
    w: [&[Words]; P],
    ahead: Ahead<P>,
    to: (Place<'_>, Option<&[f32]>),
) {
    macro_rules! heights {
        ($($m:literal)+) => {
            match height {
                // Heights that this level never asks for are not compiled.
                // SAFETY: passed on to the caller.
                $($m if $m <= S::INT_ROWS && $m * P <= S::INT_TILE => unsafe { tile::<S, HALF, $m, P>(s, x, groups, w, ahead, to) },)+
                _ => unreachable!("a tile of {height} rows"),
            }
        };
    }
    heights!(1 2 3 4 5 6 7 8)
}

/// M rows of bytes times `P` panels, all of x: a tile `[M, P * 16]`, with the bias of its columns.
///
/// # Safety
/// The M rows of `place` lie within `out`, and nobody else uses them meanwhile.
#[allow(clippy::needless_range_loop, reason = "m and p index several arrays at once")]
#[inline(always)]
unsafe fn tile<S: IntSimd, const HALF: bool, const M: usize, const P: usize>(
    s: S,
    x: ByteTile<'_>,
    groups: Groups,
    panels: [&[Words]; P],
    ahead: Ahead<P>,
    (place, bias): (Place<'_>, Option<&[f32]>),
) {
    let (words, scales, starts) = (x.words.as_chunks::<M>().0, x.scales.as_chunks::<M>().0, x.sums.as_chunks::<M>().0);
    let mut sums = [[s.splat(0.0); P]; M];
    let mut until = ahead.start();
    for (g, (scale, start)) in scales.iter().zip(starts).enumerate() {
        let (from, lines) = (groups.line(g), groups.lines_of(g));
        let words = &words[groups.word(g)..][..lines * if HALF { 2 } else { 1 }];
        // No closures here: they would be compiled without the level's instructions.
        let mut weights = panels;
        let mut own = [[s.start8(0); P]; M];
        for p in 0..P {
            weights[p] = &panels[p][from..from + lines];
            for m in 0..M {
                own[m][p] = if HALF { s.start4(start[m]) } else { s.start8(start[m]) };
            }
        }
        for line in 0..lines {
            ahead.fetch(s, from + line, &mut until);
            if HALF {
                let mut w = [s.load4(&weights[0][line].0); P];
                for p in 1..P {
                    w[p] = s.load4(&weights[p][line].0);
                }
                for half in 0..2 {
                    let x = &words[2 * line + half];
                    for m in 0..M {
                        for p in 0..P {
                            own[m][p] = s.dot4(own[m][p], w[p][half], x[m]);
                        }
                    }
                }
            } else {
                let mut w = [s.load8(&weights[0][line].0); P];
                for p in 1..P {
                    w[p] = s.load8(&weights[p][line].0);
                }
                let x = &words[line];
                for m in 0..M {
                    for p in 0..P {
                        own[m][p] = s.dot8(own[m][p], w[p], x[m]);
                    }
                }
            }
        }
        let even = g % 2 == 0;
        let scales_at = if even { from - 1 } else { groups.line(g - 1) - 1 };
        for p in 0..P {
            let line = &panels[p][scales_at].0;
            let weight_scale = if even { s.load_low(line) } else { s.load_high(line) };
            for m in 0..M {
                sums[m][p] = s.fma(s.to_f32(own[m][p]), s.mul(weight_scale, s.splat(scale[m])), sums[m][p]);
            }
        }
    }
    // SAFETY: passed on to the caller.
    unsafe { put::<S, M, P>(s, sums, place, bias) };
}

/// Rows of a full register tile at a level.
struct TileRows;

impl IntKernel for TileRows {
    type Output = usize;

    #[inline(always)]
    fn run<S: IntSimd>(self, _s: S) -> usize {
        S::INT_ROWS
    }
}
