//! The methods of decoding and their settings, with the papers' own names. None means the checkpoint's own way.

use crate::error::{Error, Result};
use crate::params::SamplingParams;
use crate::sample::{Confidence, FilterOrder};

use super::{BlockDecoder, CanvasDecoder, Decoder};

/// How a request is decoded.
#[derive(Clone, Debug, PartialEq)]
pub enum Decoding {
    /// For block-causal models (SDAR).
    Block(BlockDiffusion),
    /// For bidirectional models (LLaDA, Dream).
    Canvas(Canvas),
}

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
    /// For `low_confidence_dynamic`: reveal above it. Any number; at most 0 means all, 1 or more none. None: 0.85, the reference's.
    pub threshold: Option<f32>,
    /// For `entropy_bounded`, in nats. None: 0.35, the reference's.
    pub entropy_bound: Option<f32>,
}

/// Which slots of a canvas a step keeps masked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Remasking {
    /// The least probable stay masked.
    #[default]
    LowConfidence,
    /// Random ones stay masked.
    Random,
}

impl std::str::FromStr for Remasking {
    type Err = Error;
    fn from_str(s: &str) -> Result<Self> {
        match s {
            "low_confidence" => Ok(Self::LowConfidence),
            "random" => Ok(Self::Random),
            other => Err(Error::input("strategy", format!("'{other}' is unknown for a canvas; use low_confidence or random"))),
        }
    }
}

/// Dream's schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DreamAlg {
    /// Every mask is revealed independently with the step's share as probability.
    Origin,
    /// By the probability of the chosen token.
    MaskgitPlus,
    /// By the distance between first and second probability.
    TopkMargin,
    /// By falling entropy.
    Entropy,
}

impl std::str::FromStr for DreamAlg {
    type Err = Error;
    fn from_str(s: &str) -> Result<Self> {
        Ok(match s {
            "origin" => Self::Origin,
            "maskgit_plus" => Self::MaskgitPlus,
            "topk_margin" => Self::TopkMargin,
            "entropy" => Self::Entropy,
            other => return Err(Error::input("alg", format!("'{other}' is unknown; use origin, maskgit_plus, topk_margin or entropy"))),
        })
    }
}

/// Canvas diffusion: prompt and all slots in one canvas, decided block by block, every pass over the whole canvas.
#[derive(Clone, Debug, PartialEq)]
pub struct Canvas {
    /// Slots decided together, counted from the prompt's end; the last block may be shorter. None: 32 for LLaDA, the whole canvas for Dream.
    pub block_length: Option<usize>,
    /// Steps of **the whole canvas** (not a block). None: one token a step. Ignored with a threshold.
    pub steps: Option<usize>,
    /// Which slots stay masked in a step, for the fixed schedule and the threshold.
    pub strategy: Remasking,
    /// Reveal everything at least this probable, and always the most probable. None: the fixed schedule.
    pub threshold: Option<f32>,
    /// Classifier-free guidance; 0 is off. Above 0 every step costs two passes.
    pub cfg_scale: f32,
    /// Dream's schedules instead of the fixed one. None: `entropy` for Dream, off for LLaDA.
    pub alg: Option<DreamAlg>,
    /// Where Dream's time line ends.
    pub eps: f32,
    /// Above 0 Dream's slots are drawn from softmax(confidence / alg_temp) instead of taken in order.
    pub alg_temp: f32,
    /// The end-of-text id is never drawn (LLaDA's logits_eos_inf).
    pub logits_eos_inf: bool,
    /// Slots whose token is a stop id are revealed last (LLaDA's confidence_eos_eot_inf, working at every temperature).
    pub confidence_eos_eot_inf: bool,
}

impl Default for Canvas {
    fn default() -> Self {
        Self {
            block_length: None,
            steps: None,
            strategy: Remasking::LowConfidence,
            threshold: None,
            cfg_scale: 0.0,
            alg: None,
            eps: 1e-3,
            alg_temp: 0.0,
            logits_eos_inf: false,
            confidence_eos_eot_inf: false,
        }
    }
}

impl BlockDiffusion {
    /// Refuses settings that would have no effect.
    pub(crate) fn check_together(&self) -> Result<()> {
        if self.threshold.is_some() && self.strategy != Strategy::LowConfidenceDynamic {
            return Err(Error::input("threshold", "has an effect with strategy low_confidence_dynamic only; leave one of them out"));
        }
        if self.entropy_bound.is_some() && self.strategy != Strategy::EntropyBounded {
            return Err(Error::input("entropy_bound", "has an effect with strategy entropy_bounded only; leave one of them out"));
        }
        Ok(())
    }
}

