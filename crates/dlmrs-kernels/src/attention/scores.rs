//! Products of queries and keys, and what softmax makes of them.

use crate::simd::{LANES, Line, Simd, exp};

/// `scores [vectors, T]`, from key `at` on, = scale * `keys [run, D]` * `q [vectors, D]`, summed over D from first to last. The keys lie
/// in whole lines, the queries are the lanes.
#[allow(clippy::too_many_arguments, reason = "three arrays and their shapes")]
#[inline(always)]
pub(super) fn score<S: Simd>(s: S, keys: &[Line], q: &[Line], d: usize, scale: f32, scores: &mut [Line], t: usize, at: usize) {
    let wide = d.div_ceil(LANES);
    let scale = s.splat(scale);
    let mut q = q;
    let mut scores = scores;
    // Two vectors of queries at a time, where the registers suffice.
    while !q.is_empty() {
        let count = if 2 * S::ROWS <= S::TILE && q.len() >= 2 * d { 2 } else { 1 };
        let (these, others) = q.split_at(count * d);
        let (to, rest) = scores.split_at_mut(count * t);
        for (index, keys) in keys.chunks(S::ROWS * wide).enumerate() {
            let at = at + index * S::ROWS;
            macro_rules! heights {
                ($($m:literal)+) => {
                    match (keys.len() / wide, count) {
                        $(($m, 2) if $m <= S::ROWS && 2 * S::ROWS <= S::TILE => {
                            block::<S, $m, 2>(s, keys, wide, [&these[..d], &these[d..]], scale, to, at);
                        })+
                        $(($m, 1) if $m <= S::ROWS => block::<S, $m, 1>(s, keys, wide, [these], scale, to, at),)+
                        (height, _) => unreachable!("a block of {height} keys"),
                    }
                };
            }
            heights!(1 2 3 4 5 6 7 8);
        }
        (q, scores) = (others, rest);
    }
}

/// M keys and P vectors of queries.
#[allow(clippy::needless_range_loop, reason = "m and p index several arrays at once")]
#[inline(always)]
fn block<S: Simd, const M: usize, const P: usize>(
    s: S,
    keys: &[Line],
    wide: usize,
    q: [&[Line]; P],
    scale: S::V,
    scores: &mut [Line],
    at: usize,
) {
    let d = q[0].len();
    let keys: [&[f32]; M] = std::array::from_fn(|m| &Line::flat(&keys[m * wide..][..wide])[..d]);
    assert!(q.iter().all(|q| q.len() == d));
    let mut sums = [[s.splat(0.0); P]; M];
    for i in 0..d {
        let mut lanes = [s.splat(0.0); P];
        for p in 0..P {
            // SAFETY: i < d, the length of each.
            lanes[p] = s.load(unsafe { &q[p].get_unchecked(i).0 });
        }
        for m in 0..M {
            // SAFETY: i < d, the length of each.
            let key = s.splat(unsafe { *keys[m].get_unchecked(i) });
            for p in 0..P {
                sums[m][p] = s.fma(key, lanes[p], sums[m][p]);
            }
        }
    }
    let t = scores.len() / P;
    for m in 0..M {
        for p in 0..P {
            s.store(s.mul(sums[m][p], scale), &mut scores[p * t + at + m].0);
        }
    }
}

/// Turns scores `[T]` of 16 queries into exp(score - max), and adds these up in order.
#[inline(always)]
pub(super) fn softmax<S: Simd>(s: S, scores: &mut [Line], total: &mut Line) {
    let mut max = s.splat(f32::NEG_INFINITY);
    for line in scores.iter() {
        max = s.max(s.load(&line.0), max);
    }
    let mut sum = s.splat(0.0);
    for line in scores.iter_mut() {
        let e = exp(s, s.sub(s.load(&line.0), max));
        sum = s.add(sum, e);
        s.store(e, &mut line.0);
    }
    s.store(sum, &mut total.0);
}
