//! Settings of canvas diffusion.

use super::cache::{CacheMode, EarlyStop, Refresh};
use super::suffix::Suffix;
use super::{Method, Subject, Task, check};
use crate::checkpoint::NativeAttention;
use crate::decode::{CanvasDecoder, Decoder};
use crate::error::{Error, Result};

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

/// Dream's schedules, and RND1's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DreamAlg {
    /// Every mask is revealed independently with the step's share as probability.
    Origin,
    /// By the probability of the chosen token.
    MaskgitPlus,
    /// By the distance between first and second probability.
    TopkMargin,
    /// By rising entropy.
    Entropy,
    /// By rising entropy, not on Dream's time line but the same share in each step (RND1's sampler).
    EvenEntropy,
}

impl std::str::FromStr for DreamAlg {
    type Err = Error;
    fn from_str(s: &str) -> Result<Self> {
        Ok(match s {
            "origin" => Self::Origin,
            "maskgit_plus" => Self::MaskgitPlus,
            "topk_margin" => Self::TopkMargin,
            "entropy" => Self::Entropy,
            "even_entropy" => Self::EvenEntropy,
            other => {
                let known = "origin, maskgit_plus, topk_margin, entropy or even_entropy";
                return Err(Error::input("alg", format!("'{other}' is unknown; use {known}")));
            }
        })
    }
}

/// Canvas diffusion: prompt and all slots in one canvas, decided block by block. Without a cache and a suffix policy every pass runs over the
/// whole canvas, and the tokens are identical to the references'; with either they are approximate.
#[derive(Clone, Debug, PartialEq)]
pub struct Canvas {
    /// Slots decided together, counted from the prompt's end; the last block may be shorter. None: 32 for LLaDA, and for Dream with a
    /// cache or a suffix policy; the whole canvas for Dream without.
    pub block_length: Option<usize>,
    /// Steps of **the whole canvas** (not a block). None: one token a step. Ignored with a threshold or a factor.
    pub steps: Option<usize>,
    /// Which slots stay masked in a step, for the fixed schedule and the threshold.
    pub strategy: Remasking,
    /// Reveal everything at least this probable, and always the most probable. None: the fixed schedule.
    pub threshold: Option<f32>,
    /// Reveal the n most probable, n the largest for which the m-th of them has a probability of at least 1 - factor / (m + 1) for every
    /// m from 2 to n (Fast-dLLM's factor rule). In place of a threshold.
    pub factor: Option<f32>,
    /// With a factor: as Fast-dLLM's code, which takes the last candidate of a block along where the rule stops right before it.
    pub factor_compat: bool,
    /// With a threshold or a factor: at most so many slots a pass.
    pub max_reveals: Option<usize>,
    /// What is taken from a cache after a block's first pass.
    pub cache: CacheMode,
    /// When the cache is computed anew.
    pub refresh: Refresh,
    /// Which masks behind the block are there at all.
    pub suffix: Suffix,
    /// What a stop id does.
    pub early_stop: EarlyStop,
    /// Classifier-free guidance; 0 is off. Above 0 every step costs two passes.
    pub cfg_scale: f32,
    /// A schedule for the whole canvas instead of the fixed one for each block. None: `entropy` for Dream, `even_entropy` for RND1, off for
    /// LLaDA.
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
            factor: None,
            factor_compat: false,
            max_reveals: None,
            cache: CacheMode::None,
            refresh: Refresh::default(),
            suffix: Suffix::Off,
            early_stop: EarlyStop::Strict,
            cfg_scale: 0.0,
            alg: None,
            eps: 1e-3,
            alg_temp: 0.0,
            logits_eos_inf: false,
            confidence_eos_eot_inf: false,
        }
    }
}

impl Canvas {
    /// B, for a canvas of so many slots; `alg` is the model's own schedule.
    pub(in crate::decode) fn block_length_for(&self, alg: Option<DreamAlg>, slots: usize) -> usize {
        let whole = alg.is_some() && self.cache == CacheMode::None && self.suffix == Suffix::Off;
        self.block_length.unwrap_or(if whole { slots } else { 32 }).max(1)
    }

    /// Whether slots are revealed by how sure they are, not by a schedule.
    fn by_confidence(&self) -> bool {
        self.threshold.is_some() || self.factor.is_some()
    }

