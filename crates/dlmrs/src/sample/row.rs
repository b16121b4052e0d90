//! The statistics of one row, gathered tile by tile over the vocabulary, so that a row of V logits need never exist as a whole.

use dlmrs_kernels::{Isa, tile_stats, top_two};

use super::noise::{GUMBEL_MAX, Purpose, Stream, gumbel};
use super::rule::{Confidence, Edit, FilterOrder, RowRule};

/// What a decoder learns about one row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowStat {
    /// The token that was drawn (the argmax at temperature 0; the lowest id among equals).
    pub token: u32,
    /// Its probability, under the distribution that [`RowRule::confidence`] names.
    pub probability: f32,
    /// Entropy of that distribution, in nats.
    pub entropy: f32,
    /// Probability of its first token minus that of its second, the mask token left out.
    pub margin: f32,
}

/// Running log-sum-exp and entropy of logits, in tiles: sums of exp(l - max) and of exp(l - max) * (l - max).
#[derive(Clone, Copy)]
struct Mass {
    max: f64,
    sum: f64,
    weighted: f64,
}

impl Mass {
    const EMPTY: Self = Self { max: f64::NEG_INFINITY, sum: 0.0, weighted: 0.0 };

    fn merge(&mut self, other: Self) {
        if other.sum == 0.0 {
            return;
        }
        if self.sum == 0.0 {
            *self = other;
            return;
        }
        let max = self.max.max(other.max);
        let rescaled = |m: Self| {
            let shift = m.max - max;
            (m.sum * shift.exp(), shift.exp() * (m.weighted + m.sum * shift))
        };
        let ((a, wa), (b, wb)) = (rescaled(*self), rescaled(other));
        *self = Self { max, sum: a + b, weighted: wa + wb };
    }

    fn probability(&self, logit: f64) -> f64 {
        (logit - self.max).exp() / self.sum
    }

    fn entropy(&self) -> f64 {
        (self.sum.ln() - self.weighted / self.sum).max(0.0)
    }
}

/// The best and the second-best logit so far.
#[derive(Clone, Copy)]
struct Best {
    token: u32,
    first: f32,
    second: f32,
}

impl Best {
    const NONE: Self = Self { token: 0, first: f32::NEG_INFINITY, second: f32::NEG_INFINITY };

    /// `other` stands at higher ids, so it wins only if it is truly larger.
    fn merge(&mut self, other: Self) {
        if other.first > self.first {
            *self = Self { second: self.first.max(other.second), ..other };
        } else {
            self.second = self.second.max(other.first);
        }
    }
}

/// Why a row gave no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoToken {
    /// A logit was NaN or infinite.
    NotFinite,
    /// Bans left nothing to draw.
    AllBanned,
}

/// A row on its way through the tiles.
pub(crate) struct RowState<'a> {
    rule: &'a RowRule,
    isa: Isa,
    mass: Mass,
    best: Best,
    /// Score with noise, token, and its logit in the distribution of the confidence.
    drawn: (f64, u32, f64),
    /// Tempered logits of the whole row, where filters need them; the logits before temperature where the confidence is raw.
    row: Vec<f32>,
    raw_row: Vec<f32>,
    not_finite: bool,
}

impl<'a> RowState<'a> {
    pub(crate) fn new(rule: &'a RowRule, isa: Isa) -> Self {
        Self {
            rule,
            isa,
            mass: Mass::EMPTY,
            best: Best::NONE,
            drawn: (f64::NEG_INFINITY, 0, 0.0),
            row: Vec::new(),
            raw_row: Vec::new(),
            not_finite: false,
        }
    }

    /// Takes the logits of the ids `from..from + tile.len()`; tiles come in order. The tile is used up.
    pub(crate) fn feed(&mut self, from: u32, tile: &mut [f32]) {
        self.edit(from, tile);
        if self.rule.is_greedy() {
            self.measure(tile);
            self.hide(from, tile);
            self.rank(from, tile);
            return;
        }
        let raw = self.rule.confidence == Confidence::Raw;
        if raw {
            self.measure(tile);
        }
        self.hide(from, tile);
        if raw {
            self.rank(from, tile);
        }
        if self.rule.needs_whole_row() {
            if raw {
                self.raw_row.extend_from_slice(tile);
            }
            let temperature = self.rule.temperature;
            self.row.extend(tile.iter().map(|l| l / temperature));
            self.not_finite |= tile.iter().any(|l| l.is_nan());
            return;
        }
        self.draw(from, tile, raw);
        if !raw {
            let temperature = self.rule.temperature;
            tile.iter_mut().for_each(|l| *l /= temperature);
            self.measure(tile);
            self.rank(from, tile);
        }
    }

