//! Reveal rules: pure functions from the statistics of the masked slots to the slots that are decided now. Ties go to the lowest position.

use super::How;

/// A masked slot as a reveal rule sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Place in the canvas; candidates come in order of position.
    pub position: usize,
    /// What the rule ranks by, larger is surer. Minus infinity is chosen only when nothing else is left.
    pub score: f32,
}

/// Indices of the candidates that are decided, with how each came in.
pub type Chosen = Vec<(usize, How)>;

/// The `n` highest scores (fewer if there are fewer).
pub fn top(candidates: &[Candidate], n: usize) -> Chosen {
    ranked(candidates).into_iter().take(n).map(|i| (i, How::Ranked)).collect()
}

/// The first `n` by position.
pub fn leftmost(candidates: &[Candidate], n: usize) -> Chosen {
    (0..candidates.len().min(n)).map(|i| (i, How::Ranked)).collect()
}

/// SDAR's dynamic rule: all scores above `threshold` if there are at least `n` of them, else the `n` highest.
pub fn above_or_top(candidates: &[Candidate], threshold: f32, n: usize) -> Chosen {
    let n = n.min(candidates.len());
    let above: Vec<usize> = (0..candidates.len()).filter(|&i| candidates[i].score > threshold).collect();
    if above.len() < n {
        return top(candidates, n);
    }
    let mut how = vec![How::Bound; candidates.len()];
    ranked(candidates).into_iter().take(n).for_each(|i| how[i] = How::Ranked);
    above.into_iter().map(|i| (i, how[i])).collect()
}

/// The canvas decoders' rule: all scores of at least `threshold`, and always the highest.
pub fn at_least(candidates: &[Candidate], threshold: f32) -> Chosen {
    let order = ranked(candidates);
    let mut chosen: Chosen = Vec::new();
    for (rank, i) in order.into_iter().enumerate() {
        match rank {
            0 => chosen.push((i, How::Ranked)),
            _ if candidates[i].score >= threshold => chosen.push((i, How::Bound)),
            _ => break,
        }
    }
    chosen.sort_unstable_by_key(|c| c.0);
    chosen
}

/// Fast-dLLM's factor rule: the n highest, n the largest for which the m-th has a score of at least 1 - factor / (m + 1) for all m from 2
/// to n. `compat` does as Fast-dLLM's code: where the rule stops right before the last candidate, that one comes along.
pub fn factor(candidates: &[Candidate], factor: f32, compat: bool) -> Chosen {
    let order = ranked(candidates);
    let sure = |m: usize| candidates[order[m - 1]].score >= 1.0 - factor / (m + 1) as f32;
    let mut n = order.len().min(1);
    while n < order.len() && sure(n + 1) {
        n += 1;
    }
    if compat && n > 0 && n + 1 == order.len() {
        n += 1;
    }
    let how = |rank| if rank == 0 { How::Ranked } else { How::Bound };
    let mut chosen: Chosen = order.into_iter().take(n).enumerate().map(|(rank, i)| (i, how(rank))).collect();
    chosen.sort_unstable_by_key(|c| c.0);
    chosen
}

/// Of the chosen the `most` with the highest scores.
pub fn at_most(candidates: &[Candidate], chosen: Chosen, most: usize) -> Chosen {
    if chosen.len() <= most {
        return chosen;
    }
    let best: Vec<usize> = ranked(candidates).into_iter().filter(|i| chosen.iter().any(|c| c.0 == *i)).take(most).collect();
    chosen.into_iter().filter(|c| best.contains(&c.0)).collect()
}

/// Rising entropy (given as the score's negative) until the sum would pass `bound`; always at least one. The sum includes the entropy
/// of the slot itself, as in SDAR's searchsorted over the cumulative sum.
pub fn entropy_bounded(candidates: &[Candidate], bound: f32) -> Chosen {
    let mut sum = 0.0;
    let mut chosen: Chosen = Vec::new();
    for (rank, i) in ranked(candidates).into_iter().enumerate() {
        sum += -candidates[i].score;
        match rank {
            0 => chosen.push((i, How::Ranked)),
            _ if sum < bound => chosen.push((i, How::Bound)),
            _ => break,
        }
    }
    chosen
}

