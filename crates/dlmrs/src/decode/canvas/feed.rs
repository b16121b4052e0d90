//! Which rows the passes of a block feed, which of them stay in the cache, and where they stand there.
//!
//! A cache holds what stands before the block first, then (dual) the block, then (dual) what is kept behind it.

use crate::decode::method::{CacheMode, Refresh};
use crate::decode::{Counts, PassKind};
use crate::pass::{Bits, Keep, Sees};

/// Where a request stands with its cache.
pub(super) struct Feed {
    cache: CacheMode,
    refresh: Refresh,
    /// Places of the current block: those that were masks when it began, and all of the answer's.
    block: Vec<usize>,
    /// The number of the block.
    number: usize,
    /// Whether the block has had its first pass.
    begun: bool,
    /// Entries of the cache in front of the block's.
    before: usize,
    /// Places of the block before, if its final keys and values are not in the cache yet.
    finished: Vec<usize>,
    /// What was kept behind the block in its first pass: a dual cache's last entries.
    behind: Vec<u32>,
}

/// The rows of one pass.
pub(super) struct Rows {
    /// Rising.
    pub(super) places: Vec<usize>,
    pub(super) base: usize,
    pub(super) keep: Keep,
    pub(super) sees: Sees,
    pub(super) kind: PassKind,
    pub(super) counts: Counts,
}

/// What a pass is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Everything.
    Whole,
    /// The finished block, the new one, and what is kept behind it.
    Extension,
    /// The block and what is kept behind it.
    Prefix,
    /// The block.
    Dual,
}

impl Feed {
    pub(super) fn new(cache: CacheMode, refresh: Refresh) -> Self {
        Self { cache, refresh, block: Vec::new(), number: 0, begun: false, before: 0, finished: Vec::new(), behind: Vec::new() }
    }

    /// Block `number` begins, with these places.
    pub(super) fn enter(&mut self, number: usize, block: Vec<usize>) {
        self.finished = std::mem::replace(&mut self.block, block);
        (self.number, self.begun) = (number, false);
    }

    /// Whether the next pass is the block's first.
    pub(super) fn is_first(&self) -> bool {
        !self.begun
    }

    /// Whether later passes of the block leave out the row in front of it.
    pub(super) fn leaves_out_rows(&self) -> bool {
        self.cache != CacheMode::None && self.refresh != Refresh::Step
    }

    /// Slots of the block whose row in front is in none of its later passes.
    pub(super) fn orphans(&self) -> Vec<usize> {
        let has_row = |place: usize| place == 0 || self.block.binary_search(&(place - 1)).is_ok();
        self.block.iter().copied().filter(|&place| !has_row(place)).collect()
    }

    fn shape(&self) -> Shape {
        let whole = match self.refresh {
            Refresh::Step => true,
            Refresh::Blocks(blocks) => !self.begun && self.number.is_multiple_of(blocks),
        };
        match self.cache {
            CacheMode::None => Shape::Whole,
            _ if whole => Shape::Whole,
            _ if !self.begun => Shape::Extension,
            CacheMode::Prefix => Shape::Prefix,
            CacheMode::Dual => Shape::Dual,
        }
    }

    /// How many rows the next pass feeds; `end` is the place behind the block, `kept` what is kept behind it.
    pub(super) fn count(&self, end: usize, kept: usize) -> usize {
        match self.shape() {
            Shape::Whole => end + kept,
            Shape::Extension => self.finished.len() + self.block.len() + kept,
            Shape::Prefix => self.block.len() + kept,
            Shape::Dual => self.block.len(),
        }
    }