    /// Takes away what is never drawn.
    pub(super) fn hide(&self, from: u32, tile: &mut [f32]) {
        if let Some(logit) = self.rule.mask_token_id.checked_sub(from).and_then(|i| tile.get_mut(i as usize)) {
            *logit = f32::NEG_INFINITY;
        }
        let drawable = (self.rule.drawable.saturating_sub(from) as usize).min(tile.len());
        tile[drawable..].fill(f32::NEG_INFINITY);
    }

    /// What was found.
    pub(crate) fn finish(mut self) -> Result<RowStat, NoToken> {
        if self.rule.needs_whole_row() {
            self.finish_filtered();
        }
        if self.not_finite {
            return Err(NoToken::NotFinite);
        }
        let (token, logit) = match self.rule.is_greedy() {
            true => (self.best.token, f64::from(self.best.first)),
            false => (self.drawn.1, self.drawn.2),
        };
        if logit == f64::NEG_INFINITY || self.mass.sum <= 0.0 {
            return Err(NoToken::AllBanned);
        }
        let p = |logit: f32| self.mass.probability(f64::from(logit));
        Ok(RowStat {
            token,
            probability: self.mass.probability(logit) as f32,
            entropy: self.mass.entropy() as f32,
            margin: (p(self.best.first) - p(self.best.second)) as f32,
        })
    }

    /// Adds biases and bans, applies penalties.
    pub(super) fn edit(&self, from: u32, tile: &mut [f32]) {
        let mut at = |token: u32, f: &dyn Fn(f32) -> f32| {
            if let Some(logit) = token.checked_sub(from).and_then(|i| tile.get_mut(i as usize)) {
                *logit = f(*logit);
            }
        };
        for &(token, edit) in self.rule.edits.iter() {
            match edit {
                Edit::Add(bias) => at(token, &|l| l + bias),
                Edit::Penalty(p) => at(token, &|l| if l > 0.0 { l / p } else { l * p }),
            }
        }
        for &token in self.rule.banned.iter() {
            at(token, &|_| f32::NEG_INFINITY);
        }
    }

    fn measure(&mut self, tile: &[f32]) {
        let t = tile_stats(self.isa, tile);
        self.not_finite |= t.has_nan || t.max == f32::INFINITY;
        self.mass.merge(Mass { max: f64::from(t.max), sum: f64::from(t.sum_exp), weighted: f64::from(t.sum_exp_logit) });
    }

    fn rank(&mut self, from: u32, tile: &[f32]) {
        let (index, first, second) = top_two(tile);
        self.best.merge(Best { token: from + index as u32, first, second });
    }

    /// argmax(l / T + Gumbel) over a tile; noise is computed only where it could win.
    fn draw(&mut self, from: u32, tile: &[f32], raw: bool) {
        let temperature = f64::from(self.rule.temperature);
        let mut noise = Stream::new(self.rule.seed, Purpose::Token, 0, self.rule.position);
        noise.seek(from);
        for (i, &logit) in tile.iter().enumerate() {
            let uniform = noise.uniform();
            let scaled = f64::from(logit) / temperature;
            if scaled + GUMBEL_MAX <= self.drawn.0 {
                continue;
            }
            let score = scaled + gumbel(uniform);
            if score > self.drawn.0 {
                self.drawn = (score, from + i as u32, if raw { f64::from(logit) } else { f64::from(logit / self.rule.temperature) });
            }
        }
    }

