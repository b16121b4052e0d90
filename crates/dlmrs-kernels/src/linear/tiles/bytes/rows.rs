//! Rows of x as bytes, in tiles.

use super::Steps;
use crate::disjoint::Disjoint;
use crate::linear::rows::{inverse_of, round_group, scale_of};
use crate::linear::share::SMALL;
use crate::simd::{Kernel, Simd, TILE_ROWS, Words, launch};
use crate::{Isa, Team};
use std::cell::Cell;

/// `x [R, K]` as bytes in tiles of 16 rows, the bytes that vectors are given too. Rows beyond the last one are of any value.
#[derive(Default)]
pub(super) struct ByteTiles {
    /// `[tiles, steps, 16 rows, words of a step]`, zeros at the end of a short group.
    words: Vec<Words>,
    /// `[tiles, groups, 16 rows]`
    scales: Vec<[f32; TILE_ROWS]>,
    /// Eight times the sum of a group's bytes, `[tiles, groups, 16 rows]`: what half bytes with 8 added have too much.
    offsets: Vec<[f32; TILE_ROWS]>,
}

impl ByteTiles {
    /// Calls `f` with `x [R, K]` rounded to bytes; the memory is kept by the thread for the next product.
    pub(super) fn with(team: &Team, x: &[f32], rows: usize, steps: Steps, f: impl FnOnce(&ByteTiles)) {
        thread_local!(static SCRATCH: Cell<ByteTiles> =
            const { Cell::new(ByteTiles { words: Vec::new(), scales: Vec::new(), offsets: Vec::new() }) });
        let mut bytes = SCRATCH.take();
        bytes.round(team, x, rows, steps);
        f(&bytes);
        SCRATCH.set(bytes);
    }

    /// All steps of a tile.
    #[inline(always)]
    pub(super) fn words(&self, tile: usize, steps: Steps) -> &[Words] {
        &self.words[tile * steps.all()..][..steps.all()]
    }

    /// The scales of group `g` and its offsets, for each row of a tile.
    #[inline(always)]
    pub(super) fn scales(&self, tile: usize, g: usize, steps: Steps) -> (&[f32; TILE_ROWS], &[f32; TILE_ROWS]) {
        let at = tile * steps.groups.count() + g;
        (&self.scales[at], &self.offsets[at])
    }

    fn round(&mut self, team: &Team, x: &[f32], rows: usize, steps: Steps) {
        let (tiles, k, lines, groups) = (rows.div_ceil(TILE_ROWS), x.len() / rows.max(1), steps.all(), steps.groups.count());
        self.words.resize(tiles * lines, Words::ZERO);
        self.scales.resize(tiles * groups, [0.0; TILE_ROWS]);
        self.offsets.resize(tiles * groups, [0.0; TILE_ROWS]);
        let all = (Disjoint::new(&mut self.words), Disjoint::new(&mut self.scales), Disjoint::new(&mut self.offsets));
        let tile = |tile: usize| {
            let of_groups = tile * groups..(tile + 1) * groups;
            // SAFETY: each tile has its own part of each, and they were made as long as all tiles need.
            let to = unsafe { (all.0.part(tile * lines..(tile + 1) * lines), all.1.part(of_groups.clone()), all.2.part(of_groups)) };
            round_tile(team.isa(), &x[tile * TILE_ROWS * k..((tile + 1) * TILE_ROWS).min(rows) * k], k, steps, to);
        };
        if x.len() < SMALL {
            (0..tiles).for_each(tile);
        } else {
            team.run(tiles, tile);
        }
    }
}

type Parts<'a> = (&'a mut [Words], &'a mut [[f32; TILE_ROWS]], &'a mut [[f32; TILE_ROWS]]);

fn round_tile(isa: Isa, x: &[f32], k: usize, steps: Steps, to: Parts<'_>) {
    if k > 0 {
        launch(isa, RoundTile { x, k, steps, to });
    }
}

struct RoundTile<'a> {
    x: &'a [f32],
    k: usize,
    steps: Steps,
    to: Parts<'a>,
}

impl Kernel for RoundTile<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _s: S) {
        let (words, scales, offsets) = self.to;
        let step = self.steps.words;
        for (m, row) in self.x.chunks_exact(self.k).enumerate() {
            for g in 0..self.steps.groups.count() {
                let numbers = &row[self.steps.groups.inputs(g)];
                let scale = scale_of(numbers);
                let (bytes, sum) = round_group(numbers, inverse_of(scale));
                // A step's rows stand one after the other.
                let to = Words::flat_mut(&mut words[self.steps.lines(g)]);
                for (to, bytes) in to.chunks_exact_mut(TILE_ROWS * step).zip(bytes.chunks_exact(step)) {
                    for (to, word) in to[m * step..][..step].iter_mut().zip(bytes) {
                        *to = *word as u32;
                    }
                }
                scales[g][m] = scale;
                offsets[g][m] = (8 * sum) as f32;
            }
        }
    }
}
