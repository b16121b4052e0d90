//! Which masks behind a block are kept: pure functions of (policy, seed, block, what is behind the block).

use std::f64::consts::PI;

use super::method::{DropoutKind, Spotlight, Suffix, SuffixDropout};
use crate::sample::noise::{Purpose, Stream};

/// k and a of the Gaussian where nothing is given; a gives the nearest mask a probability of 0.92.
const OWN: (f64, f64) = (3.0, 2.3);
/// How many times less likely the farther half of the window is with `Step`, where nothing is given.
const STEP: f64 = 4.0;

/// The places of the canvas from `from` (the first behind the block) to `end` that are kept for block number `block`, in order. `slots` are
/// the slots of the whole answer; a window that is not given depends on them. A place depends on (seed, block, place) and on nothing else.
pub fn kept(policy: &Suffix, slots: usize, seed: u64, block: usize, from: usize, end: usize) -> Vec<u32> {
    let all = from as u32..end as u32;
    match policy {
        Suffix::Off | Suffix::KeepAll | Suffix::Spotlight(_) => all.collect(),
        Suffix::DropAll => Vec::new(),
        Suffix::Kept(lists) => lists.get(block).cloned().unwrap_or_default(),
        Suffix::WindowTail(policy) => {
            let near = from + policy.window.unwrap_or(window_for(slots));
            let far = end.saturating_sub(policy.tail);
            all.filter(|&place| (place as usize) < near || place as usize >= far).collect()
        }
        Suffix::Dropout(dropout) if dropout.kind == DropoutKind::Uniform => {
            let (window, budget) = (dropout.window_for(slots), dropout.budget_for(slots));
            let mut drawn: Vec<(f64, u32)> = all.take(window).map(|place| (number(seed, block, place), place)).collect();
            drawn.sort_by(|a, b| a.0.total_cmp(&b.0)); // stable: the nearer of equals
            let mut places: Vec<u32> = drawn.into_iter().take(budget).map(|(_, place)| place).collect();
            places.sort_unstable();
            places
        }
        Suffix::Dropout(dropout) => {
            let likely = dropout.probabilities(slots);
            all.zip(likely).filter(|&(place, p)| number(seed, block, place) < p).map(|(place, _)| place).collect()
        }
    }
}

/// What is left of `kept` after a spotlight: without the `count` places that got the most attention among those farther than
/// `distance` from the block, whose last place is `from - 1`. Of equals the nearer goes first.
pub fn without_spotlights(policy: &Spotlight, kept: &[u32], attention: &[f32], from: usize) -> Vec<u32> {
    let mut far: Vec<usize> = (0..kept.len().min(attention.len())).filter(|&i| kept[i] as usize + 1 - from > policy.distance).collect();
    far.sort_by(|&a, &b| attention[b].total_cmp(&attention[a])); // stable
    far.truncate(policy.count);
    kept.iter().enumerate().filter(|(i, _)| !far.contains(i)).map(|(_, &place)| place).collect()
}

/// The number of one place, in (0, 1).
fn number(seed: u64, block: usize, place: u32) -> f64 {
    Stream::new(seed, Purpose::Suffix, block as u32, place).uniform()
}

/// A quarter of the answer, between the 64 and the 256 masks that DPad's ablation and settings find useful.
fn window_for(slots: usize) -> usize {
    (slots / 4).clamp(64, 256)
}

impl SuffixDropout {
    /// W for an answer of so many slots.
    pub fn window_for(&self, slots: usize) -> usize {
        self.window.unwrap_or_else(|| window_for(slots).max(self.budget.unwrap_or(0)))
    }

    /// How many masks a whole window keeps on average, where `a` is not given.
    fn budget_for(&self, slots: usize) -> usize {
        let window = self.window_for(slots);
        let own = || (0..window).map(|j| gaussian(OWN.0, OWN.1, j, window)).sum::<f64>().round() as usize;
        self.budget.unwrap_or_else(own)
    }

    /// The probability of each mask of the window to be kept, the nearest first, `[W]`. (Of `Uniform` the share, which is that of a whole window.)
    pub fn probabilities(&self, slots: usize) -> Vec<f64> {
        let window = self.window_for(slots);
        let given = |own: f64| self.k.map_or(own, f64::from);
        let shape = |j: usize| {
            let d = distance(j, window);
            match self.kind {
                DropoutKind::Gaussian => gaussian_curve(given(OWN.0) * d),
                DropoutKind::Uniform => 1.0,
                DropoutKind::Exponential => (-given(OWN.0) * d).exp(),
                DropoutKind::Linear => 1.0 - d,
                DropoutKind::Step if 2 * j < window => 1.0,
                DropoutKind::Step => 1.0 / given(STEP),
            }
        };
        let curve: Vec<f64> = (0..window).map(shape).collect();
        let a = match (self.a, self.kind, self.budget) {
            (Some(a), ..) => f64::from(a),
            (None, DropoutKind::Gaussian, None) => OWN.1,
            _ => height(&curve, self.budget_for(slots) as f64),
        };
        curve.into_iter().map(|c| (a * c).min(1.0)).collect()
    }

    /// How many masks are kept on average where `remaining` are behind the block.
    pub fn expected(&self, slots: usize, remaining: usize) -> f64 {
        match self.kind {
            DropoutKind::Uniform => self.budget_for(slots).min(self.window_for(slots)).min(remaining) as f64,
            _ => self.probabilities(slots).iter().take(remaining).sum(),
        }
    }
}

/// From 0 right behind the block to 1 at the window's end. DPad's code; its paper divides by W.
fn distance(j: usize, window: usize) -> f64 {
    j as f64 / (window.max(2) - 1) as f64
}

fn gaussian(k: f64, a: f64, j: usize, window: usize) -> f64 {
    (a * gaussian_curve(k * distance(j, window))).min(1.0)
}

/// The density of the standard normal distribution.
fn gaussian_curve(x: f64) -> f64 {
    (-x * x / 2.0).exp() / (2.0 * PI).sqrt()
}

/// The factor for which min(1, factor * curve) adds up to `sum`, by halving; a sum out of reach takes everything that is above 0.
fn height(curve: &[f64], sum: f64) -> f64 {
    let total = |a: f64| curve.iter().map(|c| (a * c).min(1.0)).sum::<f64>();
    let (mut low, mut high) = (0.0, 1.0);
    while total(high) < sum && high < 1e12 {
        high *= 2.0;
    }
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if total(middle) < sum { low = middle } else { high = middle }
    }
    high
}
