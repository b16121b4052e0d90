//! The walk and the chain of guesses against scripted rows.

use dlmrs::decode::{BlockDiffusion, How, RevealRule, Strategy};
use dlmrs::sample::RowStat;
use dlmrs::speculate::guesses::{Guesses, chain};
use dlmrs::speculate::layout::Copy;
use dlmrs::speculate::walk::{Walk, walk};

const M: u32 = 99;

fn stat(token: u32, probability: f32) -> RowStat {
    RowStat { token, probability, entropy: 1.0 - probability, margin: probability / 2.0 }
}

fn rule(strategy: Strategy, steps: usize, threshold: Option<f32>) -> RevealRule {
    RevealRule::new(&BlockDiffusion { block_length: Some(4), steps: Some(steps), strategy, threshold, entropy_bound: None }, 0.85, 4)
}

fn copy(start: usize, tokens: [u32; 4]) -> Copy {
    Copy { start, tokens: tokens.into() }
}

/// The target wants token 10 + position everywhere, the leftmost slots with more confidence.
fn wants(copies: &[Copy]) -> impl Fn(usize) -> Vec<(usize, RowStat)> {
    move |c| {
        let copy = &copies[c];
        let masked = (0..4).filter(|&i| copy.tokens[i] == M);
        masked.map(|i| (copy.start + i, stat((10 + copy.start + i) as u32, 0.9 - 0.1 * i as f32))).collect()
    }
}

fn walked(copies: &[Copy], rule: &RevealRule, step: usize) -> Walk {
    walk(copies, M, wants(copies), rule, step)
}

#[test]
fn a_chain_that_is_right_is_walked_to_its_end_and_beyond() {
    let copies = [
        copy(0, [M, M, M, M]),
        copy(0, [10, M, M, M]),
        copy(0, [10, 11, M, M]),
        copy(0, [10, 11, 12, M]),
        copy(0, [10, 11, 12, 13]),
        copy(4, [M, M, M, M]),
    ];
    let walk = walked(&copies, &rule(Strategy::LowConfidenceStatic, 4, None), 0);
    assert_eq!((walk.confirmed, walk.step, walk.steps.len()), (1, 1, 5));
    assert!(walk.steps[..4].iter().all(|s| s.landed && s.revealed[0].how == How::Accepted));
    let last = &walk.steps[4];
    assert_eq!((last.copy, last.landed, last.revealed[0].position, last.revealed[0].how), (5, false, 4, How::Ranked), "a step for free");
}

#[test]
fn the_first_wrong_guess_is_corrected() {
    let copies = [copy(0, [M, M, M, M]), copy(0, [10, M, M, M]), copy(0, [10, 77, M, M]), copy(0, [10, 77, 12, 13])];
    let walk = walked(&copies, &rule(Strategy::LowConfidenceStatic, 4, None), 0);
    assert_eq!((walk.confirmed, walk.steps.len(), walk.step), (0, 2, 2));
    let last = &walk.steps[1];
    assert_eq!((last.revealed[0].position, last.revealed[0].stat.token, last.revealed[0].how), (1, 11, How::Corrected));
}

/// The step counter is the target's own: a state that would need two of its steps at once is not reached.
#[test]
fn quotas_are_the_targets() {
    let copies = [copy(0, [M, M, M, M]), copy(0, [10, 11, M, M]), copy(0, [10, 11, 12, 13])];
    let by_two = rule(Strategy::LowConfidenceStatic, 2, None);
    assert_eq!(walked(&copies, &by_two, 0).confirmed, 1);
    let by_one = rule(Strategy::LowConfidenceStatic, 4, None);
    let walk = walked(&copies, &by_one, 0);
    assert_eq!((walk.confirmed, walk.steps.len(), walk.steps[0].landed), (0, 1, false));
    // Three steps for four slots: 2, 1, 1; the counter decides which of them it is.
    let uneven = rule(Strategy::LowConfidenceStatic, 3, None);
    assert_eq!(walked(&copies, &uneven, 0).steps.len(), 2);
    assert_eq!(walked(&copies, &uneven, 1).steps[0].revealed.len(), 1);
}

/// Another finished state than the last ends the walk: what follows has not seen it.
#[test]
fn only_the_last_finished_copy_leads_on() {
    let copies = [copy(0, [10, 11, 12, M]), copy(0, [10, 11, 12, 13]), copy(0, [10, 11, 12, 44]), copy(4, [M, M, M, M])];
    let walk = walked(&copies, &rule(Strategy::LowConfidenceStatic, 4, None), 3);
    assert_eq!((walk.confirmed, walk.steps.len()), (0, 1));
}

/// Any set of states will do: branches, and states that cannot be reached.
#[test]
fn trees() {
    let copies = [
        copy(0, [M, M, M, M]),
        copy(0, [M, 7, M, M]),
        copy(0, [10, M, M, M]),
        copy(0, [10, 5, M, M]),
        copy(0, [10, 11, M, M]),
        copy(0, [8, 8, 8, 8]),
    ];
    let walk = walked(&copies, &rule(Strategy::LowConfidenceStatic, 4, None), 0);
    assert_eq!(walk.steps.iter().map(|s| s.copy).collect::<Vec<_>>(), [0, 2, 4]);
}

/// A block that had no masks is passed through.
#[test]
fn given_blocks_are_passed() {
    let copies = [copy(0, [10, 11, 12, M]), copy(0, [10, 11, 12, 13]), copy(4, [1, 2, 3, 4]), copy(8, [M, M, M, M])];
    let walk = walked(&copies, &rule(Strategy::LowConfidenceStatic, 4, None), 3);
    assert_eq!((walk.confirmed, walk.steps.len(), walk.step), (2, 2, 1));
}

#[test]
fn chains_follow_the_rule() {
    let mut guesses = Guesses::default();
    for (position, probability) in [(4, 0.5), (5, 0.95), (6, 0.2), (7, 0.97)] {
        guesses.note(position, stat(position as u32, 0.0));
        guesses.note(position, stat(20 + position as u32, probability));
    }
    let states = |guesses: &Guesses, strategy, threshold, tokens: [u32; 4]| {
        chain(&tokens, 4, M, |p| guesses.at(p), &rule(strategy, 4, threshold), 0)
    };
    assert_eq!(
        states(&guesses, Strategy::LowConfidenceDynamic, Some(0.9), [M, M, M, M]).unwrap().states,
        [[M, 25, M, 27], [24, 25, M, 27], [24, 25, 26, 27]],
        "all above the threshold first, then one by one"
    );
    assert_eq!(states(&guesses, Strategy::Sequential, None, [3, M, M, 4]).unwrap().states, [[3, 25, M, 4], [3, 25, 26, 4]]);
    let found = states(&guesses, Strategy::LowConfidenceStatic, None, [1, M, M, M]).unwrap();
    assert_eq!(found.states, [[1, M, M, 27], [1, 25, M, 27], [1, 25, 26, 27]]);
    assert_eq!(found.others, [[1, 25, M, M], [1, M, 26, 27]], "the runner-up of each step with a choice");
    guesses.forget_before(5);
    assert_eq!(states(&guesses, Strategy::Sequential, None, [M, M, M, M]), None, "a slot without a guess");
}
