//! Products of floats. How one is cut for the threads, the caches and the registers changes no order of a sum.

mod tile;

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;

use super::PackedLinear;
use super::ahead::Ahead;
use super::format::Format;
use super::place::Place;
use super::share::{SMALL, share};
use crate::Team;
use crate::disjoint::Disjoint;
use crate::simd::{Kernel, LANES, Simd, Words, launch};
use tile::{Ends, tile_of_height};

/// Words of x of a run: long enough that taking the sums up and putting them down again costs nothing, short enough that two panels
/// of it (96 KiB) stay in the second-level cache while all rows of a block pass by. Measured: 192 is a tenth slower, for many rows.
const RUN: usize = 768;
/// Rows of a block, in tiles: a block's run of x (576 KiB at 8 rows a tile) stays in the second-level cache too.
const BLOCK_TILES: usize = 24;
/// Up to this size, all of a block's x stays in the second-level cache.
const SMALL_X: usize = 512 << 10;

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
    let as_it_is = rows == 1 && F::IN_WORD == 1;
    with_scratch(if as_it_is { 0 } else { rows * words }, |scratch| {
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
        // Each weight is read once, in the order of memory; or, where that is too much x to stay near, each run of x is.
        let in_order = self.rows.len() * self.job.words * size_of::<f32>() <= SMALL_X;
        let mut at = At { panel: self.panels.start, from: 0 };
        loop {
            let count = self.count(at, wide);
            let next = self.after(at, count, in_order);
            self.strip(s, at, count, next.unwrap_or(at));
            match next {
                Some(next) => at = next,
                None => return,
            }
        }
    }
}

/// A run over x with some panels.
#[derive(Clone, Copy)]
struct At {
    panel: usize,
    /// The first word of x.
    from: usize,
}

impl<F: Format> Block<'_, F> {
    /// Panels that are done together.
    #[inline(always)]
    fn count(&self, at: At, wide: usize) -> usize {
        if at.panel + wide <= self.panels.end { wide } else { 1 }
    }

    /// What is done after `at` with `count` panels. There is one run even if there are no words: the outputs have to be written.
    #[inline(always)]
    fn after(&self, at: At, count: usize, in_order: bool) -> Option<At> {
        let (run, panel) = (at.from + RUN, at.panel + count);
        let (more_runs, more_panels) = (run < self.job.words, panel < self.panels.end);
        match (in_order, more_runs, more_panels) {
            (true, true, _) => Some(At { from: run, ..at }),
            (true, false, true) => Some(At { panel, from: 0 }),
            (false, _, true) => Some(At { panel, ..at }),
            (false, true, false) => Some(At { panel: self.panels.start, from: run }),
            _ => None,
        }
    }
}

impl<F: Format> Block<'_, F> {
    /// One run over x, `count` panels, all rows of the block; `next` is what comes after it.
    #[inline(always)]
    fn strip<S: Simd>(&self, s: S, at: At, count: usize, next: At) {
        match count {
            4 => self.strip_of::<S, 4>(s, at, next),
            2 => self.strip_of::<S, 2>(s, at, next),
            _ => self.strip_of::<S, 1>(s, at, next),
        }
    }

    /// The lines of a run in some panels, as far as there are so many.
    #[inline(always)]
    fn lines<const P: usize>(&self, At { panel, from }: At) -> [&[Words]; P] {
        let job = self.job;
        let lines = from / F::STEP..(from + RUN).min(job.words).div_ceil(F::STEP);
        std::array::from_fn(|p| &job.w.panel((panel + p).min(self.panels.end - 1))[lines.clone()])
    }

    #[inline(always)]
    fn strip_of<S: Simd, const P: usize>(&self, s: S, at: At, next: At) {
        let (job, At { panel, from }) = (self.job, at);
        let run = RUN.min(job.words - from);
        let (panels, next) = (self.lines::<P>(at), self.lines::<P>(next));
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

/// A buffer of `len` floats with anything in it, kept by the thread for the next product.
fn with_scratch(len: usize, f: impl FnOnce(&mut [f32])) {
    thread_local!(static SCRATCH: Cell<Vec<f32>> = const { Cell::new(Vec::new()) });
    let mut scratch = SCRATCH.take();
    if scratch.len() < len {
        scratch.resize(len, 0.0);
    }
    f(&mut scratch[..len]);
    SCRATCH.set(scratch);
}