    /// The next pass.
    pub(super) fn rows(&self, end: usize, kept: &[u32]) -> Rows {
        let shape = self.shape();
        let suffix = kept.iter().map(|&place| place as usize);
        let block = self.block.iter().copied();
        let places: Vec<usize> = match shape {
            Shape::Whole => (0..end).chain(suffix).collect(),
            Shape::Extension => self.finished.iter().copied().chain(block).chain(suffix).collect(),
            Shape::Prefix => block.chain(suffix).collect(),
            Shape::Dual => block.collect(),
        };
        let (base, keep, sees) = self.cached(shape, end, &places, kept);
        let n = places.len();
        let (kind, counts) = match shape {
            Shape::Whole if self.cache != CacheMode::None => (PassKind::Refresh, Counts::of(PassKind::Refresh, n)),
            Shape::Extension => {
                let finished = self.finished.len();
                (PassKind::Denoise, Counts::of(PassKind::Commit, finished).and(PassKind::Denoise, n - finished))
            }
            _ => (PassKind::Denoise, Counts::of(PassKind::Denoise, n)),
        };
        Rows { places, base, keep, sees, kind, counts }
    }

    /// What the pass finds in the cache, what it leaves there, and who sees whom.
    fn cached(&self, shape: Shape, end: usize, places: &[usize], kept: &[u32]) -> (usize, Keep, Sees) {
        let rows = |range: std::ops::Range<usize>| range.map(|row| row as u32);
        let block = self.block.len();
        match (shape, self.cache) {
            (Shape::Whole, CacheMode::None) => (0, Keep::Nothing, Sees::Full),
            (Shape::Whole, mode) => {
                let in_block = |row: &u32| self.block.binary_search(&(*row as usize)).is_ok();
                let mut keep: Vec<u32> = rows(0..end).filter(|row| !in_block(row)).collect();
                if mode == CacheMode::Dual {
                    keep.extend(rows(0..end).filter(in_block));
                    keep.extend(rows(end..places.len()));
                }
                (0, Keep::Append(keep), Sees::Full)
            }
            (Shape::Extension, mode) => {
                let keep = if mode == CacheMode::Dual { places.len() } else { self.finished.len() };
                (self.before, Keep::Append(rows(0..keep).collect()), Sees::Full)
            }
            (Shape::Prefix, _) => (self.before, Keep::Nothing, Sees::Full),
            (Shape::Dual, _) => {
                let slots = rows(self.before..self.before + block).collect();
                let base = self.before + block + self.behind.len();
                let sees = if kept.len() == self.behind.len() { Sees::Full } else { self.without_dropped(base, kept) };
                (base, Keep::Overwrite { rows: rows(0..block).collect(), slots }, sees)
            }
        }
    }

    /// Where the block's entries begin in the cache and how many entries there are, if the next pass feeds the block alone.
    pub(super) fn hole(&self) -> Option<(usize, usize)> {
        (self.shape() == Shape::Dual).then_some((self.before, self.before + self.block.len() + self.behind.len()))
    }

    /// The entries of a dual cache that were dropped after the block's first pass.
    pub(super) fn dropped(&self, kept: &[u32]) -> Vec<usize> {
        let first = self.before + self.block.len();
        self.behind.iter().enumerate().filter(|(_, place)| kept.binary_search(place).is_err()).map(|(i, _)| first + i).collect()
    }

    /// The block's places.
    pub(super) fn places(&self) -> &[usize] {
        &self.block
    }

    /// A dual cache's pass that does not see what was dropped after the block's first pass.
    fn without_dropped(&self, base: usize, kept: &[u32]) -> Sees {
        let (block, dropped) = (self.block.len(), self.dropped(kept));
        Sees::Mask(Bits::from_fn(block, base + block, |_, key| dropped.binary_search(&key).is_err()))
    }

    /// The pass has run.
    pub(super) fn passed(&mut self, end: usize, kept: &[u32]) {
        match self.shape() {
            Shape::Whole => self.before = end - self.block.len(),
            Shape::Extension => self.before += self.finished.len(),
            Shape::Prefix | Shape::Dual => return,
        }
        self.begun = true;
        self.behind = kept.to_vec();
    }
}
