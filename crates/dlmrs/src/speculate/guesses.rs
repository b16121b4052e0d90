//! What the model said of slots that are not decided yet, and the chain of states that follows if it stays with that.

use std::collections::HashMap;

use crate::decode::RevealRule;
use crate::sample::RowStat;

/// The last word on each undecided slot.
#[derive(Clone, Debug, Default)]
pub struct Guesses(HashMap<usize, RowStat>);

impl Guesses {
    /// Takes what a row said of its slot; later words override earlier ones.
    pub fn note(&mut self, position: usize, stat: RowStat) {
        self.0.insert(position, stat);
    }

    /// Forgets the slots before `position`.
    pub fn forget_before(&mut self, position: usize) {
        self.0.retain(|&p, _| p >= position);
    }

    /// The last word on a slot.
    pub fn at(&self, position: usize) -> Option<RowStat> {
        self.0.get(&position).copied()
    }
}

/// The states that `rule` would go through from `tokens` (a block at `start`, in step `step`) if every later pass said the same as `guess`:
/// the finished one last. None if a masked slot has no guess.
pub fn chain(
    tokens: &[u32],
    start: usize,
    mask_token_id: u32,
    guess: impl Fn(usize) -> Option<RowStat>,
    rule: &RevealRule,
    mut step: usize,
) -> Option<Vec<Vec<u32>>> {
    let masked = (0..tokens.len()).filter(|&i| tokens[i] == mask_token_id);
    let mut left: Vec<(usize, RowStat)> = masked.map(|i| Some((start + i, guess(start + i)?))).collect::<Option<_>>()?;
    let mut state = tokens.to_vec();
    let mut states = Vec::new();
    while !left.is_empty() {
        let mut chosen: Vec<usize> = rule.choose(&left, step).into_iter().map(|(i, _)| i).collect();
        chosen.sort_unstable();
        for i in chosen.into_iter().rev() {
            let (position, stat) = left.remove(i);
            state[position - start] = stat.token;
        }
        states.push(state.clone());
        step += 1;
    }
    Some(states)
}