    fn finish_filtered(&mut self) {
        let kept = keep(&self.row, self.rule);
        let raw = self.rule.confidence == Confidence::Raw;
        let mut noise = Stream::new(self.rule.seed, Purpose::Token, 0, self.rule.position);
        for &token in &kept {
            noise.seek(token);
            let scaled = self.row[token as usize];
            let score = f64::from(scaled) + gumbel(noise.uniform());
            if score > self.drawn.0 {
                let logit = if raw { self.raw_row[token as usize] } else { scaled };
                self.drawn = (score, token, f64::from(logit));
            }
        }
        if !raw {
            let shaped: Vec<f32> = kept.iter().map(|&token| self.row[token as usize]).collect();
            self.measure(&shaped);
            self.rank(0, &shaped);
            self.best.token = kept.get(self.best.token as usize).copied().unwrap_or_default();
        }
    }
}

/// The tokens that pass top-k and top-p, by id. At least one, and never one at minus infinity.
pub(super) fn keep(row: &[f32], rule: &RowRule) -> Vec<u32> {
    let mut order: Vec<u32> = (0..row.len() as u32).filter(|&t| row[t as usize] > f32::NEG_INFINITY).collect();
    let by_logit = |a: &u32, b: &u32| row[*b as usize].total_cmp(&row[*a as usize]).then(a.cmp(b));
    let top_k = |order: &mut Vec<u32>| {
        if rule.top_k > 0 && rule.top_k < order.len() {
            order.select_nth_unstable_by(rule.top_k, by_logit);
            order.truncate(rule.top_k);
        }
    };
    let top_p = |order: &mut Vec<u32>| {
        if rule.top_p >= 1.0 {
            return;
        }
        order.sort_unstable_by(by_logit);
        let Some(max) = order.first().map(|&t| f64::from(row[t as usize])) else { return };
        let weight = |t: &u32| (f64::from(row[*t as usize]) - max).exp();
        let total: f64 = order.iter().map(weight).sum();
        let mut before = 0.0; // mass of the tokens ahead
        let wanted = f64::from(rule.top_p) * total;
        let within = |t: &&u32| {
            let fits = before <= wanted;
            before += weight(t);
            fits
        };
        let n = order.iter().take_while(within).count();
        order.truncate(n.max(1));
    };
    match rule.filter_order {
        FilterOrder::TopKFirst => {
            top_k(&mut order);
            top_p(&mut order);
        }
        FilterOrder::TopPFirst => {
            top_p(&mut order);
            top_k(&mut order);
        }
    }
    order.sort_unstable();
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MASK: u32 = 7;

    fn greedy(mask_token_id: u32) -> RowRule {
        RowRule::greedy(mask_token_id, 0)
    }

    fn scan(rule: &RowRule, logits: &[f32], tile: usize) -> Result<RowStat, NoToken> {
        let mut state = RowState::new(rule, Isa::detect());
        for (i, part) in logits.chunks(tile).enumerate() {
            state.feed((i * tile) as u32, &mut part.to_vec());
        }
        state.finish()
    }

    /// The plain softmax in f64, the slow way.
    fn softmax(logits: &[f32]) -> Vec<f64> {
        let weights: Vec<f64> = logits.iter().map(|&l| f64::from(l).exp()).collect();
        let total: f64 = weights.iter().sum();
        weights.iter().map(|w| w / total).collect()
    }

    fn rows() -> impl Strategy<Value = Vec<f32>> {
        proptest::collection::vec(-8f32..8.0, 9..200)
    }

    proptest! {
        #[test]
        fn greedy_statistics_are_those_of_the_plain_softmax(logits in rows(), tile in 1usize..70) {
            let found = scan(&greedy(MASK), &logits, tile).unwrap();
            let p = softmax(&logits);
            let mut order: Vec<usize> = (0..logits.len()).filter(|&t| t != MASK as usize).collect();
            order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
            prop_assert_eq!(found.token as usize, order[0]);
            prop_assert!((f64::from(found.probability) - p[order[0]]).abs() < 1e-5, "the mask counts in the denominator");
            prop_assert!((f64::from(found.margin) - (p[order[0]] - p[order[1]])).abs() < 1e-5);
            let entropy: f64 = -p.iter().map(|p| p * p.ln()).sum::<f64>();
            prop_assert!((f64::from(found.entropy) - entropy).abs() < 1e-4, "{} {}", found.entropy, entropy);
        }

        /// Tiles change rounding at most, and never the token.
        #[test]
        fn tiles_do_not_matter(logits in rows(), tile in 1usize..70, temperature in 0.3f32..3.0, top_k in 0usize..12, p in 0.2f32..1.0, raw in any::<bool>()) {
            let confidence = if raw { Confidence::Raw } else { Confidence::Shaped };
            for order in [FilterOrder::TopKFirst, FilterOrder::TopPFirst] {
                let rule = RowRule { temperature, top_k, top_p: p, confidence, filter_order: order, seed: 3, position: 9, ..greedy(MASK) };
                let (a, b) = (scan(&rule, &logits, tile).unwrap(), scan(&rule, &logits, logits.len()).unwrap());
                prop_assert_eq!(a.token, b.token);
                prop_assert!((a.probability - b.probability).abs() < 1e-5 && (a.entropy - b.entropy).abs() < 1e-4);
                prop_assert!(a.token != MASK && a.probability > 0.0 && a.probability <= 1.0 + 1e-6);
            }
        }
    }

    #[test]
    fn filters_keep_what_they_say() {
        let logits: Vec<f32> = [0.5f32, 0.25, 0.125, 0.0625, 0.0625].iter().map(|p| p.ln()).collect();
        let kept = |top_k, top_p, filter_order| keep(&logits, &RowRule { temperature: 1.0, top_k, top_p, filter_order, ..greedy(99) });
        assert_eq!(kept(2, 1.0, FilterOrder::TopKFirst), [0, 1]);
        assert_eq!(kept(4, 1.0, FilterOrder::TopKFirst), [0, 1, 2, 3], "the lower id among equals");
        assert_eq!(kept(0, 0.6, FilterOrder::TopKFirst), [0, 1], "the token that crosses the line is kept");
        assert_eq!(kept(0, 1e-9, FilterOrder::TopKFirst), [0]);
        // Of the top 3 the first holds 4/7, so that 0.55 is reached by it alone; of all it holds 1/2.
        assert_eq!(kept(3, 0.55, FilterOrder::TopKFirst), [0]);
        assert_eq!(kept(3, 0.55, FilterOrder::TopPFirst), [0, 1]);
    }

    #[test]
    fn edits_come_first_and_in_order() {
        let logits = [2.0, -2.0, 1.0];
        let edited = |edits: &[(u32, Edit)], banned: &[u32]| {
            scan(&RowRule { edits: edits.into(), banned: banned.into(), ..greedy(MASK) }, &logits, 3).map(|s| s.token).ok()
        };
        assert_eq!(edited(&[], &[]), Some(0));
        assert_eq!(edited(&[(0, Edit::Penalty(4.0))], &[]), Some(2));
        assert_eq!(edited(&[(0, Edit::Penalty(4.0)), (0, Edit::Add(1.0))], &[]), Some(0));
        assert_eq!(edited(&[(1, Edit::Penalty(0.1)), (1, Edit::Add(5.0))], &[]), Some(1), "a negative logit is multiplied");
        assert_eq!(edited(&[], &[0, 2]), Some(1));
        assert_eq!(edited(&[(9, Edit::Add(5.0))], &[8]), Some(0), "ids of other tiles");
        assert_eq!(edited(&[], &[0, 1, 2]), None, "nothing is left to draw");
    }

    #[test]
    fn what_is_not_a_number_is_noticed() {
        for bad in [f32::NAN, f32::INFINITY] {
            for temperature in [0.0, 1.0] {
                for top_k in [0, 3] {
                    let rule = RowRule { temperature, top_k, ..greedy(MASK) };
                    assert_eq!(scan(&rule, &[1.0, bad, 2.0, 0.0], 2), Err(NoToken::NotFinite), "{bad} {temperature} {top_k}");
                }
            }
        }
        let rule = RowRule { drawable: 2, ..greedy(MASK) };
        assert_eq!(scan(&rule, &[1.0, 0.5, 9.0], 2).map(|s| s.token), Ok(0), "ids that no token has are not drawn");
        let rule = RowRule { drawable: 0, ..greedy(MASK) };
        assert_eq!(scan(&rule, &[1.0, 0.5, 9.0], 2), Err(NoToken::AllBanned));
    }
}
