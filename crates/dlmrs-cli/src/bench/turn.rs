//! One setting answers all prompts once.

use std::sync::Arc;
use std::time::Instant;

use dlmrs::engine::{Stats, Work};
use dlmrs::{Event, Llm, Output};

use super::memory;
use super::setting::{Setting, places};
use super::statistics::per;
use crate::batch::{self, Sink};
use crate::failure::Failure;
use crate::generate::Prompt;

/// What it took.
#[derive(Default)]
pub(super) struct Turn {
    /// The counters of all requests together; the times are those of the turn.
    pub(super) stats: Stats,
    /// Forwards, each of which may serve several requests.
    pub(super) forwards: usize,
    /// Seconds of each request, from when it was taken in to its end.
    pub(super) latencies: Vec<f64>,
    /// The answer to each prompt.
    pub(super) token_ids: Vec<Vec<u32>>,
    /// The most memory that the process held meanwhile, in bytes; None where the system does not tell.
    pub(super) peak: Option<u64>,
    /// What the outputs warn of.
    pub(super) warnings: Vec<String>,
}

impl Turn {
    /// Runs it.
    pub(super) fn run(
        llm: &Arc<Llm>,
        setting: &Setting,
        prompts: &[Prompt],
        batch: usize,
        interrupt: &dyn Fn() -> bool,
    ) -> Result<Self, Failure> {
        let requests = setting.requests(prompts);
        let mut turn = Self::default();
        let resettable = memory::forget_peak();
        let begun = Instant::now();
        batch::run(llm, requests, &places(prompts), batch, interrupt, &mut turn)?;
        turn.stats.total = begun.elapsed();
        turn.peak = memory::peak().filter(|_| resettable);
        Ok(turn)
    }

    /// All of the turn.
    pub(super) fn seconds(&self) -> f64 {
        self.stats.total.as_secs_f64()
    }

    /// In forwards.
    pub(super) fn forward(&self) -> f64 {
        self.stats.forward.as_secs_f64()
    }

    /// In scans of the output head.
    pub(super) fn scan(&self) -> f64 {
        self.stats.scan.as_secs_f64()
    }

    /// In decoders, the tokenizer, and whatever else.
    pub(super) fn rest(&self) -> f64 {
        (self.seconds() - self.forward() - self.scan()).max(0.0)
    }

    /// Tokens up to the stop.
    pub(super) fn tokens_per_second(&self) -> f64 {
        per(self.stats.tokens as f64, self.seconds())
    }

    /// Slots, those beyond the stop included.
    pub(super) fn revealed_per_second(&self) -> f64 {
        per(self.stats.revealed as f64, self.seconds())
    }

    /// A pass is a request's own; in a batch several share a forward.
    pub(super) fn ms_per_pass(&self) -> f64 {
        per(1e3 * self.seconds(), self.stats.total_passes() as f64)
    }
}

impl Sink for Turn {
    fn event(&mut self, _number: usize, _event: &Event) -> Result<(), Failure> {
        Ok(())
    }

    fn output(&mut self, _number: usize, output: Output) -> Result<(), Failure> {
        let Output { stats, token_ids, warnings, .. } = output;
        self.stats.passes += stats.passes;
        self.stats.rows += stats.rows;
        self.stats.keys += stats.keys;
        self.stats.draft_passes += stats.draft_passes;
        self.stats.draft_rows += stats.draft_rows;
        self.stats.speculation += stats.speculation;
        self.stats.scanned_rows += stats.scanned_rows;
        self.stats.revealed += stats.revealed;
        self.stats.tokens += stats.tokens;
        self.stats.blocks += stats.blocks;
        self.stats.kept_suffix += stats.kept_suffix;
        self.latencies.push(stats.total.as_secs_f64());
        self.token_ids.push(token_ids);
        self.warnings.extend(warnings);
        Ok(())
    }

    fn end(&mut self, work: Work) {
        self.forwards = work.forwards;
        (self.stats.forward, self.stats.scan) = (work.forward, work.scan);
    }
}
