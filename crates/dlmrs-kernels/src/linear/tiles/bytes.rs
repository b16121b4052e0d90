//! Products with quantised weights over tiles: the sums of a group are those that vectors have, bit for bit.

mod rows;

use std::ops::Range;

use super::{PAIR_ROWS, Sums, parts, put_sums};
use crate::Team;
use crate::linear::PackedLinear;
use crate::linear::ahead::Ahead;
use crate::linear::groups::{Groups, IN_WORD};
use crate::linear::place::Outputs;
use crate::linear::share::share;
use crate::simd::{Line, Shape, Simd, TILE_ROWS, TileKernel, Tiles, TilesSet, Words, launch_tiles};
use rows::ByteTiles;

/// Rows of a block: its bytes stay in the second-level cache while the panels pass by.
const BLOCK: usize = 128;
/// Lines of bytes of the largest group.
const MOST_LINES: usize = 32;

/// How groups are cut into steps.
#[derive(Clone, Copy)]
struct Steps {
    groups: Groups,
    /// Words of a row of x in a step: 16, or 8 where a group has no more.
    words: usize,
    /// Words of x of a group, but for the last one.
    of_group: usize,
}

impl Steps {
    fn of(w: &PackedLinear) -> Steps {
        let of_group = w.kind.group().unwrap_or(0) / IN_WORD;
        Steps { groups: Groups::of(w.kind, w.k), words: of_group.min(16), of_group }
    }

    /// Words of x of group `g`, filled up to whole steps.
    #[inline(always)]
    fn words_of(&self, g: usize) -> usize {
        (self.groups.lines_of(g) * self.groups.in_line / IN_WORD).next_multiple_of(self.words)
    }

    /// Where group `g` stands in a tile of x, in lines of 16 words. A step's rows are as many lines as it has words.
    #[inline(always)]
    fn lines(&self, g: usize) -> Range<usize> {
        g * self.of_group..g * self.of_group + self.words_of(g)
    }

    /// Lines of a tile of x.
    fn all(&self) -> usize {
        self.groups.count().checked_sub(1).map_or(0, |last| self.lines(last).end)
    }
}

/// Columns of `x * weight^T + bias`; see [`PackedLinear::matmul`]. `HALF` says that weights are half bytes.
pub(in crate::linear) fn product<const HALF: bool>(w: &PackedLinear, team: &Team, x: &[f32], rows: usize, to: Outputs<'_>) {
    let steps = Steps::of(w);
    ByteTiles::with(team, x, rows, steps, |x| {
        let job = Job { w, x, steps, to };
        share(team, rows, BLOCK, job.to.panels(), w.k, |rows, panels| launch_tiles(team.isa(), Block::<HALF> { job: &job, rows, panels }));
    });
}

struct Job<'a> {
    w: &'a PackedLinear,
    x: &'a ByteTiles,
    steps: Steps,
    to: Outputs<'a>,
}

/// Sums of bytes of R tiles of rows by P panels.
type WholeSums<const R: usize, const P: usize> = [[[Words; TILE_ROWS]; P]; R];

/// What is worked with on the way.
struct Desk<const R: usize, const P: usize> {
    /// Sums of an even group and of the odd one after it.
    own: [WholeSums<R, P>; 2],
    /// A group's weights, where they are not as a tile wants them.
    bytes: [[Words; MOST_LINES]; P],
}

/// A block of rows by a chunk of panels.
struct Block<'a, const HALF: bool> {
    job: &'a Job<'a>,
    rows: Range<usize>,
    panels: Range<usize>,
}

impl<const HALF: bool> TileKernel for Block<'_, HALF> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, T: Tiles>(self, s: S, tiles: T) {
        let mut panel = self.panels.start;
        while panel < self.panels.end {
            if panel + 2 <= self.panels.end {
                self.strip::<S, T, 2>(s, tiles, panel);
                panel += 2;
            } else {
                self.strip::<S, T, 1>(s, tiles, panel);
                panel += 1;
            }
        }
    }
}

