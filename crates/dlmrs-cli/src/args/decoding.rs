//! Options about how the canvas is filled. Which of them have a meaning depends on the model's method; the others are refused.

use clap::Args;
use dlmrs::decode::Strategy;
use dlmrs::{BlockDiffusion, Canvas, Decoding, Llm, SubBlockDiffusion};

use super::{AccelerationArgs, EditingArgs, SpeculationArgs, SubBlockArgs};
use crate::failure::Failure;

/// The methods' own settings. None is the method's own default.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Decoding (SDAR, LLaDA2: block diffusion; LLaDA, Dream, RND1: canvas diffusion)")]
pub(crate) struct DecodingArgs {
    /// Slots that are decided together [default: the model's for block diffusion; for a canvas 32 (LLaDA) or all of it (Dream, RND1)]
    #[arg(long, value_name = "B", allow_negative_numbers = true)]
    block_length: Option<usize>,
    /// Steps OF A BLOCK for block diffusion, but OF THE WHOLE CANVAS for a canvas [default: one slot a step]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    steps: Option<usize>,
    /// Which slots a step decides. Block diffusion: low_confidence_dynamic (default), low_confidence_static, sequential,
    /// entropy_bounded, margin. Canvas: low_confidence (default), random
    #[arg(long, value_name = "NAME")]
    strategy: Option<String>,
    /// Decide all slots that are at least this sure, fewer passes for a lower value [default: 0.85 for block diffusion (0.95 for LLaDA2), 0.9 for sub-block diffusion, off for a canvas]
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    threshold: Option<f32>,
    /// Block diffusion with --strategy entropy_bounded: how much doubt a step may take on, in nats [default: 0.35]
    #[arg(long, value_name = "NATS", allow_negative_numbers = true)]
    entropy_bound: Option<f32>,
    #[command(flatten)]
    sub_blocks: SubBlockArgs,
    #[command(flatten)]
    editing: EditingArgs,
    #[command(flatten)]
    acceleration: AccelerationArgs,
    /// Canvas: classifier-free guidance; above 0 every step costs two passes [default: 0, off]
    #[arg(long, value_name = "SCALE", allow_negative_numbers = true)]
    cfg_scale: Option<f32>,
    /// Canvas: one of Dream's schedules, or RND1's (even_entropy) [default: entropy for Dream, even_entropy for RND1, off for LLaDA]
    #[arg(long, value_name = "NAME", value_parser = ["origin", "maskgit_plus", "topk_margin", "entropy", "even_entropy"])]
    alg: Option<String>,
    /// Canvas with --alg: where the schedule's time line ends [default: 0.001]
    #[arg(long, value_name = "E", allow_negative_numbers = true)]
    eps: Option<f32>,
    /// Canvas with --alg: above 0 slots are drawn by their confidence instead of taken in its order [default: 0]
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    alg_temp: Option<f32>,
    /// Canvas: never draw the end-of-text token
    #[arg(long)]
    logits_eos_inf: bool,
    /// Canvas: decide slots that would end the text last
    #[arg(long)]
    confidence_eos_eot_inf: bool,
    #[command(flatten)]
    speculation: SpeculationArgs,
}

impl DecodingArgs {
    /// The model's own method with these settings.
    pub(crate) fn decoding(&self, llm: &Llm) -> Result<Decoding, Failure> {
        match llm.own_decoding() {
            Decoding::Canvas(own) => self.speculation.on_canvas(self.canvas(own, llm)?, llm.name()),
            Decoding::SubBlock(own) => self.sub_block(own, llm.name()),
            _ => self.editing.with_editing(self.speculation.decoding(self.block(self.editing.block()?, llm.name())?)?),
        }
    }

    fn block(&self, own: BlockDiffusion, model: &str) -> Result<BlockDiffusion, Failure> {
        self.refuse_sub_blocks(model, "block diffusion")?;
        if let Some(option) = self.acceleration.cache_option() {
            let way_out = "which caches finished blocks exactly; leave it out";
            return said(format!("{option} is for bidirectional models (LLaDA, Dream), but {model} decodes by block diffusion, {way_out}"));
        }
        if let Some(option) = self.canvas_option() {
            return said(format!("{option} belongs to canvas diffusion, but {model} decodes by block diffusion; leave it out"));
        }
        let strategy: Strategy = self.strategy.as_deref().map(str::parse).transpose()?.unwrap_or(own.strategy);
        let threshold = self.threshold.or(own.threshold.filter(|_| strategy == own.strategy));
        if self.threshold.is_some() && strategy != Strategy::LowConfidenceDynamic {
            return said("--threshold has an effect with --strategy low_confidence_dynamic only; leave one of them out".into());
        }
        if self.entropy_bound.is_some() && strategy != Strategy::EntropyBounded {
            return said("--entropy-bound has an effect with --strategy entropy_bounded only; add that".into());
        }
        Ok(BlockDiffusion {
            block_length: self.block_length.or(own.block_length),
            steps: self.steps.or(own.steps),
            strategy,
            threshold,
            entropy_bound: self.entropy_bound.or(own.entropy_bound),
        })
    }

