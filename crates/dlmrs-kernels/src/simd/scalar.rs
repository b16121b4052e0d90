//! Plain Rust, which the compiler turns into whatever vectors the target always has.

use super::{IntSimd, LANES, Simd, high_half, low_half};

#[derive(Clone, Copy)]
pub(crate) struct Scalar;

macro_rules! lanewise {
    ($name:ident($($arg:ident),+) => $value:expr) => {
        #[inline(always)]
        fn $name(self, $($arg: Self::V),+) -> Self::V {
            let mut out = [0.0; LANES];
            for i in 0..LANES {
                $(let $arg = $arg[i];)+
                out[i] = $value;
            }
            out
        }
    };
}

/// Added to a small number and subtracted again, it leaves the nearest whole number; the sum holds that number in its low bits.
const WHOLE: f32 = 12_582_912.0;

#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits(((n + 127) << 23) as u32)
}

impl Simd for Scalar {
    type V = [f32; LANES];
    const ROWS: usize = 2;
    const TILE: usize = 2;

    #[inline(always)]
    fn splat(self, value: f32) -> Self::V {
        [value; LANES]
    }

    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Self::V {
        *from
    }

    #[inline(always)]
    fn store(self, v: Self::V, to: &mut [f32; LANES]) {
        *to = v;
    }

    lanewise!(add(a, b) => a + b);
    lanewise!(sub(a, b) => a - b);
    lanewise!(mul(a, b) => a * b);
    lanewise!(div(a, b) => a / b);
    // Where the target has no such instruction, `mul_add` is a call into the C library, a hundred times slower.
    lanewise!(fma(a, b, c) => if cfg!(any(target_arch = "aarch64", target_feature = "fma")) { a.mul_add(b, c) } else { a * b + c });
    lanewise!(max(a, b) => if a > b { a } else { b });
    lanewise!(min(a, b) => if a < b { a } else { b });
    // In two steps, because 2^n alone may not be a normal number where the product still is one.
    lanewise!(scale(a, n) => {
        let n = (n + WHOLE).to_bits().wrapping_sub(WHOLE.to_bits()) as i32;
        // A NaN gives any n at all, and stays one whatever it is multiplied with.
        let n = n.clamp(-160, 160);
        a * power_of_two(n >> 1) * power_of_two(n - (n >> 1))
    });

    #[inline(always)]
    fn load_bits(self, from: &[u32; LANES]) -> Self::V {
        from.map(f32::from_bits)
    }

    #[inline(always)]
    fn load_low(self, from: &[u32; LANES]) -> Self::V {
        from.map(low_half)
    }

    #[inline(always)]
    fn load_high(self, from: &[u32; LANES]) -> Self::V {
        from.map(high_half)
    }

    #[inline(always)]
    fn load_whole(self, from: &[u32; LANES]) -> Self::V {
        from.map(|word| word as i32 as f32)
    }

    #[inline(always)]
    fn prefetch(self, _at: *const f32) {}
}

/// The four bytes of a word, with their signs.
#[inline(always)]
fn bytes(word: u32) -> [i32; 4] {
    word.to_le_bytes().map(|byte| i32::from(byte as i8))
}

impl IntSimd for Scalar {
    type I = [i32; LANES];
    type W = [u32; LANES];
    const INT_ROWS: usize = 2;
    const INT_TILE: usize = 2;

    #[inline(always)]
    fn start8(self, _sum: i32) -> Self::I {
        [0; LANES]
    }

    #[inline(always)]
    fn start4(self, sum: i32) -> Self::I {
        [-8 * sum; LANES]
    }

    #[inline(always)]
    fn load8(self, from: &[u32; LANES]) -> Self::W {
        *from
    }

    #[inline(always)]
    fn load4(self, from: &[u32; LANES]) -> [Self::W; 2] {
        [from.map(|word| word & 0x0f0f_0f0f), from.map(|word| (word >> 4) & 0x0f0f_0f0f)]
    }

    #[inline(always)]
    fn dot8(self, mut sum: Self::I, w: Self::W, x: i32) -> Self::I {
        let x = bytes(x as u32);
        for lane in 0..LANES {
            let w = bytes(w[lane]);
            sum[lane] += w[0] * x[0] + w[1] * x[1] + w[2] * x[2] + w[3] * x[3];
        }
        sum
    }

    #[inline(always)]
    fn dot4(self, sum: Self::I, w: Self::W, x: i32) -> Self::I {
        self.dot8(sum, w, x)
    }

    #[inline(always)]
    fn to_f32(self, sum: Self::I) -> Self::V {
        sum.map(|sum| sum as f32)
    }
}