impl Canvas {
    /// Refuses settings that would have no effect (but for `steps`, which a threshold makes superfluous); `dream` says whether Dream's schedule is the default.
    pub(crate) fn check_together(&self, dream: bool) -> Result<()> {
        let refuse = |name: &str, message: &str| Err(Error::input(name, message));
        let scheduled = self.threshold.is_none() && (self.alg.is_some() || dream);
        if self.threshold.is_some() && self.alg.is_some() {
            return refuse("alg", "has no effect with a threshold; leave one of them out");
        }
        if self.strategy == Remasking::Random && scheduled {
            return refuse("strategy", "'random' has no effect with Dream's schedules; use alg=\"origin\", or give a threshold");
        }
        let way_out = if self.threshold.is_some() { "leave out threshold" } else { "give alg" };
        for (name, given) in [("alg_temp", self.alg_temp > 0.0), ("eps", self.eps != Self::default().eps)] {
            if given && !scheduled {
                return refuse(name, &format!("has an effect with one of Dream's schedules only; {way_out}, or leave it out"));
            }
        }
        let origin = scheduled && self.alg == Some(DreamAlg::Origin);
        if origin && self.alg_temp > 0.0 {
            return refuse("alg_temp", "has no effect with alg=\"origin\", which draws its slots anyway; leave one of them out");
        }
        if self.confidence_eos_eot_inf && (origin || self.strategy == Remasking::Random && self.threshold.is_none()) {
            return refuse("confidence_eos_eot_inf", "has no effect where slots are drawn at random (strategy=\"random\", alg=\"origin\")");
        }
        Ok(())
    }
}

/// What a decoder has to know of the request and of the model.
#[derive(Clone, Debug)]
pub struct Task {
    /// The prompt; mask ids in it are slots to fill.
    pub prompt: Vec<u32>,
    /// The request's settings, validated.
    pub params: SamplingParams,
    /// `params.seed`, or one that was drawn.
    pub seed: u64,
    /// The token that marks an undecided slot.
    pub mask_token_id: u32,
    /// Ids from here on are never drawn.
    pub drawable: u32,
    /// End of text, for `logits_eos_inf`.
    pub eos_token_id: Option<u32>,
    /// All stop ids of checkpoint and request.
    pub stop_token_ids: Vec<u32>,
    /// B of the checkpoint.
    pub block_length: Option<usize>,
    /// Whether the prediction for slot i is read at row i - 1.
    pub shift: bool,
    /// Dream's schedule is the default.
    pub dream: bool,
    /// Which distribution confidences are taken from above temperature 0.
    pub confidence: Confidence,
    /// In which order filters are applied.
    pub filter_order: FilterOrder,
}

impl Decoding {
    /// Its name, as the Python class is called.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Block(_) => "BlockDiffusion",
            Self::Canvas(_) => "Canvas",
        }
    }

    /// Checks all values.
    pub fn validate(&self) -> Result<()> {
        match self {
            Self::Block(b) => {
                positive("block_length", b.block_length)?;
                steps(b.steps)?;
                number("threshold", b.threshold)?;
                match b.entropy_bound {
                    Some(bound) if bound.is_nan() || bound < 0.0 => {
                        Err(Error::input("entropy_bound", format!("is {bound}; at least 0 is needed")))
                    }
                    _ => Ok(()),
                }
            }
            Self::Canvas(c) => {
                positive("block_length", c.block_length)?;
                steps(c.steps)?;
                number("threshold", c.threshold)?;
                if !(c.cfg_scale >= 0.0 && c.cfg_scale.is_finite()) {
                    return Err(Error::input("cfg_scale", format!("is {}; a number of at least 0 is needed (0 is off)", c.cfg_scale)));
                }
                temperature("alg_temp", c.alg_temp, "off")?;
                if !(c.eps > 0.0 && c.eps < 1.0) {
                    return Err(Error::input("eps", format!("is {}; a number between 0 and 1 is needed", c.eps)));
                }
                Ok(())
            }
        }
    }

    /// The state machine for one request. Settings and task must have been validated.
    pub fn decoder(&self, task: Task) -> Box<dyn Decoder> {
        match self {
            Self::Block(settings) => Box::new(BlockDecoder::new(settings, task)),
            Self::Canvas(settings) => Box::new(CanvasDecoder::new(settings, task)),
        }
    }
}

/// Far more than there are positions; it bounds the tables of a schedule.
const MOST_STEPS: usize = 1 << 16;

fn steps(value: Option<usize>) -> Result<()> {
    match value {
        Some(value) if value > MOST_STEPS => Err(Error::input("steps", format!("is {value}; at most {MOST_STEPS} are possible"))),
        _ => positive("steps", value),
    }
}

/// Refuses what is not a temperature: below a millionth the division by it leaves the range of f32.
pub(crate) fn temperature(name: &str, value: f32, zero: &str) -> Result<()> {
    if value == 0.0 || value >= 1e-6 && value.is_finite() {
        return Ok(());
    }
    Err(Error::input(name, format!("is {value}; 0 ({zero}) or a number of at least 0.000001 is needed")))
}

fn positive(name: &str, value: Option<usize>) -> Result<()> {
    match value {
        Some(0) => Err(Error::input(name, "is 0; at least 1 is needed")),
        _ => Ok(()),
    }
}

fn number(name: &str, value: Option<f32>) -> Result<()> {
    match value {
        Some(value) if value.is_nan() => Err(Error::input(name, "is NaN; a number is needed")),
        _ => Ok(()),
    }
}
