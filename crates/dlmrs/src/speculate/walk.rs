//! Walking the chain: from state to state as the target's own rule goes, as long as the pass holds the state that it goes to.

use super::layout::Copy;
use crate::decode::{How, Revealed, Steps};
use crate::sample::RowStat;

/// One step of the target.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The copy whose rows decided it.
    pub copy: usize,
    /// What it decided.
    pub revealed: Vec<Revealed>,
    /// Whether the pass holds the state that it led to.
    pub landed: bool,
}

/// Where a walk went.
#[derive(Clone, Debug, PartialEq)]
pub struct Walk<At = usize> {
    /// The target's steps, at least one. All but the last have landed.
    pub steps: Vec<Step>,
    /// How many blocks it finished at their last copies, whose keys and values are therefore right.
    pub confirmed: usize,
    /// Where the schedule stands at its end (a step counter inside the block where it ended).
    pub step: At,
}

/// Starts at copy 0 and applies `rule` to its rows. If the state that results is among the copies of the block, it goes on from there; at
/// a block's last copy, if that is finished, it goes on with the first copy of the next block. Any set of states will do.
///
/// `slots` gives the masked slots of a copy (place and statistics, in order of position); `step` is where the rule's schedule stands at copy 0.
pub fn walk<R: Steps>(
    copies: &[Copy],
    mask_token_id: u32,
    slots: impl Fn(usize) -> Vec<(usize, RowStat)>,
    rule: &R,
    step: R::At,
) -> Walk<R::At> {
    let mut walk = Walk { steps: Vec::new(), confirmed: 0, step };
    let mut at = 0;
    while let Some(copy) = copies.get(at) {
        if copy.finished(mask_token_id) {
            // Later copies see the block's last one only, so no other leads on.
            let next = at + 1;
            if copies.get(next).is_some_and(|other| other.start == copy.start) {
                break;
            }
            walk.confirmed += 1;
            walk.step = rule.enter(walk.step);
            at = next;
            continue;
        }
        let slots = slots(at);
        let (chosen, after) = rule.step(&slots, walk.step);
        let mut tokens = copy.tokens.clone();
        chosen.iter().for_each(|&(i, _)| tokens[slots[i].0 - copy.start] = slots[i].1.token);
        let onward = copies.iter().position(|other| other.start == copy.start && other.tokens == tokens);
        // Behind a block's last state nothing was guessed, so what comes there corrects nothing.
        let guessed = copies.get(at + 1).is_some_and(|other| other.start == copy.start);
        let how = |own: How| match (onward, guessed) {
            (Some(_), _) => How::Accepted,
            (None, true) => How::Corrected,
            (None, false) => own,
        };
        let reveal = |&(i, own): &(usize, How)| Revealed { position: slots[i].0, stat: slots[i].1, how: how(own) };
        walk.steps.push(Step { copy: at, revealed: chosen.iter().map(reveal).collect(), landed: onward.is_some() });
        walk.step = after;
        match onward {
            Some(next) => at = next,
            None => break,
        }
    }
    walk
}