impl<const HALF: bool> Block<'_, HALF> {
    /// P panels from `panel` on, all rows of the block.
    #[inline(always)]
    fn strip<S: Simd, T: Tiles, const P: usize>(&self, s: S, tiles: T, panel: usize) {
        for (heights, rows) in parts(&self.rows) {
            if rows.is_empty() {
                continue;
            }
            let tiles = tiles.set(Shape { rows: heights, words: self.job.steps.words });
            match heights {
                [_, 0] => self.pairs::<S, _, 1, P>(s, &tiles, heights, rows, panel),
                _ => self.pairs::<S, _, 2, P>(s, &tiles, heights, rows, panel),
            }
        }
    }

    /// Panels from `panel` on, as far as there are so many.
    #[inline(always)]
    fn lines<const P: usize>(&self, panel: usize) -> [&[Words]; P] {
        std::array::from_fn(|p| self.job.w.panel((panel + p).min(self.panels.end - 1)))
    }

    /// Rows that are R tiles of these heights, or more of them.
    #[inline(always)]
    fn pairs<S: Simd, T: TilesSet, const R: usize, const P: usize>(
        &self,
        s: S,
        tiles: &T,
        heights: [usize; 2],
        rows: Range<usize>,
        panel: usize,
    ) {
        let job = self.job;
        let (panels, next) = (self.lines::<P>(panel), self.lines::<P>(panel + P));
        let bias = job.to.bias(panel, P);
        let turns = self.rows.len().div_ceil(PAIR_ROWS);
        let mut desk = Desk { own: [[[[Words::ZERO; TILE_ROWS]; P]; R]; 2], bytes: [[Words::ZERO; MOST_LINES]; P] };
        for row in rows.step_by(PAIR_ROWS) {
            let ahead = Ahead::new(panels, next, (row - self.rows.start) / PAIR_ROWS, turns);
            let mut until = ahead.start();
            let mut sums = [[[Line::ZERO; TILE_ROWS]; P]; R];
            // Two groups share a line of scales.
            for first in (0..job.steps.groups.count()).step_by(2) {
                let both = first..(first + 2).min(job.steps.groups.count());
                for g in both.clone() {
                    let from = job.steps.groups.line(g);
                    for line in 0..job.steps.groups.lines_of(g) {
                        ahead.fetch(s, from + line, &mut until);
                    }
                    self.group(s, tiles, row, g, panels, &mut desk);
                }
                self.add_scaled(s, (row, heights), both, panels, &desk.own, &mut sums);
            }
            let place = job.to.place(row, panel, P);
            // SAFETY: the rows of this block and the columns of this chunk lie within `out`, and no other task has them.
            unsafe { put_sums(s, &sums, heights, place, bias) };
        }
    }

    /// The sums of group `g` for the rows from `row` on; of half bytes with 8 added to each.
    #[inline(always)]
    fn group<S: Simd, T: TilesSet, const R: usize, const P: usize>(
        &self,
        s: S,
        tiles: &T,
        row: usize,
        g: usize,
        panels: [&[Words]; P],
        desk: &mut Desk<R, P>,
    ) {
        let (job, own) = (self.job, &mut desk.own[g % 2]);
        let x: [&[Words]; R] = std::array::from_fn(|r| &job.x.words(row / TILE_ROWS + r, job.steps)[job.steps.lines(g)]);
        let (from, lines, len) = (job.steps.groups.line(g), job.steps.groups.lines_of(g), x[0].len());
        if !HALF && lines == len {
            return tiles.dot_bytes(x, panels.map(|panel| &panel[from..from + lines]), own);
        }
        // What stands in the lines beyond the last one does not matter: x is zero there.
        for (bytes, panel) in desk.bytes.iter_mut().zip(panels) {
            let lines = &panel[from..from + lines];
            if HALF {
                for (two, line) in bytes.as_chunks_mut::<2>().0.iter_mut().zip(lines) {
                    let [low, high] = two;
                    s.split_bytes(line, low, high);
                }
            } else {
                bytes[..lines.len()].copy_from_slice(lines);
            }
        }
        tiles.dot_bytes(x, desk.bytes.each_ref().map(|lines| &lines[..len]), own);
    }

    /// Adds the sums of one or two groups, times the scales of weights and rows, in the order of the groups.
    #[allow(clippy::needless_range_loop, reason = "r, p and m are also the tile, the panel and the row")]
    #[inline(always)]
    fn add_scaled<S: Simd, const R: usize, const P: usize>(
        &self,
        s: S,
        (row, heights): (usize, [usize; 2]),
        groups: Range<usize>,
        panels: [&[Words]; P],
        own: &[WholeSums<R, P>; 2],
        sums: &mut Sums<R, P>,
    ) {
        let job = self.job;
        for r in 0..R {
            let tile = row / TILE_ROWS + r;
            let even = job.x.scales(tile, groups.start, job.steps);
            let of_rows = [even, if groups.len() == 2 { job.x.scales(tile, groups.start + 1, job.steps) } else { even }];
            for p in 0..P {
                let line = &panels[p][job.steps.groups.line(groups.start) - 1].0;
                let weights = [s.load_low(line), s.load_high(line)];
                for m in 0..heights[r] {
                    let mut sum = s.load(&sums[r][p][m].0);
                    for i in 0..groups.len() {
                        let (scales, offsets) = of_rows[i];
                        let mut own = s.load_whole(&own[i][r][p][m].0);
                        if HALF {
                            own = s.sub(own, s.splat(offsets[m]));
                        }
                        sum = s.fma(own, s.mul(weights[i], s.splat(scales[m])), sum);
                    }
                    s.store(sum, &mut sums[r][p][m].0);
                }
            }
        }
    }
}
