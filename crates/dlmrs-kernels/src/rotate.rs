//! Rotary position embedding.

use crate::Team;
use crate::disjoint::Disjoint;
use crate::elementwise::share;
use crate::simd::{Kernel, LANES, Simd, launch};

/// Rotates the first `rotary_dim` dimensions of each head of `x [R, heads, D]` in place by the angles of its row, `cos` and `sin`
/// `[R, rotary_dim / 2]`: d pairs with d + rotary_dim / 2, and (a, b) becomes (a cos - b sin, b cos + a sin), each product rounded.
pub fn rotate(team: &Team, x: &mut [f32], heads: usize, head_dim: usize, rotary_dim: usize, cos: &[f32], sin: &[f32]) {
    let (row, half) = (heads * head_dim, rotary_dim / 2);
    assert!(rotary_dim.is_multiple_of(2) && rotary_dim <= head_dim, "rotary_dim");
    if x.is_empty() || half == 0 {
        return;
    }
    assert_eq!(x.len() % row, 0, "x");
    assert_eq!(cos.len(), x.len() / row * half, "cos");
    assert_eq!(sin.len(), cos.len(), "sin");
    let len = x.len();
    let parts = Disjoint::new(x);
    share(team, len, row, |range| {
        let angles = range.start / row * half..range.end / row * half;
        // SAFETY: within `x`; each task has its own rows.
        let x = unsafe { parts.part(range) };
        launch(team.isa(), Rotate { x, row, head_dim, half, cos: &cos[angles.clone()], sin: &sin[angles] });
    });
}

struct Rotate<'a> {
    x: &'a mut [f32],
    row: usize,
    head_dim: usize,
    half: usize,
    cos: &'a [f32],
    sin: &'a [f32],
}

impl Kernel for Rotate<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let angles = self.cos.chunks_exact(self.half).zip(self.sin.chunks_exact(self.half));
        for (x, (cos, sin)) in self.x.chunks_exact_mut(self.row).zip(angles) {
            for head in x.chunks_exact_mut(self.head_dim) {
                let (a, b) = head[..2 * self.half].split_at_mut(self.half);
                rotate_head(s, a, b, cos, sin);
            }
        }
    }
}

#[inline(always)]
fn rotate_head<S: Simd>(s: S, a: &mut [f32], b: &mut [f32], cos: &[f32], sin: &[f32]) {
    let (a, a_rest) = a.as_chunks_mut::<LANES>();
    let (b, b_rest) = b.as_chunks_mut::<LANES>();
    let (cos, cos_rest) = cos.as_chunks::<LANES>();
    let (sin, sin_rest) = sin.as_chunks::<LANES>();
    for ((a, b), (cos, sin)) in a.iter_mut().zip(b).zip(cos.iter().zip(sin)) {
        let (x, y) = pair(s, s.load(a), s.load(b), s.load(cos), s.load(sin));
        s.store(x, a);
        s.store(y, b);
    }
    if !a_rest.is_empty() {
        let some = |from: &[f32]| s.load_some(from, 0.0);
        let (x, y) = pair(s, some(a_rest), some(b_rest), some(cos_rest), some(sin_rest));
        s.store_some(x, a_rest);
        s.store_some(y, b_rest);
    }
}

/// No fused operation here: the public models round each product, and so do we.
#[inline(always)]
fn pair<S: Simd>(s: S, a: S::V, b: S::V, cos: S::V, sin: S::V) -> (S::V, S::V) {
    (s.sub(s.mul(a, cos), s.mul(b, sin)), s.add(s.mul(b, cos), s.mul(a, sin)))
}
