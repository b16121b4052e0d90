//! Products of pairs of bf16 over tiles.

use std::ops::Range;

use super::{PAIR_ROWS, parts, put_sums, take_sums};
use crate::Team;
use crate::disjoint::Disjoint;
use crate::linear::PackedLinear;
use crate::linear::format::pair;
use crate::linear::place::Outputs;
use crate::linear::scratch::Scratch;
use crate::linear::share::{SMALL, share};
use crate::linear::walk::{At, Walk};
use crate::simd::{Fetch, Line, Shape, Simd, TILE_ROWS, TileKernel, Tiles, TilesSet, Words, launch_tiles};

/// Words of a row of x, and lines of a panel, in a step.
const STEP: usize = 16;
/// Rows of a block: its run of x stays in the second-level cache while the panels pass by.
const BLOCK: usize = 192;
/// How far ahead of a step its panels are fetched, in lines, where there are no more rows to come.
const AHEAD: usize = 2 * STEP;

/// Columns of `x * weight^T + bias`; see [`PackedLinear::matmul`].
pub(in crate::linear) fn product(w: &PackedLinear, team: &Team, x: &[f32], rows: usize, to: Outputs<'_>) {
    thread_local!(static SCRATCH: Scratch<Words> = const { Scratch::new() });
    let words = w.k.div_ceil(2);
    let tile = words.next_multiple_of(STEP);
    SCRATCH.with(|scratch| {
        scratch.lend(rows.div_ceil(TILE_ROWS) * tile, Words::ZERO, |packed| {
            pack_rows(team, x, w.k, packed);
            let job = Job { w, x: packed, tile, words, to };
            share(team, rows, BLOCK, job.to.panels(), w.k, |rows, panels| launch_tiles(team.isa(), Block { job: &job, rows, panels }));
        });
    });
}

/// Turns `x [R, K]` into tiles of 16 rows, `[steps, 16 rows, 16 words]`. Rows beyond the last one stay as they are: nothing reads them.
fn pack_rows(team: &Team, x: &[f32], k: usize, packed: &mut [Words]) {
    if k == 0 {
        return;
    }
    let (rows, tile) = (x.len() / k, k.div_ceil(2).next_multiple_of(STEP));
    let parts = Disjoint::new(packed);
    let pack = |index: usize| {
        // SAFETY: within `packed`, which has as much for each tile; each has its own part.
        let to = unsafe { parts.part(index * tile..(index + 1) * tile) };
        let rows = &x[index * TILE_ROWS * k..((index + 1) * TILE_ROWS).min(rows) * k];
        for (m, row) in rows.chunks_exact(k).enumerate() {
            for (to, numbers) in to[m..].iter_mut().step_by(TILE_ROWS).zip(row.chunks(2 * STEP)) {
                *to = match numbers.as_chunks::<2>() {
                    (pairs, []) if pairs.len() == STEP => Words(std::array::from_fn(|i| pair(pairs[i][0], pairs[i][1]))),
                    // The end of a row is filled up with zeros.
                    _ => Words(std::array::from_fn(|i| {
                        let number = |i: usize| numbers.get(i).copied().unwrap_or(0.0);
                        pair(number(2 * i), number(2 * i + 1))
                    })),
                };
            }
        }
    };
    let tiles = rows.div_ceil(TILE_ROWS);
    if x.len() < SMALL {
        (0..tiles).for_each(pack);
    } else {
        team.run(tiles, pack);
    }
}

/// One product, its x already packed.
struct Job<'a> {
    w: &'a PackedLinear,
    x: &'a [Words],
    /// Lines of a tile of x.
    tile: usize,
    /// Words of a row of x.
    words: usize,
    to: Outputs<'a>,
}

/// A block of rows by a chunk of panels.
struct Block<'a> {
    job: &'a Job<'a>,
    rows: Range<usize>,
    panels: Range<usize>,
}

/// A run over x with P panels: their whole steps, and what is left, filled up with zeros.
struct Strip<'a, const P: usize> {
    at: At,
    /// Whether no run follows.
    last: bool,
    whole: [&'a [Words]; P],
    rest: Option<[[Words; STEP]; P]>,
    /// What comes after it.
    next: [*const Words; P],
}

