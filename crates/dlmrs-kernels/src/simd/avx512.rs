//! AVX-512: 16 lanes in one register.

use std::arch::x86_64::*;

use super::{Kernel, LANES, Simd};

/// Exists only where the CPU has AVX-512: `launch` makes it, and nothing else can.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(());

/// Runs a kernel with AVX-512.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
pub(super) fn launch<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(Avx512(()))
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

impl Simd for Avx512 {
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
    fn prefetch(self, at: *const f32) {
        // SAFETY: a prefetch never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
}
