//! Products of tiles: up to 16 rows of x by 16 outputs, over all inputs of a step at once.
//!
//! A step takes up to 16 words of each row: pairs of bf16, or four bytes each. Its weights are as many lines of a packed panel, one line a
//! word, which is how AMX wants them. Where there is no AMX, [`Emulated`] computes the same in plain loops, and tests compare the two.

#[cfg(target_arch = "x86_64")]
mod amx;
mod emulated;

#[cfg(target_arch = "x86_64")]
pub(super) use amx::Amx;
use emulated::Emulated;

use super::scalar::Scalar;
use super::{Line, Simd, Words};
use crate::Isa;

/// Rows of a tile of x.
pub(crate) const TILE_ROWS: usize = 16;

/// The sizes of the tiles that are multiplied: one or two of x, by one or two panels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Rows of the tiles of x, 0 for a second one that is not there.
    pub(crate) rows: [usize; 2],
    /// Words of a row of x in a step: 8 or 16.
    pub(crate) words: usize,
}

/// Lines that are fetched from memory while others are multiplied.
#[derive(Clone, Copy)]
pub(crate) struct Fetch<const P: usize> {
    /// Where to go on from, in each panel. Any address will do.
    pub(crate) from: [*const Words; P],
    /// So many lines a step; at least one.
    pub(crate) lines: usize,
}

/// Something that multiplies tiles.
pub(crate) trait Tiles: Copy {
    /// Set to the sizes of the tiles.
    type Set: TilesSet;
    /// Sets the sizes. One set at a time on a thread: it ends when it is dropped.
    fn set(self, shape: Shape) -> Self::Set;
}

/// The products of tiles of a size.
///
/// R is 2 if the shape has two tiles of x, or else 1. A tile of x takes 16 rows of `words` words a step, one after the other; a step of a panel
/// takes `words` lines. All slices have the same length.
pub(crate) trait TilesSet {
    /// Adds the products of pairs of bf16, a step's pairs first: the products of its first halves are added up, and those of the second ones,
    /// and then both sums. 16 words a step. Numbers below 2^-126 are taken for zero.
    fn add_pairs<const R: usize, const P: usize>(
        &self,
        x: [&[Words]; R],
        w: [&[Words]; P],
        sums: &mut [[[Line; TILE_ROWS]; P]; R],
        fetch: Fetch<P>,
    );

    /// Writes the sums of products of bytes with a sign.
    fn dot_bytes<const R: usize, const P: usize>(&self, x: [&[Words]; R], w: [&[Words]; P], sums: &mut [[[Words; TILE_ROWS]; P]; R]);
}

/// A kernel with its arguments, over tiles and vectors.
pub(crate) trait TileKernel {
    type Output;
    /// Must be `#[inline(always)]`.
    fn run<S: Simd, T: Tiles>(self, s: S, tiles: T) -> Self::Output;
}

/// Runs a kernel with AMX at that level, and at a lower one in plain loops altogether, for the tests.
#[inline]
pub(crate) fn launch_tiles<K: TileKernel>(isa: Isa, kernel: K) -> K::Output {
    match isa.min(Isa::best()) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `best` has seen the features, and the permission.
        Isa::Amx => unsafe { super::avx512::launch_tiles(kernel) },
        _ => kernel.run(Scalar, Emulated),
    }
}