    /// Refuses settings that would have no effect (but for `steps`, which a threshold makes superfluous); `alg` is the model's own schedule.
    fn check_together(&self, alg: Option<DreamAlg>) -> Result<()> {
        self.check_rule_together()?;
        let refuse = |name: &str, message: &str| Err(Error::input(name, message));
        let alg = self.alg.or(alg).filter(|_| !self.by_confidence());
        let scheduled = alg.is_some();
        if self.strategy == Remasking::Random && scheduled {
            return refuse("strategy", "'random' has no effect with Dream's schedules; use alg=\"origin\", or give a threshold");
        }
        let way_out = match (self.threshold, self.factor) {
            (Some(_), _) => "leave out threshold",
            (_, Some(_)) => "leave out factor",
            _ => "give alg",
        };
        for (name, given) in [("alg_temp", self.alg_temp > 0.0), ("eps", self.eps != Self::default().eps)] {
            if given && !scheduled {
                return refuse(name, &format!("has an effect with one of Dream's schedules only; {way_out}, or leave it out"));
            }
        }
        if alg == Some(DreamAlg::EvenEntropy) && self.eps != Self::default().eps {
            return refuse("eps", "has no effect with alg=\"even_entropy\", which has no time line; leave it out");
        }
        let origin = alg == Some(DreamAlg::Origin);
        if origin && self.alg_temp > 0.0 {
            return refuse("alg_temp", "has no effect with alg=\"origin\", which draws its slots anyway; leave one of them out");
        }
        if self.confidence_eos_eot_inf && (origin || self.strategy == Remasking::Random && !self.by_confidence()) {
            return refuse("confidence_eos_eot_inf", "has no effect where slots are drawn at random (strategy=\"random\", alg=\"origin\")");
        }
        Ok(())
    }

    /// The part of it that does not depend on the model.
    fn check_rule_together(&self) -> Result<()> {
        let refuse = |name: &str, message: &str| Err(Error::input(name, message));
        if self.threshold.is_some() && self.alg.is_some() {
            return refuse("alg", "has no effect with a threshold; leave one of them out");
        }
        if self.factor.is_some() && self.alg.is_some() {
            return refuse("alg", "has no effect with a factor; leave one of them out");
        }
        if self.factor.is_some() && self.threshold.is_some() {
            return refuse("factor", "stands in place of a threshold; leave one of them out");
        }
        if self.factor_compat && self.factor.is_none() {
            return refuse("factor_compat", "has an effect with a factor only; leave it out");
        }
        if self.max_reveals.is_some() && !self.by_confidence() {
            return refuse(
                "max_reveals",
                "has an effect with a threshold or a factor only; without them steps says how many slots a pass reveals",
            );
        }
        if self.cache == CacheMode::None && self.refresh != Refresh::default() {
            return refuse("refresh", "has an effect with a cache only; give cache=\"prefix\" or \"dual\", or leave it out");
        }
        Ok(())
    }
}

impl Method for Canvas {
    fn name(&self) -> &'static str {
        "Canvas"
    }

    fn attention(&self) -> NativeAttention {
        NativeAttention::Bidirectional
    }

    fn instead(&self) -> &'static str {
        match self.cache {
            CacheMode::None => "",
            _ => ", which caches finished blocks exactly (prefix and dual caches are for bidirectional models: LLaDA, Dream)",
        }
    }

    fn block_length(&self) -> Option<usize> {
        self.block_length
    }

    fn validate(&self) -> Result<()> {
        check::positive("block_length", self.block_length)?;
        check::steps(self.steps)?;
        check::number("threshold", self.threshold)?;
        match self.factor {
            Some(factor) if !(factor >= 0.0 && factor.is_finite()) => {
                return Err(Error::input("factor", format!("is {factor}; a finite number of at least 0 is needed")));
            }
            _ => {}
        }
        check::positive("max_reveals", self.max_reveals)?;
        if self.refresh == Refresh::Blocks(0) {
            return Err(Error::input("refresh", "is 0; at least 1 is needed (every so many blocks), or \"step\""));
        }
        self.suffix.validate()?;
        if !(self.cfg_scale >= 0.0 && self.cfg_scale.is_finite()) {
            return Err(Error::input("cfg_scale", format!("is {}; a number of at least 0 is needed (0 is off)", self.cfg_scale)));
        }
        check::temperature("alg_temp", self.alg_temp, "off")?;
        if !(self.eps > 0.0 && self.eps < 1.0) {
            return Err(Error::input("eps", format!("is {}; a number between 0 and 1 is needed", self.eps)));
        }
        Ok(())
    }

    fn suits(&self, subject: &Subject<'_>) -> Result<()> {
        self.check_together(subject.alg)?;
        if self.logits_eos_inf && subject.eos_token_id.is_none() {
            return Err(Error::input("logits_eos_inf", format!("{} names no end-of-text token that could be banned", subject.name)));
        }
        Ok(())
    }

    fn fits(&self, subject: &Subject<'_>, prompt: usize, slots: usize) -> Result<()> {
        let end = prompt + slots;
        let length = self.block_length_for(subject.alg, slots);
        let behind: Vec<usize> = (prompt..end).step_by(length).map(|from| (from + length).min(end)).collect();
        self.suffix.fits(&behind, end)
    }

    fn decoder(&self, task: Task) -> Box<dyn Decoder> {
        Box::new(CanvasDecoder::new(self, task))
    }
}
