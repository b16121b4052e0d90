//! A few queries over the keys that all of them see: scores, softmax, weighted values.

use std::cell::Cell;
use std::ops::Range;

use super::AttentionPass;
use super::{scores, values};
use crate::disjoint::Disjoint;
use crate::simd::{Kernel, LANES, Line, Simd};

/// Queries of a task at most: each key and value that is fetched serves so many.
pub(super) const WIDTH: usize = 4 * LANES;

/// Keys, or values, that are copied side by side before they are used. In a pass they lie far apart, often by a power of two, where
/// caches hold few of them. 16 KiB at D = 128.
pub(super) const RUN: usize = 32;

/// Queries of one class and one key/value head. Query i is head i % (H / G) of the group in row i / (H / G) of the class.
pub(super) struct Task<'a> {
    pub(super) pass: &'a AttentionPass<'a>,
    pub(super) out: Disjoint<'a>,
    /// The rows of the class.
    pub(super) rows: &'a [u32],
    /// The keys that they see, T of them.
    pub(super) keys: &'a [u32],
    pub(super) g: usize,
    pub(super) queries: Range<usize>,
}

impl Kernel for Task<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (d, t) = (self.pass.head_dim, self.keys.len());
        if t == 0 || d == 0 {
            (0..self.queries.len()).for_each(|i| self.result(i).fill(0.0));
            return;
        }
        let (vectors, wide) = (self.queries.len().div_ceil(LANES), d.div_ceil(LANES));
        // Not by a function that takes a closure: a closure would be compiled without this level's instructions.
        let mut scratch = SCRATCH.take();
        let [q, run, scores, sums] = split(&mut scratch, [vectors * d, RUN * wide, vectors * t, self.queries.len() * wide]);
        self.gather(q);
        for (index, keys) in self.keys.chunks(RUN).enumerate() {
            self.copy(keys, AttentionPass::key, run);
            scores::score(s, &run[..keys.len() * wide], q, d, self.pass.scale, scores, t, index * RUN);
        }
        let mut totals = [Line::ZERO; WIDTH / LANES];
        for (scores, total) in scores.chunks_exact_mut(t).zip(&mut totals) {
            scores::softmax(s, scores, total);
        }
        sums.fill(Line::ZERO);
        for (index, keys) in self.keys.chunks(RUN).enumerate() {
            self.copy(keys, AttentionPass::value, run);
            let values = &run[..keys.len() * wide];
            for (scores, sums) in scores.chunks_exact(t).zip(sums.chunks_mut(LANES * wide)) {
                values::weigh(s, &scores[index * RUN..][..keys.len()], values, sums, wide);
            }
        }
        for (i, sums) in sums.chunks_exact(wide).enumerate() {
            let total = s.splat(totals[i / LANES].0[i % LANES]);
            for (sum, out) in sums.iter().zip(self.result(i).chunks_mut(LANES)) {
                s.store_some(s.div(s.load(&sum.0), total), out);
            }
        }
        SCRATCH.set(scratch);
    }
}

impl<'a> Task<'a> {
    /// Where query `i` of the task stands among `q` and `out`.
    #[inline(always)]
    fn place(&self, i: usize) -> Range<usize> {
        let pass = self.pass;
        let group = pass.heads / pass.kv_heads;
        let query = self.queries.start + i;
        let at = (self.rows[query / group] as usize * pass.heads + self.g * group + query % group) * pass.head_dim;
        at..at + pass.head_dim
    }

    #[inline(always)]
    fn result(&self, i: usize) -> &'a mut [f32] {
        // SAFETY: `out` is as long as `q`; each query of each head belongs to one task, which takes one result at a time.
        unsafe { self.out.part(self.place(i)) }
    }

    /// The queries as lanes: `q [vectors, D]`, zeros in lanes without one.
    #[inline(always)]
    fn gather(&self, q: &mut [Line]) {
        q.fill(Line::ZERO);
        for i in 0..self.queries.len() {
            let lines = &mut q[i / LANES * self.pass.head_dim..];
            for (line, value) in lines.iter_mut().zip(&self.pass.q[self.place(i)]) {
                line.0[i % LANES] = *value;
            }
        }
    }

    /// The entries that `keys` mean, side by side in `run`, each in whole lines filled up with zeros.
    #[inline(always)]
    fn copy(&self, keys: &[u32], entry: impl Fn(&AttentionPass<'a>, usize, u32) -> &'a [f32], run: &mut [Line]) {
        for (key, lines) in keys.iter().zip(run.chunks_exact_mut(self.pass.head_dim.div_ceil(LANES))) {
            let (whole, rest) = entry(self.pass, self.g, *key).as_chunks::<LANES>();
            for (line, whole) in lines.iter_mut().zip(whole) {
                line.0 = *whole;
            }
            if let ([.., last], false) = (lines, rest.is_empty()) {
                *last = Line::ZERO;
                last.0[..rest.len()].copy_from_slice(rest);
            }
        }
    }
}

thread_local! {
    /// Kept by the thread for its next task.
    static SCRATCH: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

/// Buffers of the given lengths with anything in them.
fn split(scratch: &mut Vec<Line>, lengths: [usize; 4]) -> [&mut [Line]; 4] {
    let len = lengths.iter().sum();
    if scratch.len() < len {
        scratch.resize(len, Line::ZERO);
    }
    let mut rest = scratch.as_mut_slice();
    lengths.map(|len| {
        let (first, others) = std::mem::take(&mut rest).split_at_mut(len);
        rest = others;
        first
    })
}
