//! Products of bytes, four of them to a lane of 32 bits.
//!
//! Sums of bytes are exact, so every level has the same ones.

use super::{LANES, Simd, scalar};
use crate::Isa;

#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};

/// The operations on weights of a byte or half a byte. x is four bytes with a sign, none of them -128, for all lanes.
pub(crate) trait IntSimd: Simd {
    /// 16 sums of 32 bits.
    type I: Copy;
    /// 16 lanes of four weights.
    type W: Copy;
    /// Rows of a full register tile.
    const INT_ROWS: usize;
    /// Vectors of sums of a group that fit into the registers beside the operands.
    const INT_TILE: usize;

    /// Where the sum over a group with [`IntSimd::dot8`] begins; `sum` is that of the group's x.
    fn start8(self, sum: i32) -> Self::I;
    /// Where the sum over a group with [`IntSimd::dot4`] begins: half bytes are stored with 8 added, which is taken off here.
    fn start4(self, sum: i32) -> Self::I;
    /// A line of bytes, none of them -128.
    fn load8(self, from: &[u32; LANES]) -> Self::W;
    /// A line of half bytes: the lower ones, and the upper ones.
    fn load4(self, from: &[u32; LANES]) -> [Self::W; 2];
    /// `sum` and in each lane the products of its four bytes with x.
    fn dot8(self, sum: Self::I, w: Self::W, x: i32) -> Self::I;
    /// `sum` and in each lane the products of its four half bytes with x.
    fn dot4(self, sum: Self::I, w: Self::W, x: i32) -> Self::I;
    /// Sums below 2^24 in size stay exact.
    fn to_f32(self, sum: Self::I) -> Self::V;
}

/// A kernel over bytes with its arguments.
pub(crate) trait IntKernel {
    type Output;
    /// Must be `#[inline(always)]`.
    fn run<S: IntSimd>(self, s: S) -> Self::Output;
}

/// Runs a kernel at a level, or at the best the CPU has where that is lower. AVX-512 without products of bytes is no better at them
/// than AVX2.
#[inline]
pub(crate) fn launch_int<K: IntKernel>(isa: Isa, kernel: K) -> K::Output {
    match isa.min(Isa::best()) {
        Isa::Scalar => kernel.run(scalar::Scalar),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `best` has seen these features.
        Isa::Avx2 | Isa::Avx512 => unsafe { avx2::launch_int(kernel) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Isa::Avx512Vnni | Isa::Avx512Bf16 | Isa::Amx => unsafe { avx512::launch_vnni(kernel) },
        #[cfg(not(target_arch = "x86_64"))]
        _ => kernel.run(scalar::Scalar),
    }
}
