//! S2D2's routing: whether a verification is worth its pass (the paper's policies and acceptance estimators), as pure functions.

use crate::sample::RowStat;

/// How the chance is estimated that the verifier keeps a draft, from the draft's row. All are cut to 0 to 1; entropies are divided by ln V.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Estimator {
    /// 1 if the distance between first and second probability is above this, else 0.
    HardMarginThreshold(f32),
    /// 1 if the entropy is below this, else 0.
    HardEntropyThreshold(f32),
    /// The drafted token's probability to this power.
    SoftConfidencePower(f32),
    /// This times the distance between first and second probability.
    SoftClippedLinearMargin(f32),
    /// exp(-this times the entropy).
    SoftEntropyNegexp(f32),
    /// The sum of the squared probabilities.
    SoftRenyi2Entropy,
}

impl Estimator {
    /// As the reference calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::HardMarginThreshold(_) => "hard_margin_threshold",
            Self::HardEntropyThreshold(_) => "hard_entropy_threshold",
            Self::SoftConfidencePower(_) => "soft_confidence_power",
            Self::SoftClippedLinearMargin(_) => "soft_clipped_linear_margin",
            Self::SoftEntropyNegexp(_) => "soft_entropy_negexp",
            Self::SoftRenyi2Entropy => "soft_renyi_2_entropy",
        }
    }

    /// Its number; 0 for the one that has none.
    pub fn value(self) -> f32 {
        match self {
            Self::HardMarginThreshold(x) | Self::HardEntropyThreshold(x) | Self::SoftConfidencePower(x) => x,
            Self::SoftClippedLinearMargin(x) | Self::SoftEntropyNegexp(x) => x,
            Self::SoftRenyi2Entropy => 0.0,
        }
    }

    /// Whether it needs the sum of squares, and with it whole rows.
    pub fn needs_squares(self) -> bool {
        self == Self::SoftRenyi2Entropy
    }

    /// The estimate for a draft; `squares` is the sum of its row's squared probabilities.
    pub fn alpha(self, stat: &RowStat, vocab: usize, squares: f64) -> f64 {
        let entropy = f64::from(stat.entropy) / (vocab as f64).ln();
        let (margin, confidence) = (f64::from(stat.margin), f64::from(stat.probability));
        let alpha = match self {
            Self::HardMarginThreshold(x) => f64::from(u8::from(margin > f64::from(x))),
            Self::HardEntropyThreshold(x) => f64::from(u8::from(entropy < f64::from(x))),
            Self::SoftConfidencePower(x) => confidence.powf(f64::from(x)),
            Self::SoftClippedLinearMargin(x) => f64::from(x) * margin,
            Self::SoftEntropyNegexp(x) => (-f64::from(x) * entropy).exp(),
            Self::SoftRenyi2Entropy => squares,
        };
        alpha.clamp(0.0, 1.0)
    }
}

/// What a verification must be worth: the drafts it is expected to keep, less a penalty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// The estimate of each draft's chance.
    pub estimator: Estimator,
    /// What a verification costs, in tokens.
    pub penalty: f32,
    /// The penalty counts once for each draft above the confidence threshold, which would be revealed without a verification.
    pub dynamic: bool,
}

impl Score {
    /// Of the estimates for the span, in order, and the number of drafts above the confidence threshold.
    pub fn of(&self, alphas: &[f64], sure: usize) -> f64 {
        let products = alphas.iter().scan(1.0, |product, alpha| {
            *product *= alpha;
            Some(*product)
        });
        let times = if self.dynamic { sure as f64 } else { 1.0 };
        products.sum::<f64>() - f64::from(self.penalty) * times
    }
}

/// When the leftmost masked run is verified.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Policy {
    /// When it has at least so many slots; 1 is always.
    MinSpan(usize),
    /// When the score is at least this.
    ScoreThreshold {
        /// The score.
        score: Score,
        /// At least.
        threshold: f32,
    },
    /// Once the score is above `on`, until it falls below `off`; off at first.
    Hysteresis {
        /// The score.
        score: Score,
        /// Above it verification goes on.
        on: f32,
        /// Below it verification goes off.
        off: f32,
    },
}

impl Policy {
    /// The score that it goes by.
    pub fn score(&self) -> Option<Score> {
        match self {
            Self::MinSpan(_) => None,
            Self::ScoreThreshold { score, .. } | Self::Hysteresis { score, .. } => Some(*score),
        }
    }

    /// Whether to verify a span of so many slots with this score; `was_on` is the last answer.
    pub fn verifies(&self, span: usize, score: f64, was_on: bool) -> bool {
        match *self {
            Self::MinSpan(least) => span >= least,
            Self::ScoreThreshold { threshold, .. } => score >= f64::from(threshold),
            Self::Hysteresis { on, off, .. } => {
                if was_on {
                    score >= f64::from(off)
                } else {
                    score > f64::from(on)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(probability: f32, entropy: f32, margin: f32) -> RowStat {
        RowStat { token: 0, probability, entropy, margin }
    }

    #[test]
    fn estimators_by_example() {
        let s = stat(0.25, 2.0, 0.125);
        let vocab = 55; // ln 55 is 4.007
        let alpha = |e: Estimator| e.alpha(&s, vocab, 0.3);
        assert_eq!(alpha(Estimator::HardMarginThreshold(0.1)), 1.0);
        assert_eq!(alpha(Estimator::HardMarginThreshold(0.125)), 0.0, "strictly above");
        assert_eq!(alpha(Estimator::HardEntropyThreshold(0.5)), 1.0);
        assert_eq!(alpha(Estimator::HardEntropyThreshold(0.4)), 0.0);
        assert_eq!(alpha(Estimator::SoftConfidencePower(0.5)), 0.5);
        assert_eq!(alpha(Estimator::SoftClippedLinearMargin(4.0)), 0.5);
        assert_eq!(alpha(Estimator::SoftClippedLinearMargin(40.0)), 1.0, "cut to 1");
        assert!((alpha(Estimator::SoftEntropyNegexp(2.0)) - (-2.0 * 2.0 / 55f64.ln()).exp()).abs() < 1e-12);
        assert_eq!(alpha(Estimator::SoftRenyi2Entropy), 0.3);
    }

    #[test]
    fn scores_and_policies_by_example() {
        let score = |dynamic| Score { estimator: Estimator::SoftRenyi2Entropy, penalty: 0.5, dynamic };
        assert_eq!(score(false).of(&[0.5, 0.5], 3), 0.75 - 0.5);
        assert_eq!(score(true).of(&[0.5, 0.5], 3), 0.75 - 1.5);
        assert_eq!(score(true).of(&[0.5, 0.5], 0), 0.75);
        assert!(Policy::MinSpan(2).verifies(2, 0.0, false) && !Policy::MinSpan(2).verifies(1, 9.0, true));
        assert!(Policy::ScoreThreshold { score: score(false), threshold: 0.25 }.verifies(1, 0.25, false));
        let policy = Policy::Hysteresis { score: score(false), on: 1.0, off: 0.5 };
        assert!(!policy.verifies(1, 1.0, false) && policy.verifies(1, 1.1, false));
        assert!(policy.verifies(1, 0.5, true) && !policy.verifies(1, 0.4, true));
    }
}
