//! Settings take turns, so that whatever else the machine does falls on all of them.

use std::sync::Arc;

use dlmrs::Llm;

use super::setting::Setting;
use super::turn::Turn;
use crate::console::Console;
use crate::failure::Failure;
use crate::generate::Prompt;

/// All that is to be measured.
pub(super) struct Bench<'a> {
    pub(super) llm: &'a Arc<Llm>,
    /// The first is the baseline.
    pub(super) settings: &'a [Setting],
    pub(super) prompts: &'a [Prompt],
    /// Prompts that are worked on together.
    pub(super) batch: usize,
    /// Those that count.
    pub(super) rounds: usize,
}

/// Every setting has had its turn.
pub(super) struct Round {
    /// The settings in the order of their turns.
    pub(super) order: Vec<usize>,
    /// By setting.
    pub(super) turns: Vec<Turn>,
}

impl Bench<'_> {
    /// The warm-up and the rounds that count; if something ends them early, those that were complete.
    pub(super) fn measure(&self, console: &mut Console<'_>, interrupt: &dyn Fn() -> bool) -> (Vec<Round>, Result<(), Failure>) {
        let mut rounds = Vec::new();
        for number in 0..=self.rounds {
            match self.round(number, console, interrupt) {
                Ok(_) if number == 0 => {}
                Ok(round) => rounds.push(round),
                Err(failure) => return (rounds, Err(failure)),
            }
        }
        (rounds, Ok(()))
    }

    /// Number 0 is the warm-up.
    fn round(&self, number: usize, console: &mut Console<'_>, interrupt: &dyn Fn() -> bool) -> Result<Round, Failure> {
        let order = order(number.saturating_sub(1), self.settings.len());
        let mut turns = Vec::new();
        for (place, &index) in order.iter().enumerate() {
            let setting = &self.settings[index];
            // Short, for it must fit into a line.
            console.show_wait(&format!("{number}/{}, {}/{}", self.rounds, place + 1, order.len()));
            turns.push((index, Turn::run(self.llm, setting, self.prompts, self.batch, interrupt)?));
        }
        turns.sort_by_key(|(index, _)| *index);
        Ok(Round { order, turns: turns.into_iter().map(|(_, turn)| turn).collect() })
    }
}

/// Each setting comes first in turn.
fn order(round: usize, settings: usize) -> Vec<usize> {
    (0..settings).map(|place| (round + place) % settings).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_every_place_equally_often() {
        let orders: Vec<_> = (0..6).map(|round| order(round, 3)).collect();
        assert_eq!(orders[..3], [[0, 1, 2], [1, 2, 0], [2, 0, 1]]);
        for place in 0..3 {
            for setting in 0..3 {
                assert_eq!(orders.iter().filter(|order| order[place] == setting).count(), 2);
            }
        }
        assert_eq!(order(4, 1), [0]);
    }
}
