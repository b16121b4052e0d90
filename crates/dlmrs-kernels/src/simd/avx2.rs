//! AVX2 and FMA: 16 lanes in two registers.

use std::arch::x86_64::*;

use super::{IntKernel, IntSimd, Kernel, LANES, Simd};

/// Exists only where the CPU has AVX2 and FMA: `launch` makes it, and nothing else can.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(());

/// Runs a kernel with AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub(super) fn launch<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(Avx2(()))
}

/// Runs a kernel over bytes with AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub(super) fn launch_int<K: IntKernel>(kernel: K) -> K::Output {
    kernel.run(Avx2(()))
}

macro_rules! lanewise {
    ($name:ident($($arg:ident),+) => $value:expr) => {
        #[inline(always)]
        fn $name(self, $($arg: Self::V),+) -> Self::V {
            // SAFETY: `self` is the proof that the CPU has AVX2 and FMA.
            unsafe { [{ $(let $arg = $arg[0];)+ $value }, { $(let $arg = $arg[1];)+ $value }] }
        }
    };
}

/// 2^n for whole n between -126 and 127.
#[inline(always)]
unsafe fn power_of_two(n: __m256i) -> __m256 {
    // SAFETY: the caller has AVX2.
    unsafe { _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(n, _mm256_set1_epi32(127)))) }
}

/// Two halves of a line.
#[inline(always)]
unsafe fn halves(from: &[u32; LANES]) -> [__m256i; 2] {
    let at = from.as_ptr().cast::<__m256i>();
    // SAFETY: 64 bytes may be read there, and the caller has AVX2.
    unsafe { [_mm256_loadu_si256(at), _mm256_loadu_si256(at.add(1))] }
}

impl Simd for Avx2 {
    type V = [__m256; 2];
    const ROWS: usize = 6;
    const TILE: usize = 6;

    #[inline(always)]
    fn splat(self, value: f32) -> Self::V {
        // SAFETY: `self` is the proof that the CPU has AVX2.
        unsafe { [_mm256_set1_ps(value); 2] }
    }

    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Self::V {
        let at = from.as_ptr();
        // SAFETY: 16 floats may be read at `at`, and `self` is the proof that the CPU has AVX2.
        unsafe { [_mm256_loadu_ps(at), _mm256_loadu_ps(at.add(8))] }
    }

    #[inline(always)]
    fn store(self, v: Self::V, to: &mut [f32; LANES]) {
        let at = to.as_mut_ptr();
        // SAFETY: 16 floats may be written at `at`, and `self` is the proof that the CPU has AVX2.
        unsafe {
            _mm256_storeu_ps(at, v[0]);
            _mm256_storeu_ps(at.add(8), v[1]);
        }
    }

    lanewise!(add(a, b) => _mm256_add_ps(a, b));
    lanewise!(sub(a, b) => _mm256_sub_ps(a, b));
    lanewise!(mul(a, b) => _mm256_mul_ps(a, b));
    lanewise!(div(a, b) => _mm256_div_ps(a, b));
    lanewise!(fma(a, b, c) => _mm256_fmadd_ps(a, b, c));
    lanewise!(max(a, b) => _mm256_max_ps(a, b));
    lanewise!(min(a, b) => _mm256_min_ps(a, b));
    // In two steps, because 2^n alone may not be a normal number where the product still is one.
    lanewise!(scale(a, n) => {
        let n = _mm256_cvtps_epi32(n);
        let half = _mm256_srai_epi32::<1>(n);
        _mm256_mul_ps(_mm256_mul_ps(a, power_of_two(half)), power_of_two(_mm256_sub_epi32(n, half)))
    });

    #[inline(always)]
    fn load_bits(self, from: &[u32; LANES]) -> Self::V {
        // SAFETY: `self` is the proof that the CPU has AVX2.
        unsafe { halves(from).map(|half| _mm256_castsi256_ps(half)) }
    }

    #[inline(always)]
    fn load_low(self, from: &[u32; LANES]) -> Self::V {
        // SAFETY: `self` is the proof that the CPU has AVX2.
        unsafe { halves(from).map(|half| _mm256_castsi256_ps(_mm256_slli_epi32::<16>(half))) }
    }

    #[inline(always)]
    fn load_high(self, from: &[u32; LANES]) -> Self::V {
        // SAFETY: `self` is the proof that the CPU has AVX2.
        unsafe { halves(from).map(|half| _mm256_castsi256_ps(_mm256_and_si256(half, _mm256_set1_epi32(0xffff_0000_u32 as i32)))) }
    }

    #[inline(always)]
    fn load_whole(self, from: &[u32; LANES]) -> Self::V {
        // SAFETY: `self` is the proof that the CPU has AVX2 and FMA.
        unsafe { halves(from).map(|half| _mm256_cvtepi32_ps(half)) }
    }

    #[inline(always)]
    fn prefetch(self, at: *const f32) {
        // SAFETY: a prefetch never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
}

impl IntSimd for Avx2 {
    type I = [__m256i; 2];
    type W = [__m256i; 2];
    const INT_ROWS: usize = 4;
    const INT_TILE: usize = 4;

    #[inline(always)]
    fn start8(self, _sum: i32) -> Self::I {
        // SAFETY: `self` is the proof that the CPU has AVX2.
        unsafe { [_mm256_setzero_si256(); 2] }
    }

    #[inline(always)]
    fn start4(self, sum: i32) -> Self::I {
        // SAFETY: `self` is the proof that the CPU has AVX2.
        unsafe { [_mm256_set1_epi32(-8 * sum); 2] }
    }

    #[inline(always)]
    fn load8(self, from: &[u32; LANES]) -> Self::W {
        // SAFETY: `self` is the proof that the CPU has AVX2.
        unsafe { halves(from) }
    }

    #[inline(always)]
    fn load4(self, from: &[u32; LANES]) -> [Self::W; 2] {
        // SAFETY: `self` is the proof that the CPU has AVX2.
        unsafe {
            let (line, mask) = (halves(from), _mm256_set1_epi8(15));
            [line.map(|half| _mm256_and_si256(half, mask)), line.map(|half| _mm256_and_si256(_mm256_srli_epi16::<4>(half), mask))]
        }
    }

    // The first factor of the instruction has no sign, so the weight's is given to x. No byte is -128, so two products stay below 2^15.
    #[inline(always)]
    fn dot8(self, sum: Self::I, w: Self::W, x: i32) -> Self::I {
        // SAFETY: `self` is the proof that the CPU has AVX2.
        unsafe {
            let (x, ones) = (_mm256_set1_epi32(x), _mm256_set1_epi16(1));
            std::array::from_fn(|half| {
                let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w[half]), _mm256_sign_epi8(x, w[half]));
                _mm256_add_epi32(sum[half], _mm256_madd_epi16(pairs, ones))
            })
        }
    }

    #[inline(always)]
    fn dot4(self, sum: Self::I, w: Self::W, x: i32) -> Self::I {
        // SAFETY: `self` is the proof that the CPU has AVX2.
        unsafe {
            let (x, ones) = (_mm256_set1_epi32(x), _mm256_set1_epi16(1));
            std::array::from_fn(|half| {
                let pairs = _mm256_maddubs_epi16(w[half], x);
                _mm256_add_epi32(sum[half], _mm256_madd_epi16(pairs, ones))
            })
        }
    }

    #[inline(always)]
    fn to_f32(self, sum: Self::I) -> Self::V {
        // SAFETY: `self` is the proof that the CPU has AVX2.
        unsafe { sum.map(|half| _mm256_cvtepi32_ps(half)) }
    }
}
