//! Attention of the rows of a pass to the keys that they see.

mod plan;
mod reference;
mod scores;
mod task;
mod values;

pub use reference::attention_reference;

use crate::Team;
use crate::disjoint::Disjoint;

/// The rows of one pass. Keys come from the cache `[G, capacity, D]`, of which the first `cached` entries count, and from this pass
/// `[R, G, D]`. Query head h uses key/value head h / (H / G).
#[derive(Clone, Copy, Debug)]
pub struct AttentionPass<'a> {
    /// `[R, H, D]`, already rotated.
    pub q: &'a [f32],
    /// `[G, capacity, D]`; may be empty when `cached` is 0.
    pub cache_k: &'a [f32],
    /// `[G, capacity, D]`; may be empty when `cached` is 0.
    pub cache_v: &'a [f32],
    /// Entries that the cache has room for.
    pub capacity: usize,
    /// Entries of the cache that count.
    pub cached: usize,
    /// `[R, G, D]`, already rotated; the key rows may be more than the query rows `rows`.
    pub k: &'a [f32],
    /// `[R, G, D]`.
    pub v: &'a [f32],
    /// R.
    pub rows: usize,
    /// H.
    pub heads: usize,
    /// G.
    pub kv_heads: usize,
    /// D.
    pub head_dim: usize,
    /// What the products of queries and keys are multiplied with.
    pub scale: f32,
    /// Who sees whom.
    pub sight: &'a Sight,
}

/// Who sees whom: rows fall into classes of equal sight, and a class holds the visible keys in the order in which they are summed.
/// Index i < cached is an entry of the cache, cached + j is row j of the pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sight {
    /// `[R]`, the class of each row.
    pub class_of_row: Vec<u32>,
    /// The visible keys of each class.
    pub classes: Vec<Vec<u32>>,
}

/// Softmax attention of several passes, `out [R, H, D]` beside each; the threads share the work of all.
///
/// A row's scores, the sum of their exponentials and the weighted values are each summed in the order of its class's list. A row that
/// sees nothing gets zeros.
pub fn attention(team: &Team, passes: &mut [(AttentionPass<'_>, &mut [f32])]) {
    for (pass, out) in passes.iter() {
        pass.check(out);
    }
    let shared: Vec<(AttentionPass<'_>, Disjoint<'_>)> = passes.iter_mut().map(|(pass, out)| (*pass, Disjoint::new(out))).collect();
    plan::run(team, &shared);
}

impl<'a> AttentionPass<'a> {
    /// Panics where a slice does not have the shape that the numbers say.
    fn check(&self, out: &[f32]) {
        assert!(
            self.kv_heads > 0 && self.heads.is_multiple_of(self.kv_heads),
            "{} query heads share {} key heads",
            self.heads,
            self.kv_heads
        );
        assert_eq!(self.q.len(), self.rows * self.heads * self.head_dim, "q");
        assert_eq!(out.len(), self.q.len(), "out");
        let key_rows = self.k.len().checked_div(self.kv_heads * self.head_dim).unwrap_or(0);
        assert_eq!(self.k.len(), key_rows * self.kv_heads * self.head_dim, "k");
        assert_eq!(self.v.len(), self.k.len(), "v");
        assert!(self.cached <= self.capacity || self.cached == 0, "cached");
        if self.cached > 0 {
            assert_eq!(self.cache_k.len(), self.kv_heads * self.capacity * self.head_dim, "cache_k");
            assert_eq!(self.cache_v.len(), self.cache_k.len(), "cache_v");
        }
        assert_eq!(self.sight.class_of_row.len(), self.rows, "sight.class_of_row");
        assert!(self.sight.class_of_row.iter().all(|class| (*class as usize) < self.sight.classes.len()), "sight.class_of_row");
        let keys = self.cached + key_rows;
        assert!(self.sight.classes.iter().all(|class| class.iter().max().is_none_or(|key| (*key as usize) < keys)), "sight.classes");
    }

    /// The key of head `g` that an index means.
    #[inline(always)]
    fn key(&self, g: usize, index: u32) -> &'a [f32] {
        self.entry(self.cache_k, self.k, g, index as usize)
    }

    /// The value of head `g` that an index means.
    #[inline(always)]
    fn value(&self, g: usize, index: u32) -> &'a [f32] {
        self.entry(self.cache_v, self.v, g, index as usize)
    }

    #[inline(always)]
    fn entry(&self, cache: &'a [f32], pass: &'a [f32], g: usize, index: usize) -> &'a [f32] {
        match index.checked_sub(self.cached) {
            None => &cache[(g * self.capacity + index) * self.head_dim..][..self.head_dim],
            Some(row) => &pass[(row * self.kv_heads + g) * self.head_dim..][..self.head_dim],
        }
    }
}
