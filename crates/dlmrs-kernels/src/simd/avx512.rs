//! AVX-512: 16 lanes in one register.

use std::arch::x86_64::*;

use super::tiles::Amx;
use super::{IntKernel, IntSimd, Kernel, LANES, Simd, TileKernel, Words};

/// Exists only where the CPU has AVX-512 (and VNNI or BF16, where it says so): the functions below make it, and nothing else can.
#[derive(Clone, Copy)]
pub(crate) struct Avx512<const VNNI: bool, const BF16: bool>(());

/// Runs a kernel with AVX-512.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
pub(super) fn launch<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(Avx512::<false, false>(()))
}

/// Runs a kernel with AVX-512 and its products of bf16.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
pub(super) fn launch_bf16<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(Avx512::<false, true>(()))
}

/// Runs a kernel over bytes with AVX-512 and its products of bytes.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
pub(super) fn launch_vnni<K: IntKernel>(kernel: K) -> K::Output {
    kernel.run(Avx512::<true, false>(()))
}

/// Runs a kernel over tiles with AMX, and with AVX-512 between the tiles.
///
/// # Safety
/// The CPU has AMX, and the system lets this process use it.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
pub(super) unsafe fn launch_tiles<K: TileKernel>(kernel: K) -> K::Output {
    // SAFETY: passed on to the caller.
    kernel.run(Avx512::<false, true>(()), unsafe { Amx::new() })
}

macro_rules! lanewise {
    ($name:ident($($arg:ident),+) => $value:expr) => {
        #[inline(always)]
        fn $name(self, $($arg: Self::V),+) -> Self::V {
            // SAFETY: `self` is the proof that the CPU has AVX-512.
            unsafe { $value }
        }
    };
}

impl<const VNNI: bool, const BF16: bool> Simd for Avx512<VNNI, BF16> {
    type V = __m512;
    const ROWS: usize = 8;
    const TILE: usize = 16;

    #[inline(always)]
    fn splat(self, value: f32) -> Self::V {
        // SAFETY: `self` is the proof that the CPU has AVX-512.
        unsafe { _mm512_set1_ps(value) }
    }

    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Self::V {
        // SAFETY: 16 floats may be read there, and `self` is the proof that the CPU has AVX-512.
        unsafe { _mm512_loadu_ps(from.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, v: Self::V, to: &mut [f32; LANES]) {
        // SAFETY: 16 floats may be written there, and `self` is the proof that the CPU has AVX-512.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), v) }
    }

    lanewise!(add(a, b) => _mm512_add_ps(a, b));
    lanewise!(sub(a, b) => _mm512_sub_ps(a, b));
    lanewise!(mul(a, b) => _mm512_mul_ps(a, b));
    lanewise!(div(a, b) => _mm512_div_ps(a, b));
    lanewise!(fma(a, b, c) => _mm512_fmadd_ps(a, b, c));
    lanewise!(max(a, b) => _mm512_max_ps(a, b));
    lanewise!(min(a, b) => _mm512_min_ps(a, b));
    lanewise!(scale(a, n) => _mm512_scalef_ps(a, n));

    #[inline(always)]
    fn load_bits(self, from: &[u32; LANES]) -> Self::V {
        // SAFETY: 16 words may be read there, and `self` is the proof that the CPU has AVX-512.
        unsafe { _mm512_castsi512_ps(_mm512_loadu_si512(from.as_ptr().cast())) }
    }

    #[inline(always)]
    fn load_low(self, from: &[u32; LANES]) -> Self::V {
        // SAFETY: as for `load_bits`.
        unsafe { _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_loadu_si512(from.as_ptr().cast()))) }
    }

