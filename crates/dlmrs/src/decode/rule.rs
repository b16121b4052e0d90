//! A block's reveal rule with its schedule: what one step of the target alone decides.

use super::method::{BlockDiffusion, Strategy};
use super::reveal::{self, Candidate, Chosen};
use super::schedule::quotas;
use crate::sample::RowStat;

/// SDAR's entropy bound where none is given (its generation script).
const ENTROPY_BOUND: f32 = 0.35;

/// A deterministic reveal rule with its schedule: what a step of the target alone decides is a function of what its rows say and of where the
/// schedule stands. So a guess of a step's result can be compared with what the step does.
pub trait Steps {
    /// Where a schedule stands.
    type At: Copy;

    /// What the step at `at` decides of the masked slots (in order of position), as indices into `slots`, and where the schedule stands then.
    fn step(&self, slots: &[(usize, RowStat)], at: Self::At) -> (Chosen, Self::At);

    /// Where the schedule stands when the next block begins.
    fn enter(&self, at: Self::At) -> Self::At;

    /// What the rule ranks a slot by; larger is surer.
    fn rank(&self, slot: &(usize, RowStat), at: Self::At) -> f32;
}

impl Steps for RevealRule {
    /// The step inside the block.
    type At = usize;

    fn step(&self, slots: &[(usize, RowStat)], at: usize) -> (Chosen, usize) {
        (self.choose(slots, at), at + 1)
    }

    fn enter(&self, _at: usize) -> usize {
        0
    }

    fn rank(&self, slot: &(usize, RowStat), _at: usize) -> f32 {
        self.score(&slot.1)
    }
}

/// Which slots a step of a block reveals. It is deterministic, so a guess of a step's result can be compared with what the step does.
#[derive(Clone, Debug)]
pub struct RevealRule {
    strategy: Strategy,
    threshold: f32,
    entropy_bound: f32,
    /// Slots to reveal at each step of a block.
    quotas: Vec<usize>,
}

impl RevealRule {
    /// Of validated settings, for blocks of `length` slots; `threshold` is the family's own, where the settings give none.
    pub fn new(settings: &BlockDiffusion, threshold: f32, length: usize) -> Self {
        Self {
            strategy: settings.strategy,
            threshold: settings.threshold.unwrap_or(threshold),
            entropy_bound: settings.entropy_bound.unwrap_or(ENTROPY_BOUND),
            quotas: quotas(length, settings.steps.unwrap_or(length)),
        }
    }

    /// How many slots step `step` of a block asks for, at least 1.
    pub fn quota(&self, step: usize) -> usize {
        self.quotas.get(step).copied().unwrap_or(1).max(1)
    }

    /// How many of the masked slots, from the left, have to be looked at in step `step`; None is all.
    pub fn looks_at(&self, step: usize) -> Option<usize> {
        (self.strategy == Strategy::Sequential).then(|| self.quota(step))
    }

    /// What the rule ranks a row by; larger is surer.
    pub fn score(&self, stat: &RowStat) -> f32 {
        match self.strategy {
            Strategy::EntropyBounded => -stat.entropy,
            Strategy::Margin => stat.margin,
            _ => stat.probability,
        }
    }

    /// The slots that step `step` decides, of the masked slots in order of position, as indices into `slots`.
    pub fn choose(&self, slots: &[(usize, RowStat)], step: usize) -> Chosen {
        self.choose_of(slots, self.quota(step))
    }

    /// As [`Self::choose`], with a share of the caller's.
    pub fn choose_of(&self, slots: &[(usize, RowStat)], share: usize) -> Chosen {
        let candidates: Vec<_> = slots.iter().map(|(position, stat)| Candidate { position: *position, score: self.score(stat) }).collect();
        match self.strategy {
            Strategy::Sequential => reveal::leftmost(&candidates, share),
            Strategy::LowConfidenceStatic | Strategy::Margin => reveal::top(&candidates, share),
            Strategy::LowConfidenceDynamic => reveal::above_or_top(&candidates, self.threshold, share),
            Strategy::EntropyBounded => reveal::entropy_bounded(&candidates, self.entropy_bound),
        }
    }
}
