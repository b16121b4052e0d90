//! What is done to each element, or to each row, on its own.

use std::ops::Range;

use crate::Team;
use crate::disjoint::Disjoint;
use crate::simd::{Kernel, LANES, Simd, exp, launch};

/// Elements below which a thread is not worth waking.
const CHUNK: usize = 1 << 14;

/// Shares `len` elements, whole units of `unit` each, among the team.
pub(crate) fn share(team: &Team, len: usize, unit: usize, f: impl Fn(Range<usize>) + Sync) {
    let units = len / unit.max(1);
    let chunk = if team.threads() == 1 { units } else { CHUNK.div_ceil(unit.max(1)) };
    team.run(units.div_ceil(chunk.max(1)), |task| f(task * chunk * unit..((task + 1) * chunk).min(units) * unit));
}

/// `out [R, C] = x / sqrt(mean(x^2) + eps) * weight [C]`, row by row: the squares are summed in one fixed order, each element is
/// multiplied by the inverse root and then by its weight.
pub fn rms_norm(team: &Team, x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let columns = weight.len();
    assert!(columns > 0 || x.is_empty(), "weight");
    assert_eq!(x.len() % columns.max(1), 0, "x");
    assert_eq!(out.len(), x.len(), "out");
    let parts = Disjoint::new(out);
    share(team, x.len(), columns, |range| {
        // SAFETY: within `out`, which is as long as `x`; each task has its own range.
        let out = unsafe { parts.part(range.clone()) };
        launch(team.isa(), RmsNorm { x: &x[range], weight, eps, out });
    });
}

struct RmsNorm<'a> {
    x: &'a [f32],
    weight: &'a [f32],
    eps: f32,
    out: &'a mut [f32],
}

impl Kernel for RmsNorm<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let columns = self.weight.len();
        let (weights, weight_rest) = self.weight.as_chunks::<LANES>();
        for (x, out) in self.x.chunks_exact(columns).zip(self.out.chunks_exact_mut(columns)) {
            let (body, rest) = x.as_chunks::<LANES>();
            let mut squares = s.splat(0.0);
            for x in body {
                let x = s.load(x);
                squares = s.fma(x, x, squares);
            }
            let tail = s.load_some(rest, 0.0);
            squares = s.fma(tail, tail, squares);
            let inverse = s.splat(1.0 / (s.sum(squares) / columns as f32 + self.eps).sqrt());
            let (out_body, out_rest) = out.as_chunks_mut::<LANES>();
            for ((x, w), out) in body.iter().zip(weights).zip(out_body) {
                s.store(s.mul(s.mul(s.load(x), inverse), s.load(w)), out);
            }
            s.store_some(s.mul(s.mul(tail, inverse), s.load_some(weight_rest, 0.0)), out_rest);
        }
    }
}

/// `gate = silu(gate) * up`, with silu(g) = g / (1 + exp(-g)).
pub fn silu_mul(team: &Team, gate: &mut [f32], up: &[f32]) {
    zip(team, gate, up, SiluMul);
}

/// `x = x + y`.
pub fn add_assign(team: &Team, x: &mut [f32], y: &[f32]) {
    zip(team, x, y, Add);
}

/// A function of two elements.
trait Two: Copy + Sync {
    /// Must be `#[inline(always)]`.
    fn apply<S: Simd>(self, s: S, a: S::V, b: S::V) -> S::V;
}

#[derive(Clone, Copy)]
struct SiluMul;

impl Two for SiluMul {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, gate: S::V, up: S::V) -> S::V {
        let e = exp(s, s.sub(s.splat(0.0), gate));
        s.mul(s.div(gate, s.add(s.splat(1.0), e)), up)
    }
}

#[derive(Clone, Copy)]
struct Add;

impl Two for Add {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, a: S::V, b: S::V) -> S::V {
        s.add(a, b)
    }
}

/// Replaces each element of `a` by a function of itself and that of `b`.
fn zip(team: &Team, a: &mut [f32], b: &[f32], f: impl Two) {
    assert_eq!(a.len(), b.len(), "the second operand");
    let len = a.len();
    let parts = Disjoint::new(a);
    share(team, len, 1, |range| {
        // SAFETY: within `a`; each task has its own range.
        let a = unsafe { parts.part(range.clone()) };
        launch(team.isa(), Zip { a, b: &b[range], f });
    });
}

struct Zip<'a, F> {
    a: &'a mut [f32],
    b: &'a [f32],
    f: F,
}

impl<F: Two> Kernel for Zip<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (a, a_rest) = self.a.as_chunks_mut::<LANES>();
        let (b, b_rest) = self.b.as_chunks::<LANES>();
        for (a, b) in a.iter_mut().zip(b) {
            s.store(self.f.apply(s, s.load(a), s.load(b)), a);
        }
        s.store_some(self.f.apply(s, s.load_some(a_rest, 0.0), s.load_some(b_rest, 0.0)), a_rest);
    }
}
