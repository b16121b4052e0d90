//! The types of weights that are multiplied as floats: what a line holds, and what x is packed to.

use crate::simd::{Simd, Words};

/// A type of weights that a float product knows.
pub(super) trait Format {
    /// Words of x that a line of weights takes.
    const STEP: usize;
    /// Numbers of x in one of its words.
    const IN_WORD: usize;
    /// Whether a word of x is the number itself.
    const AS_IT_IS: bool = false;
    /// A word of x, from [`Format::IN_WORD`] numbers or, at the end of a row, fewer.
    fn word(x: &[f32]) -> f32;
    /// The weights that meet word `step` of a line's x.
    fn weights<S: Simd>(s: S, line: &Words, step: usize) -> S::V;
    /// `sum` and the product of a word of x, in all lanes, with weights.
    fn add_product<S: Simd>(s: S, x: S::V, w: S::V, sum: S::V) -> S::V;
}

/// f32 by f32.
pub(super) struct F32;

impl Format for F32 {
    const STEP: usize = 1;
    const IN_WORD: usize = 1;
    const AS_IT_IS: bool = true;

    #[inline(always)]
    fn word(x: &[f32]) -> f32 {
        x[0]
    }

    #[inline(always)]
    fn weights<S: Simd>(s: S, line: &Words, _step: usize) -> S::V {
        s.load_bits(&line.0)
    }

    #[inline(always)]
    fn add_product<S: Simd>(s: S, x: S::V, w: S::V, sum: S::V) -> S::V {
        s.fma(x, w, sum)
    }
}

/// bf16 by f32. The same sums as [`F32`] has with the same weights, in the same order.
pub(super) struct Bf16;

impl Format for Bf16 {
    const STEP: usize = 2;
    const IN_WORD: usize = 1;
    const AS_IT_IS: bool = true;

    #[inline(always)]
    fn word(x: &[f32]) -> f32 {
        x[0]
    }

    #[inline(always)]
    fn weights<S: Simd>(s: S, line: &Words, step: usize) -> S::V {
        if step == 0 { s.load_low(&line.0) } else { s.load_high(&line.0) }
    }

    #[inline(always)]
    fn add_product<S: Simd>(s: S, x: S::V, w: S::V, sum: S::V) -> S::V {
        s.fma(x, w, sum)
    }
}

/// bf16 by bf16 where there are no products of pairs: the numbers of x are rounded and widened again, once for all outputs. The bits of
/// [`Bf16Pairs`] without the instruction, which then widens both factors for every product.
pub(super) struct Bf16Rounded;

impl Format for Bf16Rounded {
    const STEP: usize = Bf16::STEP;
    const IN_WORD: usize = 1;

    #[inline(always)]
    fn word(x: &[f32]) -> f32 {
        from_bf16(to_bf16(x[0]))
    }

    #[inline(always)]
    fn weights<S: Simd>(s: S, line: &Words, step: usize) -> S::V {
        Bf16::weights(s, line, step)
    }

    #[inline(always)]
    fn add_product<S: Simd>(s: S, x: S::V, w: S::V, sum: S::V) -> S::V {
        Bf16::add_product(s, x, w, sum)
    }
}

/// bf16 by bf16, in pairs.
pub(super) struct Bf16Pairs;

impl Format for Bf16Pairs {
    const STEP: usize = 1;
    const IN_WORD: usize = 2;

    #[inline(always)]
    fn word(x: &[f32]) -> f32 {
        f32::from_bits(pair(x[0], x.get(1).copied().unwrap_or(0.0)))
    }

    #[inline(always)]
    fn weights<S: Simd>(s: S, line: &Words, _step: usize) -> S::V {
        s.load_bits(&line.0)
    }

    #[inline(always)]
    fn add_product<S: Simd>(s: S, x: S::V, w: S::V, sum: S::V) -> S::V {
        s.dot_pairs(x, w, sum)
    }
}

/// Two numbers as bf16 in one word, the first one in its lower half.
#[inline(always)]
pub(super) fn pair(low: f32, high: f32) -> u32 {
    u32::from(to_bf16(low)) | (u32::from(to_bf16(high)) << 16)
}

/// The nearest bf16, the even one of two; a NaN stays one.
#[inline(always)]
pub(super) fn to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) as u16
}

/// The smallest bf16 that is not below a positive finite number.
#[inline(always)]
pub(super) fn to_bf16_up(value: f32) -> u16 {
    (value.to_bits().saturating_add(0xffff) >> 16) as u16
}

/// The f32 that a bf16 is.
#[inline(always)]
pub(super) fn from_bf16(value: u16) -> f32 {
    f32::from_bits(u32::from(value) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_and_the_even_one() {
        for (value, want) in [
            (1.0, 1.0),
            (1.0 + 1.0 / 256.0, 1.0),               // half way between 1 and 1 + 2^-7: the even one
            (1.0 + 3.0 / 256.0, 1.0 + 4.0 / 256.0), // half way, and the upper one is even
            (-1.004, -1.007_812_5),
            (f32::MAX, f32::INFINITY),
            (1e-45, 0.0),
            (f32::NEG_INFINITY, f32::NEG_INFINITY),
        ] {
            assert_eq!(from_bf16(to_bf16(value)), want, "{value}");
        }
        assert!(from_bf16(to_bf16(f32::NAN)).is_nan());
        assert!(from_bf16(to_bf16(f32::from_bits(0x7f80_0001))).is_nan());
    }

    #[test]
    fn upwards() {
        assert_eq!(from_bf16(to_bf16_up(1.0)), 1.0);
        assert_eq!(from_bf16(to_bf16_up(1.000_001)), 1.007_812_5);
    }
}