    #[inline(always)]
    fn load_high(self, from: &[u32; LANES]) -> Self::V {
        // SAFETY: as for `load_bits`.
        unsafe {
            let words = _mm512_loadu_si512(from.as_ptr().cast());
            _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(0xffff_0000_u32 as i32)))
        }
    }

    #[inline(always)]
    fn load_whole(self, from: &[u32; LANES]) -> Self::V {
        // SAFETY: as for `load_bits`.
        unsafe { _mm512_cvtepi32_ps(_mm512_loadu_si512(from.as_ptr().cast())) }
    }

    // Left to the compiler, a loop over lines becomes one of gathers.
    #[inline(always)]
    fn split_bytes(self, from: &Words, low: &mut Words, high: &mut Words) {
        // SAFETY: 64 bytes may be read and written there, and `self` is the proof that the CPU has AVX-512.
        unsafe {
            let (bytes, mask) = (_mm512_loadu_si512((&raw const from.0).cast()), _mm512_set1_epi8(15));
            _mm512_storeu_si512((&raw mut low.0).cast(), _mm512_and_si512(bytes, mask));
            _mm512_storeu_si512((&raw mut high.0).cast(), _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), mask));
        }
    }

    #[inline(always)]
    fn dot_pairs(self, a: Self::V, b: Self::V, sum: Self::V) -> Self::V {
        if !BF16 {
            return super::dot_pairs(self, a, b, sum);
        }
        // SAFETY: `self` is the proof that the CPU has AVX-512 with BF16; a vector is 512 bits, whatever it holds.
        unsafe { _mm512_dpbf16_ps(sum, std::mem::transmute::<__m512, __m512bh>(a), std::mem::transmute::<__m512, __m512bh>(b)) }
    }

    #[inline(always)]
    fn prefetch(self, at: *const f32) {
        // SAFETY: a prefetch never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
}

impl<const BF16: bool> IntSimd for Avx512<true, BF16> {
    type I = __m512i;
    type W = __m512i;
    const INT_ROWS: usize = 8;
    const INT_TILE: usize = 16;

    // The instruction's first factor has no sign: the weights get 128 added, which is taken off here for all of a group.
    #[inline(always)]
    fn start8(self, sum: i32) -> Self::I {
        // SAFETY: `self` is the proof that the CPU has AVX-512.
        unsafe { _mm512_set1_epi32(-128 * sum) }
    }

    #[inline(always)]
    fn start4(self, sum: i32) -> Self::I {
        // SAFETY: `self` is the proof that the CPU has AVX-512.
        unsafe { _mm512_set1_epi32(-8 * sum) }
    }

    #[inline(always)]
    fn load8(self, from: &[u32; LANES]) -> Self::W {
        // SAFETY: 64 bytes may be read there, and `self` is the proof that the CPU has AVX-512.
        unsafe { _mm512_xor_si512(_mm512_loadu_si512(from.as_ptr().cast()), _mm512_set1_epi8(-128)) }
    }

    #[inline(always)]
    fn load4(self, from: &[u32; LANES]) -> [Self::W; 2] {
        // SAFETY: as above.
        unsafe {
            let (line, mask) = (_mm512_loadu_si512(from.as_ptr().cast()), _mm512_set1_epi8(15));
            [_mm512_and_si512(line, mask), _mm512_and_si512(_mm512_srli_epi16::<4>(line), mask)]
        }
    }

    #[inline(always)]
    fn dot8(self, sum: Self::I, w: Self::W, x: i32) -> Self::I {
        // SAFETY: `self` is the proof that the CPU has AVX-512 and VNNI.
        unsafe { _mm512_dpbusd_epi32(sum, w, _mm512_set1_epi32(x)) }
    }

    #[inline(always)]
    fn dot4(self, sum: Self::I, w: Self::W, x: i32) -> Self::I {
        self.dot8(sum, w, x)
    }

    #[inline(always)]
    fn to_f32(self, sum: Self::I) -> Self::V {
        // SAFETY: `self` is the proof that the CPU has AVX-512.
        unsafe { _mm512_cvtepi32_ps(sum) }
    }
}
