//! Vectors of 16 lanes, so that a kernel is written once and compiled for each [`Isa`].
//!
//! A kernel is a [`Kernel`]: a struct of its arguments with a generic `run`. [`launch`] compiles `run` inside a function that may use
//! the instructions of the chosen level; everything on the way must be `#[inline(always)]`, or it would be compiled without them.
//! The type that stands for a level can only be had from `launch`, and is the proof that the CPU has it.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod exp;
mod integer;
mod scalar;
mod tiles;

pub(crate) use exp::{LOWEST, exp};
pub(crate) use integer::{IntKernel, IntSimd, launch_int};
pub(crate) use tiles::{Fetch, Shape, TILE_ROWS, TileKernel, Tiles, TilesSet, launch_tiles};

use crate::Isa;

/// Lanes of a vector.
pub(crate) const LANES: usize = 16;

/// One vector in memory, on a cache line of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [f32; LANES]);

impl Line {
    pub(crate) const ZERO: Line = Line([0.0; LANES]);

    /// The floats of several lines.
    #[inline(always)]
    pub(crate) fn flat(lines: &[Line]) -> &[f32] {
        // SAFETY: a line is 16 floats and nothing else, as its size says.
        unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), lines.len() * LANES) }
    }
}

const _: () = assert!(size_of::<Line>() == LANES * size_of::<f32>());

/// 64 bytes of a packed weight, on a cache line of their own: 16 f32 by their bits, 32 bf16, 64 bytes or 128 half bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub(crate) struct Words(pub(crate) [u32; LANES]);

impl Words {
    pub(crate) const ZERO: Words = Words([0; LANES]);

    /// The words of several lines.
    #[inline(always)]
    pub(crate) fn flat(lines: &[Words]) -> &[u32] {
        // SAFETY: a line is 16 words and nothing else, as its size says.
        unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), lines.len() * LANES) }
    }

    /// The words of several lines, to be written.
    #[inline(always)]
    pub(crate) fn flat_mut(lines: &mut [Words]) -> &mut [u32] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), lines.len() * LANES) }
    }
}

const _: () = assert!(size_of::<Words>() == LANES * size_of::<u32>());

/// The f32 that a bf16 in the low half of a word is.
#[inline(always)]
pub(crate) fn low_half(word: u32) -> f32 {
    f32::from_bits(word << 16)
}

/// The f32 that a bf16 in the high half of a word is.
#[inline(always)]
pub(crate) fn high_half(word: u32) -> f32 {
    f32::from_bits(word & 0xffff_0000)
}

/// The operations on 16 lanes. Each lane counts alone: its result depends on no other lane.
pub(crate) trait Simd: Copy {
    /// 16 lanes.
    type V: Copy;
    /// Rows of a full register tile.
    const ROWS: usize;
    /// Vectors of accumulators that fit into the registers beside the operands.
    const TILE: usize;

    fn splat(self, value: f32) -> Self::V;
    fn load(self, from: &[f32; LANES]) -> Self::V;
    fn store(self, v: Self::V, to: &mut [f32; LANES]);
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once where the level has such an instruction.
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// The larger one; `b` where either is NaN.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// The smaller one; `b` where either is NaN.
    fn min(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * 2^n` for whole n of at most 160 in size, exact unless the result is not a normal number.
    fn scale(self, a: Self::V, n: Self::V) -> Self::V;
    /// f32 by their bits.
    fn load_bits(self, from: &[u32; LANES]) -> Self::V;
    /// The f32 that the bf16 in the low halves are.
    fn load_low(self, from: &[u32; LANES]) -> Self::V;
    /// The f32 that the bf16 in the high halves are.
    fn load_high(self, from: &[u32; LANES]) -> Self::V;
    /// Whole numbers with a sign, by their bits. Exact below 2^24 in size.
    fn load_whole(self, from: &[u32; LANES]) -> Self::V;
    /// Says that this address is read soon. Any address will do.
    fn prefetch(self, at: *const f32);

    /// `sum + a.low * b.low + a.high * b.high` over pairs of bf16, held in the bits of `a` and `b`. Slow where there is no such instruction.
    #[inline(always)]
    fn dot_pairs(self, a: Self::V, b: Self::V, sum: Self::V) -> Self::V {
        dot_pairs(self, a, b, sum)
    }

    /// The lower halves of 64 bytes, and the upper ones, as bytes.
    #[inline(always)]
    fn split_bytes(self, from: &Words, low: &mut Words, high: &mut Words) {
        for lane in 0..LANES {
            low.0[lane] = from.0[lane] & 0x0f0f_0f0f;
            high.0[lane] = from.0[lane] >> 4 & 0x0f0f_0f0f;
        }
    }

    /// The first lanes from a slice of at most 16, the others `fill`.
    #[inline(always)]
    fn load_some(self, from: &[f32], fill: f32) -> Self::V {
        let mut lanes = [fill; LANES];
        lanes[..from.len()].copy_from_slice(from);
        self.load(&lanes)
    }

    /// The first lanes to a slice of at most 16.
    #[inline(always)]
    fn store_some(self, v: Self::V, to: &mut [f32]) {
        to.copy_from_slice(&self.lanes(v)[..to.len()]);
    }

    /// All lanes.
    #[inline(always)]
    fn lanes(self, v: Self::V) -> [f32; LANES] {
        let mut lanes = [0.0; LANES];
        self.store(v, &mut lanes);
        lanes
    }

    /// The sum of the lanes, always in the same order.
    #[inline(always)]
    fn sum(self, v: Self::V) -> f32 {
        let mut lanes = self.lanes(v);
        for half in [8, 4, 2, 1] {
            for i in 0..half {
                lanes[i] += lanes[i + half];
            }
        }
        lanes[0]
    }

    /// The largest lane; none may be NaN.
    #[inline(always)]
    fn largest(self, v: Self::V) -> f32 {
        self.lanes(v).into_iter().fold(f32::NEG_INFINITY, f32::max)
    }
}

/// [`Simd::dot_pairs`] by other operations.
#[inline(always)]
fn dot_pairs<S: Simd>(s: S, a: S::V, b: S::V, sum: S::V) -> S::V {
    let bits = |v| s.lanes(v).map(f32::to_bits);
    let (a, b) = (bits(a), bits(b));
    s.fma(s.load_high(&a), s.load_high(&b), s.fma(s.load_low(&a), s.load_low(&b), sum))
}

/// A kernel with its arguments.
pub(crate) trait Kernel {
    type Output;
    /// Must be `#[inline(always)]`.
    fn run<S: Simd>(self, s: S) -> Self::Output;
}

/// Runs a kernel at a level, or at the best the CPU has where that is lower.
#[inline]
pub(crate) fn launch<K: Kernel>(isa: Isa, kernel: K) -> K::Output {
    match isa.min(Isa::best()) {
        Isa::Scalar => kernel.run(scalar::Scalar),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `best` has seen these features.
        Isa::Avx2 => unsafe { avx2::launch(kernel) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Isa::Avx512 | Isa::Avx512Vnni => unsafe { avx512::launch(kernel) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Isa::Avx512Bf16 | Isa::Amx => unsafe { avx512::launch_bf16(kernel) },
        #[cfg(not(target_arch = "x86_64"))]
        _ => kernel.run(scalar::Scalar),
    }
}
