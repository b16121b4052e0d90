//! In which order the runs over x and the panels of a block are done. It changes no order of a sum.

use std::ops::Range;

/// Words of x of a run: long enough that taking the sums up and putting them down again costs nothing, short enough that two panels
/// of it (96 KiB) stay in the second-level cache while all rows of a block pass by. Measured: 192 is a tenth slower, for many rows.
pub(super) const RUN: usize = 768;
/// Up to this size, all of a block's x stays in the second-level cache.
const SMALL_X: usize = 512 << 10;

/// A block of rows by a chunk of panels, in runs over x.
#[derive(Clone)]
pub(super) struct Walk {
    words: usize,
    panels: Range<usize>,
    /// Panels that are done together, where there are so many.
    wide: usize,
    /// Each weight is read once, in the order of memory; or, where that is too much x to stay near, each run of x is.
    in_order: bool,
}

/// A run over x with some panels.
#[derive(Clone, Copy)]
pub(super) struct At {
    pub(super) panel: usize,
    /// The first word of x.
    pub(super) from: usize,
}

impl Walk {
    #[inline(always)]
    pub(super) fn new(rows: usize, words: usize, panels: Range<usize>, wide: usize) -> Walk {
        Walk { words, panels, wide, in_order: rows * words * size_of::<f32>() <= SMALL_X }
    }

    #[inline(always)]
    pub(super) fn first(&self) -> At {
        At { panel: self.panels.start, from: 0 }
    }

    /// Panels that are done together.
    #[inline(always)]
    pub(super) fn count(&self, at: At) -> usize {
        if at.panel + self.wide <= self.panels.end { self.wide } else { 1 }
    }

    /// What is done after `at` with `count` panels. There is one run even if there are no words: the outputs have to be written.
    #[inline(always)]
    pub(super) fn after(&self, at: At, count: usize) -> Option<At> {
        let (run, panel) = (at.from + RUN, at.panel + count);
        let (more_runs, more_panels) = (run < self.words, panel < self.panels.end);
        match (self.in_order, more_runs, more_panels) {
            (true, true, _) => Some(At { from: run, ..at }),
            (true, false, true) => Some(At { panel, from: 0 }),
            (false, _, true) => Some(At { panel, ..at }),
            (false, true, false) => Some(At { panel: self.panels.start, from: run }),
            _ => None,
        }
    }

    /// The words of a run.
    #[inline(always)]
    pub(super) fn run(&self, at: At) -> Range<usize> {
        at.from..(at.from + RUN).min(self.words)
    }

    /// The panel at place `p` from `at` on, as far as there are so many.
    #[inline(always)]
    pub(super) fn panel(&self, at: At, p: usize) -> usize {
        (at.panel + p).min(self.panels.end - 1)
    }
}
