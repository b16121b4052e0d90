//! Which experts a row goes through, and with which weights: a function of the row's scores alone, in f32, ties to the lower number.

use crate::checkpoint::{Mixture, Router};

/// Chooses from scores.
pub(crate) struct Chooser {
    router: Router,
    per_token: usize,
    /// Added for the choice, not for the weight; empty without one. [E]
    bias: Vec<f32>,
}

impl Chooser {
    pub(crate) fn new(mixture: &Mixture, bias: Vec<f32>) -> Self {
        Self { router: mixture.router, per_token: mixture.per_token, bias }
    }

    /// The experts of a row with their weights, from its scores [E].
    pub(crate) fn choose(&self, scores: &[f32]) -> Vec<(usize, f32)> {
        match self.router {
            Router::Softmax { renormalise } => {
                let probabilities = softmax(scores);
                let chosen = top(&probabilities, self.per_token);
                let sum: f32 = if renormalise { chosen.iter().map(|&e| probabilities[e]).sum() } else { 1.0 };
                chosen.into_iter().map(|e| (e, probabilities[e] / sum)).collect()
            }
            Router::Sigmoid { groups, kept_groups, scale, .. } => {
                let sigmoids: Vec<f32> = scores.iter().map(|score| 1.0 / (1.0 + (-score).exp())).collect();
                let mut ranks: Vec<f32> = sigmoids.clone();
                ranks.iter_mut().zip(&self.bias).for_each(|(rank, bias)| *rank += bias);
                keep_groups(&mut ranks, groups, kept_groups);
                let chosen = top(&ranks, self.per_token);
                let sum: f32 = chosen.iter().map(|&e| sigmoids[e]).sum::<f32>() + 1e-20;
                chosen.into_iter().map(|e| (e, sigmoids[e] / sum * scale as f32)).collect()
            }
        }
    }
}

/// Minus infinity in all groups but the best `kept`, by the sum of a group's two largest.
fn keep_groups(ranks: &mut [f32], groups: usize, kept: usize) {
    if kept >= groups {
        return;
    }
    let size = ranks.len() / groups;
    let sums: Vec<f32> = ranks.chunks(size).map(|group| top(group, 2).iter().map(|&e| group[e]).sum()).collect();
    let best = top(&sums, kept);
    for (group, ranks) in ranks.chunks_mut(size).enumerate().filter(|(group, _)| !best.contains(group)) {
        debug_assert!(group < groups);
        ranks.fill(f32::NEG_INFINITY);
    }
}

/// The places of the `n` largest, largest first; among equals the lower place comes first.
fn top(values: &[f32], n: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    let by_value = |a: &usize, b: &usize| values[*b].total_cmp(&values[*a]).then(a.cmp(b));
    if n < order.len() {
        order.select_nth_unstable_by(n, by_value);
        order.truncate(n);
    }
    order.sort_unstable_by(by_value);
    order
}

fn softmax(scores: &[f32]) -> Vec<f32> {
    let max = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut values: Vec<f32> = scores.iter().map(|score| (score - max).exp()).collect();
    let sum: f32 = values.iter().sum();
    values.iter_mut().for_each(|value| *value /= sum);
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn chooser(per_token: usize, router: Router, bias: Vec<f32>) -> Chooser {
        Chooser { router, per_token, bias }
    }

    #[test]
    fn softmax_with_and_without_renormalising() {
        let scores = [1.0, 3.0, 2.0, 3.0];
        let plain = chooser(2, Router::Softmax { renormalise: false }, vec![]).choose(&scores);
        let renormalised = chooser(2, Router::Softmax { renormalise: true }, vec![]).choose(&scores);
        assert_eq!(plain.iter().map(|c| c.0).collect::<Vec<_>>(), [1, 3], "the lower of equals first");
        let e = |x: f32| (x - 3.0).exp();
        let whole = e(1.0) + e(3.0) + e(2.0) + e(3.0);
        assert!((plain[0].1 - 1.0 / whole).abs() < 1e-6);
        assert_eq!(renormalised, [(1, 0.5), (3, 0.5)]);
    }

    /// A bias chooses and does not weigh; a group may hide the best expert.
    #[test]
    fn groups_and_bias() {
        let grouped = Router::Sigmoid { bias: true, groups: 2, kept_groups: 1, scale: 2.5 };
        let free = Router::Sigmoid { bias: true, groups: 2, kept_groups: 2, scale: 2.5 };
        let scores = [4.0, -4.0, 1.0, 1.0];
        let numbers = |choice: Vec<(usize, f32)>| choice.into_iter().map(|c| c.0).collect::<Vec<_>>();
        assert_eq!(numbers(chooser(2, free, vec![0.0; 4]).choose(&scores)), [0, 2]);
        assert_eq!(numbers(chooser(2, grouped, vec![0.0; 4]).choose(&scores)), [2, 3], "0.98 + 0.02 is less than twice 0.73");
        let biased = chooser(2, grouped, vec![0.0, 1.0, 0.0, 0.0]).choose(&scores);
        assert_eq!(numbers(biased.clone()), [1, 0]);
        assert!((biased.iter().map(|c| c.1).sum::<f32>() - 2.5).abs() < 1e-5);
        assert!(biased[0].1 < 0.1, "weighed by the sigmoid alone: {biased:?}");
    }

    /// The slow obvious choice: sort everything.
    fn slow(scores: &[f32], per_token: usize, groups: usize, kept: usize, bias: &[f32]) -> Vec<usize> {
        let sigmoid = |x: f32| 1.0 / (1.0 + (-x).exp());
        let ranks: Vec<f32> = scores.iter().zip(bias).map(|(s, b)| sigmoid(*s) + b).collect();
        let size = scores.len() / groups;
        let mut sums: Vec<(usize, f32)> = (0..groups)
            .map(|g| {
                let mut group = ranks[g * size..(g + 1) * size].to_vec();
                group.sort_by(|a, b| b.total_cmp(a));
                (g, group[0] + group[1])
            })
            .collect();
        sums.sort_by(|a, b| b.1.total_cmp(&a.1));
        let kept: Vec<usize> = sums[..kept].iter().map(|s| s.0).collect();
        let mut all: Vec<usize> = (0..scores.len()).filter(|e| kept.contains(&(e / size))).collect();
        all.sort_by(|a, b| ranks[*b].total_cmp(&ranks[*a]));
        all.truncate(per_token);
        all
    }

    proptest! {
        #[test]
        fn as_the_slow_choice(
            scores in proptest::collection::vec(-6f32..6.0, 16), bias in proptest::collection::vec(-1f32..1.0, 16),
            per_token in 1usize..5, kept_groups in 1usize..5
        ) {
            let router = Router::Sigmoid { bias: true, groups: 4, kept_groups, scale: 1.0 };
            let found = chooser(per_token, router, bias.clone()).choose(&scores);
            let wanted = slow(&scores, per_token, 4, kept_groups, &bias);
            prop_assert_eq!(found.iter().map(|c| c.0).collect::<Vec<_>>(), wanted);
            prop_assert!((found.iter().map(|c| c.1).sum::<f32>() - 1.0).abs() < 1e-4);
        }
    }
}
