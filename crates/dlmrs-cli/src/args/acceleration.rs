//! Options that make a canvas cheaper: fewer passes, fewer rows, an earlier end.

use clap::Args;
use dlmrs::Canvas;
use dlmrs::decode::Suffix;

use crate::failure::Failure;

/// Settings of canvas diffusion. None is the method's own default.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Decoding (SDAR, LLaDA2: block diffusion; LLaDA, Dream, RND1: canvas diffusion)")]
pub(crate) struct AccelerationArgs {
    /// Canvas, in place of --threshold: decide the n surest slots, n the largest for which the m-th of them is at least 1 - F / (m + 1) sure
    #[arg(long, value_name = "F", allow_negative_numbers = true)]
    pub(super) factor: Option<f32>,
    /// Canvas with --factor: as Fast-dLLM's code, which takes a block's last candidate along where the rule stops right before it
    #[arg(long)]
    factor_compat: bool,
    /// Canvas with --threshold or --factor: at most so many slots a pass
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max_reveals: Option<usize>,
    /// Canvas: what is taken from a cache after a block's first pass, approximate: what stands before the block (prefix), or behind it
    /// too (dual) [default: none]
    #[arg(long, value_name = "MODE", value_parser = ["none", "prefix", "dual"])]
    cache: Option<String>,
    /// Canvas with --cache: when it is computed anew: at every block, in every step, or every N blocks [default: block]
    #[arg(long, value_name = "block|step|N", allow_negative_numbers = true)]
    refresh: Option<String>,
    /// Canvas: which masks behind the block are fed, approximate: off, keep_all, drop_all, window_tail, spotlight, gaussian, uniform,
    /// exponential, linear or step, with values behind a colon, as in gaussian:window=128,k=3,a=1.6; preset:NAME is a published setting;
    /// kept:17 18/25/ lists places for each block [default: off, all are fed]
    #[arg(long, value_name = "POLICY")]
    suffix: Option<String>,
    /// Canvas: what a stop token does: end at the first with no mask before it (strict), after a finished block with one anywhere (compat),
    /// or nothing until the whole canvas is decided (off) [default: strict]
    #[arg(long, value_name = "WHEN", value_parser = ["strict", "compat", "off"])]
    early_stop: Option<String>,
}

impl AccelerationArgs {
    /// The first option about caches that was given.
    pub(super) fn cache_option(&self) -> Option<&'static str> {
        [("--cache", self.cache.is_some()), ("--refresh", self.refresh.is_some())]
            .into_iter()
            .find(|(_, given)| *given)
            .map(|(option, _)| option)
    }

    /// The first option that was given.
    pub(super) fn option(&self) -> Option<&'static str> {
        let given = [
            ("--factor", self.factor.is_some()),
            ("--factor-compat", self.factor_compat),
            ("--max-reveals", self.max_reveals.is_some()),
            ("--suffix", self.suffix.is_some()),
            ("--early-stop", self.early_stop.is_some()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(option, _)| option).or_else(|| self.cache_option())
    }

    /// A canvas with these settings.
    pub(super) fn canvas(&self, own: Canvas) -> Result<Canvas, Failure> {
        let suffix = self.suffix.as_deref().map(str::parse::<Suffix>).transpose()?;
        Ok(Canvas {
            factor: self.factor.or(own.factor),
            factor_compat: self.factor_compat || own.factor_compat,
            max_reveals: self.max_reveals.or(own.max_reveals),
            cache: self.cache.as_deref().map(str::parse).transpose()?.unwrap_or(own.cache),
            refresh: self.refresh.as_deref().map(str::parse).transpose()?.unwrap_or(own.refresh),
            suffix: suffix.unwrap_or(own.suffix),
            early_stop: self.early_stop.as_deref().map(str::parse).transpose()?.unwrap_or(own.early_stop),
            ..own
        })
    }
}
