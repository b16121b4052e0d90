//! How a product is cut into tiles: for the threads, for the caches, for the registers. No cut changes the order of a sum.

use std::cell::Cell;
use std::ops::Range;

use super::PackedLinear;
use super::tile::{Ends, Place, tile};
use crate::Team;
use crate::disjoint::Disjoint;
use crate::simd::{Kernel, LANES, Line, Simd, launch};

/// Inner length of a run: long enough that taking the sums up and putting them down again costs nothing, short enough that two panels
/// of it (96 KiB) stay in the second-level cache while all rows of a block pass by. Measured: 192 is a tenth slower, for many rows.
const RUN: usize = 768;
/// Rows of a block, in tiles: a block's run of x (576 KiB at 8 rows a tile) stays in the second-level cache too.
const BLOCK_TILES: usize = 24;
/// Up to this size, all of a block's x stays in the second-level cache.
const SMALL_X: usize = 512 << 10;
/// Below this many multiplications the other threads are not woken.
const SMALL: usize = 1 << 16;

/// Columns of `x * weight^T + bias`; see [`PackedLinear::matmul`].
pub(super) fn product(w: &PackedLinear, team: &Team, x: &[f32], rows: usize, columns: Range<usize>, bias: Option<&[f32]>, out: &mut [f32]) {
    assert_eq!(x.len(), rows * w.k, "x");
    assert_eq!(out.len(), rows * columns.len(), "out");
    if out.is_empty() {
        return;
    }
    with_scratch(if rows == 1 { 0 } else { x.len() }, |scratch| {
        let tile_rows = launch(team.isa(), TileRows);
        let packed: &[f32] = if rows == 1 {
            x
        } else {
            pack_rows(team, x, w.k, tile_rows, scratch);
            scratch
        };
        let panels = columns.start / LANES..columns.end.div_ceil(LANES);
        let job = Job { w, x: packed, rows, tile_rows, columns, panels, bias, out: Disjoint::new(out) };
        job.share(team);
    });
}

/// One product, its x already packed as tiles `[K, rows of the tile]`.
struct Job<'a> {
    w: &'a PackedLinear,
    x: &'a [f32],
    rows: usize,
    tile_rows: usize,
    columns: Range<usize>,
    panels: Range<usize>,
    bias: Option<&'a [f32]>,
    out: Disjoint<'a>,
}

impl Job<'_> {
    /// Cuts the outputs into blocks of rows by chunks of panels and lets the team do them.
    fn share(&self, team: &Team) {
        let block = BLOCK_TILES * self.tile_rows;
        let blocks = self.rows.div_ceil(block);
        let count = self.panels.len();
        let chunk = if team.threads() == 1 || self.rows * self.w.k * count * LANES < SMALL {
            count
        } else {
            // Several chunks a thread, so that a thread that is late costs little; whole register tiles where there are enough.
            let even = count.div_ceil(4 * team.threads());
            if even > 4 { even.next_multiple_of(4) } else { even }
        };
        let chunks = count.div_ceil(chunk);
        let work = |task: usize| {
            // Neighbours share a chunk of weights.
            let (from, row) = (self.panels.start + task / blocks * chunk, task % blocks * block);
            let panels = from..(from + chunk).min(self.panels.end);
            launch(team.isa(), Block { job: self, rows: row..(row + block).min(self.rows), panels });
        };
        if chunk == count && self.rows * self.w.k * count * LANES < SMALL {
            (0..blocks).for_each(work);
        } else {
            team.run(chunks * blocks, work);
        }
    }
}

/// A block of rows by a chunk of panels.
struct Block<'a> {
    job: &'a Job<'a>,
    rows: Range<usize>,
    panels: Range<usize>,
}

