//! Products of floats. How one is cut for the threads, the caches and the registers changes no order of a sum.

mod tile;

use std::marker::PhantomData;
use std::ops::Range;

use super::PackedLinear;
use super::ahead::Ahead;
use super::format::Format;
use super::place::Place;
use super::scratch::Scratch;
use super::share::{SMALL, share};
use super::walk::{At, Walk};
use crate::Team;
use crate::disjoint::Disjoint;
use crate::simd::{Kernel, LANES, Simd, Words, launch};
use tile::{Ends, tile_of_height};

/// Rows of a block, in tiles: a block's run of x (576 KiB at 8 rows a tile) stays in the second-level cache too.
const BLOCK_TILES: usize = 24;

/// Columns of `x * weight^T + bias`; see [`PackedLinear::matmul`].
pub(super) fn product<F: Format>(
    w: &PackedLinear,
    team: &Team,
    x: &[f32],
    rows: usize,
    columns: Range<usize>,
    bias: Option<&[f32]>,
    out: &mut [f32],
) {
    let words = w.k.div_ceil(F::IN_WORD);
    let as_it_is = rows == 1 && F::AS_IT_IS;
    thread_local!(static SCRATCH: Scratch<f32> = const { Scratch::new() });
    SCRATCH.with(|scratch| {
        scratch.lend(if as_it_is { 0 } else { rows * words }, 0.0, |scratch| {
            let tile_rows = launch(team.isa(), TileRows);
            let packed: &[f32] = if as_it_is {
                x
            } else {
                pack_rows::<F>(team, x, w.k, tile_rows, scratch);
                scratch
            };
            let panels = columns.start / LANES..columns.end.div_ceil(LANES);
            let job = Job { w, x: packed, words, columns, bias, out: Disjoint::new(out) };
            share(team, rows, BLOCK_TILES * tile_rows, panels, w.k, |rows, panels| {
                launch(team.isa(), Block::<F> { job: &job, rows, panels, format: PhantomData });
            });
        });
    });
}

/// One product, its x already packed as tiles `[words, rows of the tile]`.
struct Job<'a> {
    w: &'a PackedLinear,
    x: &'a [f32],
    /// Words of a row of x.
    words: usize,
    columns: Range<usize>,
    bias: Option<&'a [f32]>,
    out: Disjoint<'a>,
}

/// A block of rows by a chunk of panels.
struct Block<'a, F> {
    job: &'a Job<'a>,
    rows: Range<usize>,
    panels: Range<usize>,
    format: PhantomData<F>,
}

impl<F: Format> Kernel for Block<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let first_rows = self.rows.len().min(S::ROWS);
        let wide = [4, 2, 1].into_iter().find(|p| first_rows * p <= S::TILE).unwrap_or(1);
        let walk = Walk::new(self.rows.len(), self.job.words, self.panels.clone(), wide);
        let mut at = walk.first();
        loop {
            let count = walk.count(at);
            let next = walk.after(at, count);
            self.strip(s, &walk, at, count, next.unwrap_or(at));
            match next {
                Some(next) => at = next,
                None => return,
            }
        }
    }
}

impl<F: Format> Block<'_, F> {
    /// One run over x, `count` panels, all rows of the block; `next` is what comes after it.
    #[inline(always)]
    fn strip<S: Simd>(&self, s: S, walk: &Walk, at: At, count: usize, next: At) {
        match count {
            4 => self.strip_of::<S, 4>(s, walk, at, next),
            2 => self.strip_of::<S, 2>(s, walk, at, next),
            _ => self.strip_of::<S, 1>(s, walk, at, next),
        }
    }

    /// The lines of a run in some panels, as far as there are so many.
    #[inline(always)]
    fn lines<const P: usize>(&self, walk: &Walk, at: At) -> [&[Words]; P] {
        let run = walk.run(at);
        let lines = run.start / F::STEP..run.end.div_ceil(F::STEP);
        std::array::from_fn(|p| &self.job.w.panel(walk.panel(at, p))[lines.clone()])
    }

    #[inline(always)]
    fn strip_of<S: Simd, const P: usize>(&self, s: S, walk: &Walk, at: At, next: At) {
        let (job, At { panel, from }) = (self.job, at);
        let run = walk.run(at).len();
        let (panels, next) = (self.lines::<P>(walk, at), self.lines::<P>(walk, next));
        let tiles = self.rows.len().div_ceil(S::ROWS);
        let column = panel * LANES - job.columns.start;
        let columns = (P * LANES).min(job.columns.len() - column);
        let bias = job.bias.filter(|_| from + run == job.words).map(|bias| &bias[job.columns.start + column..][..columns]);
        for (tile, row) in self.rows.clone().step_by(S::ROWS).enumerate() {
            let height = S::ROWS.min(self.rows.end - row);
            let x = &job.x[row * job.words + from * height..][..run * height];
            let place = Place { out: job.out, at: row * job.columns.len() + column, stride: job.columns.len(), columns };
            let (ends, ahead) = (Ends { first: from == 0, bias }, Ahead::new(panels, next, tile, tiles));
            // SAFETY: the rows of this block and the columns of this chunk lie within `out`, and no other task has them.
            unsafe { tile_of_height::<S, F, P>(s, height, x, panels, ahead, place, ends) };
        }
    }
}

/// Rows of a full register tile at a level.
struct TileRows;

impl Kernel for TileRows {
    type Output = usize;

    #[inline(always)]
    fn run<S: Simd>(self, _s: S) -> usize {
        S::ROWS
    }
}

/// Turns `x [R, K]` into tiles `[words, tile_rows]`, one after the other, the last one perhaps with fewer rows.
fn pack_rows<F: Format>(team: &Team, x: &[f32], k: usize, tile_rows: usize, packed: &mut [f32]) {
    if k == 0 {
        return;
    }
    let words = k.div_ceil(F::IN_WORD);
    let parts = Disjoint::new(packed);
    let tiles = x.len().div_ceil(k * tile_rows);
    let pack = |tile: usize| {
        let rows = &x[tile * tile_rows * k..((tile + 1) * tile_rows * k).min(x.len())];
        let (from, height) = (tile * tile_rows * words, rows.len() / k);
        // SAFETY: within `packed`, which has as many words for each row; each tile has its own part.
        let to = unsafe { parts.part(from..from + height * words) };
        for (m, row) in rows.chunks_exact(k).enumerate() {
            for (to, numbers) in to[m..].iter_mut().step_by(height).zip(row.chunks(F::IN_WORD)) {
                *to = F::word(numbers);
            }
        }
    };
    if x.len() < SMALL {
        (0..tiles).for_each(pack);
    } else {
        team.run(tiles, pack);
    }
}
