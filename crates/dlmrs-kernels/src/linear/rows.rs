//! Rows of x as bytes, for products with quantised weights.

use std::cell::Cell;

use super::groups::{Groups, IN_WORD};
use super::share::SMALL;
use crate::disjoint::Disjoint;
use crate::simd::{Kernel, LANES, Simd, launch};
use crate::{Isa, Team};

/// The largest byte; its negative is the smallest one, so that products are symmetric.
const LARGEST: f32 = 127.0;
/// Inputs of the largest group.
const MOST_INPUTS: usize = 128;
/// Added to a small number, it leaves the nearest whole one (the even of two) in the low bits.
const WHOLE: f32 = 12_582_912.0;

/// `x [R, K]` as bytes, in tiles of `tile_rows` rows, the last one perhaps with fewer. Each group of a row has a scale of its own, so a
/// row's bytes depend on that row alone.
#[derive(Default)]
pub(super) struct ByteRows {
    /// Four bytes to a word; `[words, rows of the tile]`.
    words: Vec<i32>,
    /// `[groups, rows of the tile]`
    scales: Vec<f32>,
    /// The sum of a group's bytes, `[groups, rows of the tile]`.
    sums: Vec<i32>,
}

/// The parts of one tile of H rows.
#[derive(Clone, Copy)]
pub(super) struct ByteTile<'a> {
    /// `[words, H]`
    pub(super) words: &'a [i32],
    /// `[groups, H]`
    pub(super) scales: &'a [f32],
    /// `[groups, H]`
    pub(super) sums: &'a [i32],
}

impl ByteRows {
    /// Calls `f` with `x [R, K]` rounded to bytes; the memory is kept by the thread for the next product.
    pub(super) fn with(team: &Team, x: &[f32], rows: usize, groups: Groups, tile_rows: usize, f: impl FnOnce(&ByteRows)) {
        thread_local!(static SCRATCH: Cell<ByteRows> = const { Cell::new(ByteRows { words: Vec::new(), scales: Vec::new(), sums: Vec::new() }) });
        let mut bytes = SCRATCH.take();
        bytes.round(team, x, rows, groups, tile_rows);
        f(&bytes);
        SCRATCH.set(bytes);
    }

    /// The tile of `height` rows whose first row is `row`.
    pub(super) fn tile(&self, row: usize, height: usize, groups: Groups) -> ByteTile<'_> {
        let (words, count) = (groups.words(), groups.count());
        ByteTile {
            words: &self.words[row * words..][..height * words],
            scales: &self.scales[row * count..][..height * count],
            sums: &self.sums[row * count..][..height * count],
        }
    }

    fn round(&mut self, team: &Team, x: &[f32], rows: usize, groups: Groups, tile_rows: usize) {
        let (words, count, k) = (groups.words(), groups.count(), x.len() / rows.max(1));
        self.words.resize(rows * words, 0);
        self.scales.resize(rows * count, 0.0);
        self.sums.resize(rows * count, 0);
        let all = (Disjoint::new(&mut self.words), Disjoint::new(&mut self.scales), Disjoint::new(&mut self.sums));
        let tile = |tile: usize| {
            let (row, height) = (tile * tile_rows, tile_rows.min(rows - tile * tile_rows));
            // SAFETY: rows `row..row + height` of each, which belong to this tile alone.
            let (words, scales, sums) = unsafe {
                (
                    all.0.part(row * words..(row + height) * words),
                    all.1.part(row * count..(row + height) * count),
                    all.2.part(row * count..(row + height) * count),
                )
            };
            round_tile(team.isa(), &x[row * k..(row + height) * k], height, groups, (words, scales, sums));
        };
        let tiles = rows.div_ceil(tile_rows);
        if x.len() < SMALL {
            (0..tiles).for_each(tile);
        } else {
            team.run(tiles, tile);
        }
    }
}

fn round_tile(isa: Isa, x: &[f32], height: usize, groups: Groups, to: (&mut [i32], &mut [f32], &mut [i32])) {
    let k = x.len() / height;
    launch(isa, RoundTile { x, k, height, groups, to });
}

struct RoundTile<'a> {
    x: &'a [f32],
    k: usize,
    height: usize,
    groups: Groups,
    to: (&'a mut [i32], &'a mut [f32], &'a mut [i32]),
}

impl Kernel for RoundTile<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _s: S) {
        let (words, scales, sums) = self.to;
        for m in 0..self.height {
            let row = &self.x[m * self.k..][..self.k];
            for g in 0..self.groups.count() {
                let numbers = &row[self.groups.inputs(g)];
                let scale = scale_of(numbers);
                let inverse = inverse_of(scale);
                let from = self.groups.word(g) * self.height + m;
                let own = self.groups.lines_of(g) * (self.groups.in_line / IN_WORD);
                let places = words[from..].iter_mut().step_by(self.height).take(own);
                let (bytes, sum) = round_group(numbers, inverse);
                for (place, word) in places.zip(bytes) {
                    *place = word;
                }
                sums[g * self.height + m] = sum;
                scales[g * self.height + m] = scale;
            }
        }
    }
}

/// What the byte 1 stands for: NaN if a number is not finite, and 0 if all are too small for a scale.
#[inline(always)]
pub(super) fn scale_of(numbers: &[f32]) -> f32 {
    let (mut largest, mut poison) = ([0f32; LANES], [0f32; LANES]);
    let (whole, rest) = numbers.as_chunks::<LANES>();
    for chunk in whole {
        for lane in 0..LANES {
            largest[lane] = if chunk[lane].abs() > largest[lane] { chunk[lane].abs() } else { largest[lane] };
            poison[lane] += chunk[lane] * 0.0;
        }
    }
    for (lane, value) in rest.iter().enumerate() {
        largest[lane] = if value.abs() > largest[lane] { value.abs() } else { largest[lane] };
        poison[lane] += value * 0.0;
    }
    let scale = largest.into_iter().fold(0f32, f32::max) / LARGEST;
    let scale = if scale < f32::MIN_POSITIVE { 0.0 } else { scale };
    scale + poison.into_iter().sum::<f32>()
}

/// A group as bytes, four to a word and the rest zeros; and the sum of the bytes.
#[inline(always)]
pub(super) fn round_group(numbers: &[f32], inverse: f32) -> ([i32; MOST_INPUTS / IN_WORD], i32) {
    // Whole loops over plain arrays become vectors.
    let mut bytes = [0i8; MOST_INPUTS];
    for (byte, value) in bytes.iter_mut().zip(numbers) {
        *byte = ((value * inverse + WHOLE).to_bits() as i8).max(-127);
    }
    let mut words = [0; MOST_INPUTS / IN_WORD];
    for (word, four) in words.iter_mut().zip(bytes.as_chunks::<IN_WORD>().0) {
        *word = i32::from_le_bytes(four.map(|byte| byte as u8));
    }
    (words, bytes.iter().map(|byte| i32::from(*byte)).sum())
}

/// What a group's numbers are multiplied with to become bytes.
#[inline(always)]
pub(super) fn inverse_of(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}
