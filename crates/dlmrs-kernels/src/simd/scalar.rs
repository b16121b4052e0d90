//! Plain Rust, which the compiler turns into whatever vectors the target always has.

use super::{LANES, Simd};

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
    fn prefetch(self, _at: *const f32) {}
}
