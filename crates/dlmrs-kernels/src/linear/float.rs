//! Products of floats. How one is cut for the threads, the caches and the registers changes no order of a sum.

mod tile;

use std::marker::PhantomData;
use std::ops::Range;

use super::PackedLinear;
use super::ahead::Ahead;
use super::format::Format;
use super::place::Outputs;
use super::scratch::Scratch;
use super::share::{SMALL, share};
use super::walk::{At, Walk};
use crate::Team;
use crate::disjoint::Disjoint;
use crate::simd::{Kernel, Simd, Words, launch};
use tile::{Ends, tile_of_height};

/// Rows of a block, in tiles: a block's run of x (576 KiB at 8 rows a tile) stays in the second-level cache too.
const BLOCK_TILES: usize = 24;

/// Columns of `x * weight^T + bias`; see [`PackedLinear::matmul`].
pub(super) fn product<F: Format>(w: &PackedLinear, team: &Team, x: &[f32], rows: usize, to: Outputs<'_>) {
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
            let job = Job { w, x: packed, words, to };
            share(team, rows, BLOCK_TILES * tile_rows, job.to.panels(), w.k, |rows, panels| {
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
    to: Outputs<'a>,
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
        let bias = job.to.bias(panel, P).filter(|_| from + run == job.words);
        for (tile, row) in self.rows.clone().step_by(S::ROWS).enumerate() {
            let height = S::ROWS.min(self.rows.end - row);
            let x = &job.x[row * job.words + from * height..][..run * height];
            let place = job.to.place(row, panel, P);
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Isa;
    use crate::linear::WeightType;
    use crate::linear::format::{Bf16Pairs, Bf16Rounded};

    /// Where there are no products of pairs, rounding x once is only faster.
    #[test]
    fn rounded_inputs_have_the_bits_of_pairs() {
        for (n, k, rows) in [(1, 1, 1), (17, 33, 1), (40, 301, 9), (20, 3100, 3)] {
            let numbers =
                |len: usize| (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / 8_388_608.0 - 1.0).collect::<Vec<_>>();
            let (x, mut w) = (numbers(rows * k), PackedLinear::zeros(WeightType::Bf16Pairs, n, k));
            w.fill(&Team::alone(), 0, &numbers(n * k));
            for isa in Isa::available().into_iter().filter(|isa| *isa < Isa::Avx512Bf16) {
                let (team, mut pairs, mut rounded) = (Team::with_isa(1, isa).unwrap(), vec![0.0; rows * n], vec![1.0; rows * n]);
                product::<Bf16Pairs>(&w, &team, &x, rows, Outputs::new(0..n, None, &mut pairs));
                product::<Bf16Rounded>(&w, &team, &x, rows, Outputs::new(0..n, None, &mut rounded));
                assert!(pairs.iter().zip(&rounded).all(|(a, b)| a.to_bits() == b.to_bits()), "{n} x {k}, {rows} rows, {isa:?}");
            }
        }
    }
}
