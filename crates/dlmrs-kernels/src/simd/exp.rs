//! e^x on 16 lanes.

use super::Simd;

/// At and below this, [`exp`] is 0.
pub(crate) const LOWEST: f32 = -110.0;
/// At and above this, [`exp`] is infinite.
const HIGHEST: f32 = 90.0;

/// Added to a number of at most 2^21 in size and subtracted again, it leaves the nearest whole number.
const WHOLE: f32 = 12_582_912.0;
/// ln 2 as the sum of two numbers, the first short enough for its product with a whole number of 8 bits to be exact.
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;
/// (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2, the highest power first (the polynomial of Moshier's Cephes).
const POLYNOMIAL: [f32; 6] = [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5];

/// e^x within 2 units in the last place, also where the result is below the normal numbers; 0 for -inf, inf for inf, NaN for NaN.
#[inline(always)]
pub(crate) fn exp<S: Simd>(s: S, x: S::V) -> S::V {
    // `x` comes second, so that a NaN gets through.
    let x = s.min(s.splat(HIGHEST), s.max(s.splat(LOWEST), x));
    // x = n ln 2 + r
    let whole = s.splat(WHOLE);
    let n = s.sub(s.fma(x, s.splat(std::f32::consts::LOG2_E), whole), whole);
    let r = s.fma(n, s.splat(-LN_2_HIGH), x);
    let r = s.fma(n, s.splat(-LN_2_LOW), r);
    let mut p = s.splat(POLYNOMIAL[0]);
    for c in &POLYNOMIAL[1..] {
        p = s.fma(p, r, s.splat(*c));
    }
    let p = s.add(s.fma(s.mul(r, r), p, r), s.splat(1.0));
    s.scale(p, n)
}
