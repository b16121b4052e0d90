//! What a model needed, and how often it was right.

use std::fmt;

use dlmrs::Decoding;
use dlmrs::engine::Stats;

/// Sums over the problems of one model.
pub(super) struct Tally {
    model: String,
    decoding: Decoding,
    problems: usize,
    right: usize,
    tokens: usize,
    passes: usize,
}

impl Tally {
    pub(super) fn new(model: &str, decoding: Decoding) -> Self {
        Self { model: model.to_string(), decoding, problems: 0, right: 0, tokens: 0, passes: 0 }
    }

    pub(super) fn count(&mut self, right: bool, stats: &Stats) {
        self.problems += 1;
        self.right += usize::from(right);
        self.tokens += stats.tokens;
        self.passes += stats.total_passes();
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, problems, right, tokens, passes, .. } = self;
        let a_pass = *tokens as f64 / (*passes).max(1) as f64;
        let method = self.decoding.name();
        write!(f, "{model} ({method}): {right} of {problems} right, {tokens} tokens in {passes} passes, {a_pass:.2} tokens a pass")
    }
}