impl TileKernel for Block<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, T: Tiles>(self, s: S, tiles: T) {
        let walk = Walk::new(self.rows.len(), self.job.words, self.panels.clone(), 2);
        let mut at = walk.first();
        loop {
            let count = walk.count(at);
            let next = walk.after(at, count);
            match count {
                2 => self.strip(s, tiles, &self.lines::<2>(&walk, at, next)),
                _ => self.strip(s, tiles, &self.lines::<1>(&walk, at, next)),
            }
            match next {
                Some(next) => at = next,
                None => return,
            }
        }
    }
}

impl Block<'_> {
    #[inline(always)]
    fn lines<const P: usize>(&self, walk: &Walk, at: At, next: Option<At>) -> Strip<'_, P> {
        let (run, next) = (walk.run(at), next.unwrap_or(at));
        let middle = run.start + run.len() / STEP * STEP;
        let panel = |at, p| self.job.w.panel(walk.panel(at, p));
        let rest = (middle < run.end).then(|| {
            std::array::from_fn(|p| {
                let mut lines = [Words::ZERO; STEP];
                lines[..run.end - middle].copy_from_slice(&panel(at, p)[middle..run.end]);
                lines
            })
        });
        let whole = std::array::from_fn(|p| &panel(at, p)[run.start..middle]);
        Strip { at, last: run.end == self.job.words, whole, rest, next: std::array::from_fn(|p| panel(next, p)[next.from..].as_ptr()) }
    }

    /// All rows of the block.
    #[inline(always)]
    fn strip<S: Simd, T: Tiles, const P: usize>(&self, s: S, tiles: T, strip: &Strip<'_, P>) {
        for (heights, rows) in parts(&self.rows) {
            if rows.is_empty() {
                continue;
            }
            let tiles = tiles.set(Shape { rows: heights, words: STEP });
            match heights {
                [_, 0] => self.pairs::<S, _, 1, P>(s, &tiles, heights, rows, strip),
                _ => self.pairs::<S, _, 2, P>(s, &tiles, heights, rows, strip),
            }
        }
    }

    /// Rows that are R tiles of these heights, or more of them.
    #[inline(always)]
    fn pairs<S: Simd, T: TilesSet, const R: usize, const P: usize>(
        &self,
        s: S,
        tiles: &T,
        heights: [usize; 2],
        rows: Range<usize>,
        strip: &Strip<'_, P>,
    ) {
        let (job, At { panel, from }) = (self.job, strip.at);
        let len = strip.whole[0].len();
        let bias = job.to.bias(panel, P).filter(|_| strip.last);
        for row in rows.step_by(PAIR_ROWS) {
            let x = |r: usize| &job.x[(row / TILE_ROWS + r) * job.tile + from..];
            let place = job.to.place(row, panel, P);
            let mut sums = [[[Line::ZERO; TILE_ROWS]; P]; R];
            if from > 0 {
                // SAFETY: the rows of this block and the columns of this chunk lie within `out`, and no other task has them.
                sums = unsafe { take_sums::<S, R, P>(s, heights, place) };
            }
            tiles.add_pairs(std::array::from_fn(|r| &x(r)[..len]), strip.whole, &mut sums, self.fetch(row, strip));
            if let Some(rest) = &strip.rest {
                let fetch = Fetch { from: strip.next, lines: 1 };
                tiles.add_pairs(std::array::from_fn(|r| &x(r)[len..len + STEP]), rest.each_ref().map(|lines| &lines[..]), &mut sums, fetch);
            }
            // SAFETY: as above.
            unsafe { put_sums(s, &sums, heights, place, bias) };
        }
    }

    /// The lines that are needed soon: a little ahead where these rows are all there are, and else a share of what comes after all rows.
    #[inline(always)]
    fn fetch<const P: usize>(&self, row: usize, strip: &Strip<'_, P>) -> Fetch<P> {
        let turns = self.rows.len().div_ceil(PAIR_ROWS);
        if turns == 1 {
            return Fetch { from: strip.whole.map(|lines| lines.as_ptr().wrapping_add(AHEAD)), lines: STEP };
        }
        let (turn, lines) = ((row - self.rows.start) / PAIR_ROWS, STEP.div_ceil(turns));
        let done = turn * lines * (strip.whole[0].len() / STEP);
        Fetch { from: strip.next.map(|from| from.wrapping_add(done)), lines }
    }
}