impl Kernel for Block<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let first_rows = self.rows.len().min(S::ROWS);
        let wide = [4, 2, 1].into_iter().find(|p| first_rows * p <= S::TILE).unwrap_or(1);
        if self.rows.len() * self.job.w.k * size_of::<f32>() <= SMALL_X {
            // Each weight is read once, in the order of memory.
            let mut panel = self.panels.start;
            while panel < self.panels.end {
                let count = if panel + wide <= self.panels.end { wide } else { 1 };
                for from in runs(self.job.w.k) {
                    self.strip(s, panel, count, from);
                }
                panel += count;
            }
        } else {
            // Each run of x is read from far away once.
            for from in runs(self.job.w.k) {
                let mut panel = self.panels.start;
                while panel < self.panels.end {
                    let count = if panel + wide <= self.panels.end { wide } else { 1 };
                    self.strip(s, panel, count, from);
                    panel += count;
                }
            }
        }
    }
}

/// Where the runs over k begin. There is one even if k is 0: the outputs have to be written.
fn runs(k: usize) -> std::iter::StepBy<Range<usize>> {
    (0..k.max(1)).step_by(RUN)
}

impl Block<'_> {
    /// One run over k, `count` panels from `panel` on, all rows of the block.
    #[inline(always)]
    fn strip<S: Simd>(&self, s: S, panel: usize, count: usize, from: usize) {
        match count {
            4 => self.strip_of::<S, 4>(s, panel, from),
            2 => self.strip_of::<S, 2>(s, panel, from),
            _ => self.strip_of::<S, 1>(s, panel, from),
        }
    }

    #[inline(always)]
    fn strip_of<S: Simd, const P: usize>(&self, s: S, panel: usize, from: usize) {
        let job = self.job;
        let k = job.w.k;
        let run = RUN.min(k - from);
        let panels: [&[Line]; P] = std::array::from_fn(|p| &job.w.panel(panel + p)[from..from + run]);
        let column = panel * LANES - job.columns.start;
        let columns = (P * LANES).min(job.columns.len() - column);
        let bias = job.bias.filter(|_| from + run == k).map(|bias| &bias[job.columns.start + column..][..columns]);
        for row in self.rows.clone().step_by(S::ROWS) {
            let height = S::ROWS.min(self.rows.end - row);
            let x = &job.x[row * k + from * height..][..run * height];
            let place = Place { out: job.out, at: row * job.columns.len() + column, stride: job.columns.len(), columns };
            let ends = Ends { first: from == 0, bias, fetch: row == self.rows.start };
            // SAFETY: the rows of this block and the columns of this chunk lie within `out`, and no other task has them.
            unsafe { tile_of_height(s, height, x, panels, place, ends) };
        }
    }
}

/// [`tile`] for a height known only at run time.
///
/// # Safety
/// As for [`tile`].
#[inline(always)]
unsafe fn tile_of_height<S: Simd, const P: usize>(s: S, height: usize, x: &[f32], w: [&[Line]; P], place: Place<'_>, ends: Ends<'_>) {
    macro_rules! heights {
        ($($m:literal)+) => {
            match height {
                // Heights that this level never asks for are not compiled.
                // SAFETY: passed on to the caller.
                $($m if $m <= S::ROWS && $m * P <= S::TILE => unsafe { tile::<S, $m, P>(s, x, w, place, ends) },)+
                _ => unreachable!("a tile of {height} rows"),
            }
        };
    }
    heights!(1 2 3 4 5 6 7 8)
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

/// Turns `x [R, K]` into tiles `[K, tile_rows]`, one after the other, the last one perhaps with fewer rows.
fn pack_rows(team: &Team, x: &[f32], k: usize, tile_rows: usize, packed: &mut [f32]) {
    if k == 0 {
        return;
    }
    let parts = Disjoint::new(packed);
    let tiles = x.len().div_ceil(k * tile_rows);
    let pack = |tile: usize| {
        let from = tile * tile_rows * k;
        let rows = &x[from..(from + tile_rows * k).min(x.len())];
        let height = rows.len() / k;
        // SAFETY: within `packed`, which is as long as `x`; each tile has its own part.
        let to = unsafe { parts.part(from..from + rows.len()) };
        for (m, row) in rows.chunks_exact(k).enumerate() {
            for (to, value) in to[m..].iter_mut().step_by(height).zip(row) {
                *to = *value;
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
