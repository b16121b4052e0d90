//! What the model said of slots that are not decided yet, and the chain of states that follows if it stays with that.

use std::collections::HashMap;

use crate::decode::Steps;
use crate::sample::RowStat;

/// The last word on each undecided slot.
#[derive(Clone, Debug, Default)]
pub struct Guesses(HashMap<usize, RowStat>);

impl Guesses {
    /// Takes what a row said of its slot; later words override earlier ones.
    pub fn note(&mut self, position: usize, stat: RowStat) {
        self.0.insert(position, stat);
    }

    /// Takes what the copies of a pass said, by copy; the last copy that was `verified` has the last word.
    pub(crate) fn hear(&mut self, said: &[Vec<(usize, RowStat)>], verified: Option<usize>) {
        for (position, stat) in said.iter().chain(verified.map(|copy| &said[copy])).flatten() {
            self.note(*position, *stat);
        }
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

/// Guessed states of a block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// One after the other; the finished one last, if there is one.
    pub states: Vec<Vec<u32>>,
    /// Beside them, one for each step with a choice: where it leads if what the rule puts first is not what the target puts first.
    /// If it was the order alone that differed, the next step leads back to the chain.
    pub others: Vec<Vec<u32>>,
}

/// The states that `rule` would go through from `tokens` (a block at `start`, in step `step`) if every later pass said the same as `guess`.
/// None if a masked slot has no guess.
pub fn chain<R: Steps>(
    tokens: &[u32],
    start: usize,
    mask_token_id: u32,
    guess: impl Fn(usize) -> Option<RowStat>,
    rule: &R,
    mut step: R::At,
) -> Option<Chain> {
    let masked = (0..tokens.len()).filter(|&i| tokens[i] == mask_token_id);
    let mut left: Vec<(usize, RowStat)> = masked.map(|i| Some((start + i, guess(start + i)?))).collect::<Option<_>>()?;
    let mut chain = Chain::default();
    let mut state = tokens.to_vec();
    while !left.is_empty() {
        chain.others.extend(runner_up(&state, start, &left, rule, step));
        (state, step) = after(&state, start, &left, rule, step);
        left.retain(|(position, _)| state[position - start] == mask_token_id);
        chain.states.push(state.clone());
    }
    Some(chain)
}

/// The state that a step leads to, and where the schedule stands then.
fn after<R: Steps>(state: &[u32], start: usize, slots: &[(usize, RowStat)], rule: &R, step: R::At) -> (Vec<u32>, R::At) {
    let mut next = state.to_vec();
    let (chosen, step) = rule.step(slots, step);
    for (i, _) in chosen {
        next[slots[i].0 - start] = slots[i].1.token;
    }
    (next, step)
}

/// The state that a step leads to if the slot that it puts first is left out; None where there is no other.
pub fn runner_up<R: Steps>(state: &[u32], start: usize, slots: &[(usize, RowStat)], rule: &R, step: R::At) -> Option<Vec<u32>> {
    let surest = |a: &usize, b: &usize| rule.rank(&slots[*a], step).total_cmp(&rule.rank(&slots[*b], step)).then(b.cmp(a));
    let first = rule.step(slots, step).0.into_iter().map(|(i, _)| i).max_by(surest)?;
    let others: Vec<_> = slots.iter().enumerate().filter(|(i, _)| *i != first).map(|(_, slot)| *slot).collect();
    if others.is_empty() { None } else { Some(after(state, start, &others, rule, step).0) }
}
