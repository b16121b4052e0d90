//! Settings of block diffusion.

use super::{Method, Subject, Task, check};
use crate::decode::{BlockDecoder, Decoder};
use crate::error::{Error, Result};

/// Which slots of a block a step reveals (SDAR's four strategies, and margin).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// The leftmost.
    Sequential,
    /// The most probable, as many as the step's quota.
    LowConfidenceStatic,
    /// All above the threshold if they fill the quota, else as static.
    #[default]
    LowConfidenceDynamic,
    /// By rising entropy until their sum would reach the bound; the true entropy of each row.
    EntropyBounded,
    /// The largest distance between first and second token, as many as the step's quota.
    Margin,
}

impl std::str::FromStr for Strategy {
    type Err = Error;
    fn from_str(s: &str) -> Result<Self> {
        Ok(match s {
            "sequential" => Self::Sequential,
            "low_confidence_static" => Self::LowConfidenceStatic,
            "low_confidence_dynamic" => Self::LowConfidenceDynamic,
            "entropy_bounded" => Self::EntropyBounded,
            "margin" => Self::Margin,
            other => {
                let known = "sequential, low_confidence_static, low_confidence_dynamic, entropy_bounded or margin";
                return Err(Error::input("strategy", format!("'{other}' is unknown for block diffusion; use {known}")));
            }
        })
    }
}

/// Block diffusion: blocks from left to right, each denoised in steps; finished blocks are cached exactly.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BlockDiffusion {
    /// B. None: the checkpoint's.
    pub block_length: Option<usize>,
    /// Steps **a block** (not a canvas). None: B, one token a step.
    pub steps: Option<usize>,
    /// Which slots a step reveals.
    pub strategy: Strategy,
    /// For `low_confidence_dynamic`: reveal above it. Any number; at most 0 means all, 1 or more none. None: the family's own, 0.85 for SDAR and 0.95 for LLaDA2.
    pub threshold: Option<f32>,
    /// For `entropy_bounded`, in nats. None: 0.35, the reference's.
    pub entropy_bound: Option<f32>,
}

impl BlockDiffusion {
    /// Refuses settings that would have no effect.
    fn check_together(&self) -> Result<()> {
        if self.threshold.is_some() && self.strategy != Strategy::LowConfidenceDynamic {
            return Err(Error::input("threshold", "has an effect with strategy low_confidence_dynamic only; leave one of them out"));
        }
        if self.entropy_bound.is_some() && self.strategy != Strategy::EntropyBounded {
            return Err(Error::input("entropy_bound", "has an effect with strategy entropy_bounded only; leave one of them out"));
        }
        Ok(())
    }
}

impl Method for BlockDiffusion {
    fn name(&self) -> &'static str {
        "BlockDiffusion"
    }

    fn block_length(&self) -> Option<usize> {
        self.block_length
    }

    fn validate(&self) -> Result<()> {
        check::positive("block_length", self.block_length)?;
        check::steps(self.steps)?;
        check::number("threshold", self.threshold)?;
        match self.entropy_bound {
            Some(bound) if bound.is_nan() || bound < 0.0 => Err(Error::input("entropy_bound", format!("is {bound}; at least 0 is needed"))),
            _ => Ok(()),
        }
    }

    fn suits(&self, _subject: &Subject<'_>) -> Result<()> {
        self.check_together()
    }

    fn warnings(&self, subject: &Subject<'_>) -> Vec<String> {
        match (self.block_length.or(subject.block_length), subject.trained_block_length) {
            (Some(wanted), Some(trained)) if wanted != trained => {
                vec![format!("block_length {wanted} differs from {trained}, for which these weights were trained; the text may be worse")]
            }
            _ => Vec::new(),
        }
    }

    fn decoder(&self, task: Task) -> Box<dyn Decoder> {
        Box::new(BlockDecoder::new(self, task))
    }
}
