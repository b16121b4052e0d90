//! What a request cost.

use std::time::Duration;

use crate::decode::{Counts, Wish};

/// Counters of one request. Passes are the request's own: a forward that serves ten requests is one pass of each.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Passes by kind.
    pub passes: Counts,
    /// Rows by what they served.
    pub rows: Counts,
    /// Rows whose logits were computed.
    pub scanned_rows: usize,
    /// Slots that were decided, those beyond the stop included.
    pub revealed: usize,
    /// Blocks of a canvas that were begun, and how many masks behind them were fed, all added up.
    pub blocks: usize,
    /// See `blocks`.
    pub kept_suffix: usize,
    /// Tokens of the output.
    pub tokens: usize,
    /// Time in forwards that this request took part in.
    pub forward: Duration,
    /// Time in scans of the output head that this request took part in.
    pub scan: Duration,
    /// From submission to the end.
    pub total: Duration,
}

/// What an engine did. Where requests share forwards, each counts them, so their [`Stats`] do not add up to this.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// Forwards, each of which serves at least one request.
    pub forwards: usize,
    /// Time in them.
    pub forward: Duration,
    /// Time in scans of the output head.
    pub scan: Duration,
}

impl Work {
    pub(super) fn count(&mut self, forward: Duration, scan: Duration) {
        self.forwards += 1;
        self.forward += forward;
        self.scan += scan;
    }
}

impl Stats {
    pub(super) fn count(&mut self, wishes: &[Wish], forward: Duration, scan: Duration) {
        for wish in wishes {
            self.passes += Counts::of(wish.kind, 1);
            self.rows += wish.rows;
            self.scanned_rows += wish.scans.len() + wish.scans.iter().filter(|scan| scan.guide.is_some()).count();
        }
        self.forward += forward;
        self.scan += scan;
    }

    /// Passes of all kinds (NFE).
    pub fn total_passes(&self) -> usize {
        self.passes.total()
    }

    /// Masks behind a block that were fed, mean over the blocks that were begun; 0 without blocks.
    pub fn mean_kept_suffix(&self) -> f64 {
        self.kept_suffix as f64 / self.blocks.max(1) as f64
    }

    /// Tokens of the output for each pass of any kind; 0 without a pass.
    pub fn tokens_per_pass(&self) -> f64 {
        self.tokens as f64 / self.total_passes().max(1) as f64
    }
}
