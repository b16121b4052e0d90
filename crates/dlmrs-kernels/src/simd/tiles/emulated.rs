//! Tiles in plain loops: what AMX computes, for every CPU.

use super::{Fetch, Shape, TILE_ROWS, Tiles, TilesSet};
use crate::simd::{LANES, Line, Words, high_half, low_half};

#[derive(Clone, Copy)]
pub(super) struct Emulated;

impl Tiles for Emulated {
    type Set = Shape;

    #[inline(always)]
    fn set(self, shape: Shape) -> Shape {
        shape
    }
}

impl Shape {
    /// The words of row `m` in each step of a tile of x.
    #[inline(always)]
    fn row<'a>(&self, x: &'a [Words], m: usize) -> impl Iterator<Item = &'a [u32]> {
        let words = self.words;
        x.chunks_exact(words).map(move |step| &Words::flat(step)[m * words..][..words])
    }
}

/// Zero for what is below the normal numbers.
#[inline(always)]
fn flushed(value: f32) -> f32 {
    if value.abs() < f32::MIN_POSITIVE { 0.0 } else { value }
}

impl TilesSet for Shape {
    #[inline(always)]
    fn add_pairs<const R: usize, const P: usize>(
        &self,
        x: [&[Words]; R],
        w: [&[Words]; P],
        sums: &mut [[[Line; TILE_ROWS]; P]; R],
        _fetch: Fetch<P>,
    ) {
        for (r, x) in x.into_iter().enumerate() {
            for m in 0..self.rows[r] {
                for (w, sums) in w.iter().zip(&mut sums[r]) {
                    for (x, w) in self.row(x, m).zip(w.chunks_exact(self.words)) {
                        let (mut even, mut odd) = ([0.0; LANES], [0.0; LANES]);
                        for (x, line) in x.iter().zip(w) {
                            for lane in 0..LANES {
                                // The product of two bf16 is exact, so that one rounding is as good as the fused two.
                                even[lane] = flushed(even[lane] + flushed(low_half(*x)) * flushed(low_half(line.0[lane])));
                                odd[lane] = flushed(odd[lane] + flushed(high_half(*x)) * flushed(high_half(line.0[lane])));
                            }
                        }
                        for (sum, (even, odd)) in sums[m].0.iter_mut().zip(even.into_iter().zip(odd)) {
                            *sum = flushed(flushed(*sum) + flushed(even + odd));
                        }
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn dot_bytes<const R: usize, const P: usize>(&self, x: [&[Words]; R], w: [&[Words]; P], sums: &mut [[[Words; TILE_ROWS]; P]; R]) {
        for (r, x) in x.into_iter().enumerate() {
            for m in 0..self.rows[r] {
                for (w, sums) in w.iter().zip(&mut sums[r]) {
                    let mut own = [0i32; LANES];
                    for (x, w) in self.row(x, m).zip(w.chunks_exact(self.words)) {
                        for (x, line) in x.iter().zip(w) {
                            own.iter_mut().zip(line.0).for_each(|(own, w)| *own += dot_word(*x, w));
                        }
                    }
                    sums[m] = Words(own.map(|sum| sum as u32));
                }
            }
        }
    }
}

/// The products of four bytes with a sign.
#[inline(always)]
fn dot_word(x: u32, w: u32) -> i32 {
    let signed = |word: u32| word.to_le_bytes().map(|byte| i32::from(byte as i8));
    signed(x).into_iter().zip(signed(w)).map(|(x, w)| x * w).sum()
}