    /// The first option that only a canvas has.
    fn canvas_option(&self) -> Option<&'static str> {
        let given = [
            ("--cfg-scale", self.cfg_scale.is_some()),
            ("--alg", self.alg.is_some()),
            ("--eps", self.eps.is_some()),
            ("--alg-temp", self.alg_temp.is_some()),
            ("--logits-eos-inf", self.logits_eos_inf),
            ("--confidence-eos-eot-inf", self.confidence_eos_eot_inf),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(option, _)| option).or_else(|| self.acceleration.option())
    }

    fn refuse_sub_blocks(&self, model: &str, method: &str) -> Result<(), Failure> {
        match self.sub_blocks.option() {
            Some(option) => said(format!("{option} belongs to sub-block diffusion, but {model} decodes by {method}; leave it out")),
            None => Ok(()),
        }
    }

    fn sub_block(&self, own: SubBlockDiffusion, model: &str) -> Result<Decoding, Failure> {
        let block_only =
            [("--steps", self.steps.is_some()), ("--strategy", self.strategy.is_some()), ("--entropy-bound", self.entropy_bound.is_some())];
        let given = block_only.into_iter().find(|(_, given)| *given).map(|(option, _)| option);
        if let Some(option) = given.or_else(|| self.editing.option()).or_else(|| self.canvas_option()).or_else(|| self.speculation.option())
        {
            return said(format!("{option} has no meaning for sub-block diffusion, by which {model} decodes; leave it out"));
        }
        let own =
            SubBlockDiffusion { block_length: self.block_length.or(own.block_length), threshold: self.threshold.or(own.threshold), ..own };
        Ok(Decoding::SubBlock(self.sub_blocks.settings(own)))
    }

    fn canvas(&self, own: Canvas, llm: &Llm) -> Result<Canvas, Failure> {
        self.refuse_sub_blocks(llm.name(), "canvas diffusion")?;
        if self.entropy_bound.is_some() {
            let model = llm.name();
            return said(format!("--entropy-bound belongs to block diffusion, but {model} decodes by canvas diffusion; leave it out"));
        }
        if let Some(option) = self.editing.option() {
            let model = llm.name();
            return said(format!("{option} belongs to block diffusion, but {model} decodes by canvas diffusion; leave it out"));
        }
        let factor = self.acceleration.factor.is_some();
        for (option, given) in [("--threshold", self.threshold.is_some()), ("--factor", factor)] {
            if self.steps.is_some() && given {
                return said(format!("--steps has no effect with {option} on a canvas; leave one of them out"));
            }
        }
        for (option, given) in [("--threshold", self.threshold.is_some()), ("--factor", factor), ("--strategy", self.strategy.is_some())] {
            if given && self.alg.is_some() {
                return said(format!("{option} and --alg are two ways to choose slots; leave one of them out"));
            }
        }
        let has_schedule = self.threshold.is_none() && !factor && (self.alg.is_some() || llm.subject().alg.is_some());
        for (option, given) in [("--eps", self.eps.is_some()), ("--alg-temp", self.alg_temp.is_some())] {
            if given && !has_schedule {
                return said(format!("{option} has an effect with one of Dream's schedules only; add --alg"));
            }
        }
        let own = self.acceleration.canvas(own)?;
        Ok(Canvas {
            block_length: self.block_length.or(own.block_length),
            steps: self.steps.or(own.steps),
            strategy: self.strategy.as_deref().map(str::parse).transpose()?.unwrap_or(own.strategy),
            threshold: self.threshold.or(own.threshold),
            cfg_scale: self.cfg_scale.unwrap_or(own.cfg_scale),
            alg: self.alg.as_deref().map(str::parse).transpose()?.or(own.alg),
            eps: self.eps.unwrap_or(own.eps),
            alg_temp: self.alg_temp.unwrap_or(own.alg_temp),
            logits_eos_inf: self.logits_eos_inf,
            confidence_eos_eot_inf: self.confidence_eos_eot_inf,
            ..own
        })
    }
}

fn said<T>(message: String) -> Result<T, Failure> {
    Err(Failure::Said(message))
}
