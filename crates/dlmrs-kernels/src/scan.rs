//! Statistics of a tile of logits of one row.

use crate::Isa;
use crate::simd::{Kernel, LANES, LOWEST, Simd, exp, launch};

/// What is to be known of a tile to give the row's softmax, entropy and largest logit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TileStats {
    /// The largest logit; -inf for an empty tile.
    pub max: f32,
    /// The sum of exp(l - max).
    pub sum_exp: f32,
    /// The sum of exp(l - max) * (l - max).
    pub sum_exp_logit: f32,
    /// Whether there is a softmax at all: true if a logit is NaN or +inf. A NaN then counts as -inf.
    pub has_nan: bool,
}

/// The statistics of `logits [V]`, in one fixed order. A logit of -inf adds 0 to both sums; a tile of nothing else has
/// max = -inf and sums of 0.
pub fn tile_stats(isa: Isa, logits: &[f32]) -> TileStats {
    launch(isa, Stats { logits })
}

/// Replaces each logit by exp(l - max); by 0 if `max` is -inf.
pub fn exp_tile(isa: Isa, logits: &mut [f32], max: f32) {
    if max == f32::NEG_INFINITY {
        logits.fill(0.0);
    } else {
        launch(isa, ExpTile { logits, max });
    }
}

/// The index of the largest logit (the lowest of several), that logit, and the largest of the others, which may be equal.
/// What is missing is -inf, NaN counts as -inf, and of nothing at all the index is 0.
pub fn top_two(logits: &[f32]) -> (usize, f32, f32) {
    let largest = |logits: &[f32]| launch(Isa::detect(), Largest { logits });
    let max = largest(logits);
    let at = logits.iter().position(|l| *l == max).unwrap_or(0);
    let (before, after) = logits.split_at(at);
    (at, max, largest(before).max(largest(after.get(1..).unwrap_or_default())))
}

struct Largest<'a> {
    logits: &'a [f32],
}

impl Kernel for Largest<'_> {
    type Output = f32;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f32 {
        largest(s, self.logits)
    }
}

/// The largest logit, NaN passed over. Not a sum: the order has no influence.
#[inline(always)]
fn largest<S: Simd>(s: S, logits: &[f32]) -> f32 {
    let none = s.splat(f32::NEG_INFINITY);
    let mut max = [none; 4];
    let (body, rest) = logits.as_chunks::<LANES>();
    let (fours, ones) = body.as_chunks::<4>();
    for four in fours {
        for i in 0..4 {
            // The running maximum comes second: it is what remains where a logit is NaN.
            max[i] = s.max(s.load(&four[i]), max[i]);
        }
    }
    for one in ones {
        max[0] = s.max(s.load(one), max[0]);
    }
    max[0] = s.max(s.load_some(rest, f32::NEG_INFINITY), max[0]);
    s.largest(s.max(s.max(max[0], max[1]), s.max(max[2], max[3])))
}

struct Stats<'a> {
    logits: &'a [f32],
}

impl Kernel for Stats<'_> {
    type Output = TileStats;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> TileStats {
        let has_nan = self.logits.iter().fold(false, |any, l| any | (l.is_nan() | (*l == f32::INFINITY)));
        let max = largest(s, self.logits);
        if max == f32::NEG_INFINITY {
            return TileStats { max, sum_exp: 0.0, sum_exp_logit: 0.0, has_nan };
        }
        let mut sums = (s.splat(0.0), s.splat(0.0));
        let (body, rest) = self.logits.as_chunks::<LANES>();
        for l in body {
            sums = add(s, sums, s.load(l), max);
        }
        sums = add(s, sums, s.load_some(rest, f32::NEG_INFINITY), max);
        TileStats { max, sum_exp: s.sum(sums.0), sum_exp_logit: s.sum(sums.1), has_nan }
    }
}

#[inline(always)]
fn add<S: Simd>(s: S, sums: (S::V, S::V), l: S::V, max: f32) -> (S::V, S::V) {
    // At the lowest exponent exp is 0, and 0 times a finite number is 0: neither -inf nor NaN gets into the sums.
    let d = s.max(s.sub(l, s.splat(max)), s.splat(LOWEST));
    let e = exp(s, d);
    (s.add(sums.0, e), s.fma(e, d, sums.1))
}

struct ExpTile<'a> {
    logits: &'a mut [f32],
    max: f32,
}

impl Kernel for ExpTile<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let max = s.splat(self.max);
        let (body, rest) = self.logits.as_chunks_mut::<LANES>();
        for l in body {
            s.store(exp(s, s.sub(s.load(l), max)), l);
        }
        s.store_some(exp(s, s.sub(s.load_some(rest, 0.0), max)), rest);
    }
}
