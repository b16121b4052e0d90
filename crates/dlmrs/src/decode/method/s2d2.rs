//! Settings of self-speculation.

use super::{BlockDiffusion, Method, Subject, Task, check};
use crate::decode::rules::Rules;
use crate::decode::{Decoder, Grid, RevealRule};
use crate::error::{Error, Result};
use crate::speculate::route::{Estimator, Policy, Score};
use crate::speculate::{Judgement, S2d2Decoder, SelfSpeculation};

/// What makes a draft stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Variant {
    /// It is the verifier's own token; no random numbers.
    #[default]
    Greedy,
    /// The paper's: min(1, q/p) of the plain softmax of both, though the draft is the most probable token. Seeded; not lossless.
    Paper,
    /// The draft is drawn from the distribution it is judged by: what is verified is distributed as the verifier's.
    Exact,
}

impl Variant {
    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Greedy => "greedy",
            Self::Paper => "paper",
            Self::Exact => "exact",
        }
    }
}

impl std::str::FromStr for Variant {
    type Err = Error;
    fn from_str(s: &str) -> Result<Self> {
        match s {
            "greedy" => Ok(Self::Greedy),
            "paper" => Ok(Self::Paper),
            "exact" => Ok(Self::Exact),
            other => Err(Error::input("variant", format!("'{other}' is unknown; use greedy, paper or exact"))),
        }
    }
}

/// Self-speculation: the weights draft in blocks and verify from left to right, at block length 1.
#[derive(Clone, Debug, PartialEq)]
pub struct S2D2 {
    /// The reveal rule for what is not verified. Its threshold also says which drafts are sure, for a dynamic score.
    pub block: BlockDiffusion,
    /// What makes a draft stay.
    pub variant: Variant,
    /// Prefix and decided slots see their left only, as the verifier has it.
    pub ar_cache: bool,
    /// When the leftmost masked run is verified.
    pub policy: Policy,
}

impl Default for S2D2 {
    fn default() -> Self {
        Self { block: BlockDiffusion::default(), variant: Variant::default(), ar_cache: true, policy: Policy::MinSpan(1) }
    }
}

/// Refuses a score that is no number.
fn check_score(score: &Score) -> Result<()> {
    check::number("penalty", Some(score.penalty))?;
    let value = score.estimator.value();
    match value.is_finite() && value >= 0.0 {
        true => Ok(()),
        false => Err(Error::input("estimator_value", format!("is {value}; a number of at least 0 is needed"))),
    }
}

impl Method for S2D2 {
    fn name(&self) -> &'static str {
        "S2D2"
    }

    fn block(&self) -> Option<&BlockDiffusion> {
        Some(&self.block)
    }

    fn validate(&self) -> Result<()> {
        self.block.validate()?;
        match &self.policy {
            Policy::MinSpan(0) => Err(Error::input("min_span", "is 0; at least 1 is needed (1 is always)")),
            Policy::MinSpan(_) => Ok(()),
            Policy::ScoreThreshold { score, threshold } => {
                check::number("score_threshold", Some(*threshold))?;
                check_score(score)
            }
            Policy::Hysteresis { score, on, off } => {
                if on.is_nan() || off.is_nan() || on <= off {
                    return Err(Error::input("hysteresis", format!("goes on above {on} and off below {off}; on must be larger than off")));
                }
                check_score(score)
            }
        }
    }

    fn suits(&self, subject: &Subject<'_>) -> Result<()> {
        self.block.suits(subject)
    }

    fn decoder(&self, task: Task) -> Box<dyn Decoder> {
        let grid = Grid::new(&self.block, &task);
        let rule = RevealRule::new(&self.block, task.threshold, grid.length);
        let judgement = match self.variant {
            Variant::Greedy => Judgement::Match,
            Variant::Paper => Judgement::Ratio,
            Variant::Exact => Judgement::Honest,
        };
        let (threshold, vocab) = (self.block.threshold.unwrap_or(task.threshold), task.vocab);
        let how = SelfSpeculation { judgement, ar_cache: self.ar_cache, policy: self.policy, threshold, vocab, seed: task.seed };
        Box::new(S2d2Decoder::new(grid, Rules::new(&task, &[]), rule, how))
    }
}

/// The reference's estimators with its function's default numbers, by their names.
pub fn estimator(name: &str, value: Option<f32>) -> Result<Estimator> {
    Ok(match name {
        "hard_margin_threshold" => Estimator::HardMarginThreshold(value.unwrap_or(0.05)),
        "hard_entropy_threshold" => Estimator::HardEntropyThreshold(value.unwrap_or(0.5)),
        "soft_confidence_power" => Estimator::SoftConfidencePower(value.unwrap_or(1.0)),
        "soft_clipped_linear_margin" => Estimator::SoftClippedLinearMargin(value.unwrap_or(1.0)),
        "soft_entropy_negexp" => Estimator::SoftEntropyNegexp(value.unwrap_or(1.0)),
        "soft_renyi_2_entropy" if value.is_some() => {
            return Err(Error::input("estimator_value", "has no meaning for soft_renyi_2_entropy; leave it out"));
        }
        "soft_renyi_2_entropy" => Estimator::SoftRenyi2Entropy,
        other => {
            let known = "hard_margin_threshold, hard_entropy_threshold, soft_confidence_power, soft_clipped_linear_margin, \
                         soft_entropy_negexp or soft_renyi_2_entropy";
            return Err(Error::input("estimator", format!("'{other}' is unknown; use {known}")));
        }
    })
}
