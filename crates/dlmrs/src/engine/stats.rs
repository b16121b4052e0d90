//! What a request cost.

use std::time::Duration;

use crate::decode::{Counts, PassKind, Role, Tally, Wish};

/// Counters of one request. Passes are the request's own: a forward that serves ten requests is one pass of each.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Passes by kind; of the target, where there is a draft model.
    pub passes: Counts,
    /// Rows by what they served; of the target, where there is a draft model.
    pub rows: Counts,
    /// Keys that these passes' rows could see, by kind of pass, those of all passes added up.
    pub keys: Counts,
    /// Passes of the draft model by kind.
    pub draft_passes: Counts,
    /// Rows of the draft model by what they served.
    pub draft_rows: Counts,
    /// What became of guessed slots.
    pub speculation: Tally,
    /// Rows whose logits were computed.
    pub scanned_rows: usize,
    /// Slots that were decided, those beyond the stop included.
    pub revealed: usize,
    /// Decided tokens that were rewritten, counted again each time.
    pub edited: usize,
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
            if wish.model == Role::Target {
                self.keys += Counts::of(wish.kind, wish.pass.keys());
            }
            let (passes, rows) = match wish.model {
                Role::Target => (&mut self.passes, &mut self.rows),
                Role::Draft => (&mut self.draft_passes, &mut self.draft_rows),
            };
            *passes += Counts::of(wish.kind, 1);
            *rows += wish.rows;
            self.scanned_rows += wish.scans.len() + wish.scans.iter().filter(|scan| scan.guide.is_some()).count();
        }
        self.forward += forward;
        self.scan += scan;
    }

    /// Passes by kind, of both models.
    pub fn both_passes(&self) -> Counts {
        let mut both = self.passes;
        both += self.draft_passes;
        both
    }

    /// Masks behind a block that were fed, mean over the blocks that were begun; 0 without blocks.
    pub fn mean_kept_suffix(&self) -> f64 {
        self.kept_suffix as f64 / self.blocks.max(1) as f64
    }

    /// Rows by what they served, of both models.
    pub fn both_rows(&self) -> Counts {
        let mut both = self.rows;
        both += self.draft_rows;
        both
    }

    /// Passes of all kinds and of both models (NFE).
    pub fn total_passes(&self) -> usize {
        self.both_passes().total()
    }

    /// Passes of the target, its prefill left out: what speculation saves.
    pub fn target_passes(&self) -> usize {
        self.passes.total() - self.passes.get(PassKind::Prefill)
    }

    /// Tokens of the output for each pass of any kind and model; 0 without a pass.
    pub fn tokens_per_pass(&self) -> f64 {
        self.tokens as f64 / self.total_passes().max(1) as f64
    }

    /// Tokens of the output for each pass of the target, its prefill left out; 0 without a pass.
    pub fn tokens_per_target_pass(&self) -> f64 {
        self.tokens as f64 / self.target_passes().max(1) as f64
    }
}