/// Candidates by falling score, the lower position first among equals.
fn ranked(candidates: &[Candidate]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    order.sort_by(|&a, &b| candidates[b].score.total_cmp(&candidates[a].score)); // stable
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slots(scores: &[f32]) -> Vec<Candidate> {
        scores.iter().enumerate().map(|(position, &score)| Candidate { position, score }).collect()
    }

    fn indices(chosen: &Chosen) -> Vec<usize> {
        let mut i: Vec<usize> = chosen.iter().map(|c| c.0).collect();
        i.sort_unstable();
        i
    }

    #[test]
    fn the_rules_by_example() {
        let s = slots(&[0.2, 0.9, 0.9, 0.5]);
        assert_eq!(indices(&top(&s, 1)), [1]);
        assert_eq!(indices(&top(&s, 3)), [1, 2, 3]);
        assert_eq!(indices(&leftmost(&s, 2)), [0, 1]);
        assert_eq!(indices(&above_or_top(&s, 0.9, 1)), [1], "strictly above");
        assert_eq!(indices(&above_or_top(&s, 0.4, 1)), [1, 2, 3]);
        assert_eq!(indices(&at_least(&s, 0.9)), [1, 2], "at least");
        assert_eq!(indices(&at_least(&s, 2.0)), [1]);
        assert_eq!(indices(&at_least(&s, -1.0)), [0, 1, 2, 3]);
        // The second needs 1 - 0.6 / 3 = 0.8, the third 0.85, the fourth 0.88.
        let f = slots(&[0.84, 0.9, 0.86, 0.2]);
        assert_eq!(indices(&factor(&f, 0.6, false)), [1, 2]);
        assert_eq!(indices(&factor(&f, 0.6, true)), [1, 2], "two are left, not one");
        assert_eq!(indices(&factor(&f[..3], 0.6, true)), [0, 1, 2], "the one that fails is the last");
        assert_eq!(indices(&factor(&f[..3], 0.6, false)), [1, 2]);
        assert_eq!(indices(&factor(&f, 0.0, false)), [1]);
        assert_eq!(indices(&factor(&f[..1], 0.0, true)), [0]);
        assert_eq!(indices(&at_most(&f, factor(&f, 9.0, false), 2)), [1, 2]);
        assert_eq!(indices(&at_most(&f, top(&f, 1), 2)), [1]);
        let e = slots(&[-0.1, -0.3, -2.0]);
        assert_eq!(indices(&entropy_bounded(&e, 0.5)), [0, 1]);
        assert_eq!(indices(&entropy_bounded(&e, 0.0)), [0]);
    }

    #[test]
    fn suppressed_slots_come_last() {
        let s = slots(&[f32::NEG_INFINITY, 0.1, f32::NEG_INFINITY]);
        assert_eq!(indices(&top(&s, 1)), [1]);
        assert_eq!(indices(&top(&s, 2)), [0, 1]);
    }

    proptest! {
        #[test]
        fn every_rule_makes_progress_and_picks_each_once(
            scores in proptest::collection::vec(0f32..1.0, 1..40), n in 1usize..10, t in -1f32..2.0
        ) {
            let s = slots(&scores);
            for chosen in [top(&s, n), leftmost(&s, n), above_or_top(&s, t, n), at_least(&s, t), entropy_bounded(&s, t), factor(&s, t, false), factor(&s, t, true), at_most(&s, at_least(&s, t), n)] {
                let i = indices(&chosen);
                prop_assert!(!i.is_empty());
                prop_assert!(i.windows(2).all(|w| w[0] < w[1]) && i[i.len() - 1] < s.len());
            }
            prop_assert_eq!(top(&s, n).len(), n.min(s.len()));
        }
    }
}
