//! What the rounds say of each setting.

use super::machine::Machine;
use super::rounds::{Bench, Round};
use super::setting::Setting;
use super::statistics::{self, Spread, per};
use super::turn::Turn;

/// All that was measured; at least one round.
pub(super) struct Report<'a> {
    pub(super) bench: &'a Bench<'a>,
    pub(super) rounds: &'a [Round],
    pub(super) machine: Machine,
    /// In the order of the settings.
    pub(super) measured: Vec<Measured<'a>>,
}

/// One setting. Times are medians over its turns.
pub(super) struct Measured<'a> {
    pub(super) setting: &'a Setting,
    /// By round.
    pub(super) turns: Vec<&'a Turn>,
}

impl<'a> Report<'a> {
    pub(super) fn new(bench: &'a Bench<'a>, rounds: &'a [Round], machine: Machine) -> Self {
        let turns = |index: usize| rounds.iter().map(|round| &round.turns[index]).collect();
        let measured = bench.settings.iter().enumerate().map(|(index, setting)| Measured { setting, turns: turns(index) }).collect();
        Self { bench, rounds, machine, measured }
    }

    /// What the user should know before reading numbers, each thing once.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = Vec::new();
        for measured in &self.measured {
            let name = &measured.setting.name;
            let unsteady = (!measured.is_steady()).then(|| "the outputs are not the same in every round".to_string());
            for warning in measured.first().warnings.iter().cloned().chain(unsteady) {
                let warning = format!("setting {name:?}: {warning}");
                if !warnings.contains(&warning) {
                    warnings.push(warning);
                }
            }
        }
        warnings
    }

    /// A setting's values over the baseline's, round by round.
    pub(super) fn ratio(&self, measured: &Measured<'_>, value: fn(&Turn) -> f64) -> Option<Spread> {
        statistics::ratios(&measured.values(value), &self.measured.first()?.values(value))
    }

    /// Prompts whose answers differ between two settings.
    pub(super) fn differing(&self, one: usize, other: usize) -> usize {
        let (one, other) = (self.measured[one].first(), self.measured[other].first());
        one.token_ids.iter().zip(&other.token_ids).filter(|(one, other)| one != other).count()
    }

    /// The first of the settings before it that has the same outputs.
    pub(super) fn same_as(&self, index: usize) -> Option<&'a str> {
        let earlier = (0..index).find(|&earlier| self.differing(earlier, index) == 0)?;
        Some(&self.measured[earlier].setting.name)
    }
}

impl Measured<'_> {
    /// Whose counters and outputs stand for all.
    pub(super) fn first(&self) -> &Turn {
        self.turns[0]
    }

    /// Whether all rounds gave the same, as they must.
    pub(super) fn is_steady(&self) -> bool {
        self.turns.iter().all(|turn| turn.token_ids == self.first().token_ids)
    }

    /// By round.
    fn values(&self, value: fn(&Turn) -> f64) -> Vec<f64> {
        self.turns.iter().map(|turn| value(turn)).collect()
    }

    /// The median over the rounds.
    pub(super) fn median(&self, value: fn(&Turn) -> f64) -> f64 {
        statistics::median(&self.values(value)).unwrap_or_default()
    }

    /// How much of the time went into a part of it, from 0 to 1.
    pub(super) fn share(&self, part: fn(&Turn) -> f64) -> f64 {
        per(self.values(part).iter().sum(), self.values(Turn::seconds).iter().sum())
    }

    /// Milliseconds that so many of a hundred requests did not exceed, over all rounds.
    pub(super) fn latency_ms(&self, percent: usize) -> f64 {
        let all: Vec<f64> = self.turns.iter().flat_map(|turn| turn.latencies.iter().copied()).collect();
        1e3 * statistics::percentile(&all, percent).unwrap_or_default()
    }

    /// The most bytes in any of its turns.
    pub(super) fn peak(&self) -> Option<u64> {
        self.turns.iter().filter_map(|turn| turn.peak).max()
    }
}
