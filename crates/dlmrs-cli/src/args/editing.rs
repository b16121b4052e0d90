//! Options of block diffusion that LLaDA2 brings: its published settings, and editing.

use clap::Args;
use dlmrs::decode::BlockPreset;
use dlmrs::{BlockDiffusion, Decoding, Editing};

use crate::failure::Failure;

/// Settings of editing. None is the method's own default.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Decoding (SDAR, LLaDA2: block diffusion; LLaDA, Dream, RND1: canvas diffusion)")]
pub(crate) struct EditingArgs {
    /// Block diffusion: published settings for LLaDA2, which other options change [default: none]
    #[arg(long, value_name = "NAME", value_parser = BlockPreset::names())]
    preset: Option<String>,
    /// LLaDA2.1: rewrite decided tokens of the current block where the model is surer than this of another one; off is not at all
    /// [default: off]
    #[arg(long, value_name = "P|off", value_parser = threshold, allow_negative_numbers = true)]
    editing_threshold: Option<Threshold>,
    /// With --editing-threshold: passes at most over a block without masks, as long as they rewrite something [default: 16]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max_post_steps: Option<usize>,
}

/// From where on tokens are rewritten.
#[derive(Clone, Copy, Debug)]
enum Threshold {
    Off,
    Above(f32),
}

fn threshold(text: &str) -> Result<Threshold, String> {
    match text {
        "off" => Ok(Threshold::Off),
        number => number.parse().map(Threshold::Above).map_err(|_| "a number or 'off' is needed".into()),
    }
}

impl EditingArgs {
    /// The first option that was given.
    pub(super) fn option(&self) -> Option<&'static str> {
        let given = [
            ("--preset", self.preset.is_some()),
            ("--editing-threshold", self.editing_threshold.is_some()),
            ("--max-post-steps", self.max_post_steps.is_some()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(option, _)| option)
    }

    fn own(&self) -> Result<Option<BlockPreset>, Failure> {
        Ok(self.preset.as_deref().map(BlockPreset::named).transpose()?)
    }

    /// The reveal rule that the other options begin from.
    pub(super) fn block(&self) -> Result<BlockDiffusion, Failure> {
        Ok(self.own()?.map_or(BlockDiffusion::default(), |preset| preset.block()))
    }

    /// The editing that was asked for: the threshold, and the passes at most over a block without masks.
    fn editing(&self) -> Result<Option<(f32, usize)>, Failure> {
        let preset = self.own()?.and_then(|preset| preset.editing);
        let threshold = match self.editing_threshold {
            Some(Threshold::Off) => None,
            Some(Threshold::Above(threshold)) => Some(threshold),
            None => preset.map(|(threshold, _)| threshold),
        };
        if threshold.is_none() && self.max_post_steps.is_some() {
            return Err(Failure::Said("--max-post-steps has an effect with --editing-threshold only; leave it out".into()));
        }
        let steps = self.max_post_steps.or(preset.map(|(_, steps)| steps)).unwrap_or(Editing::default().max_post_steps);
        Ok(threshold.map(|threshold| (threshold, steps)))
    }

    /// The method that was asked for, with editing where that was asked for too.
    pub(super) fn with_editing(&self, decoding: Decoding) -> Result<Decoding, Failure> {
        match (self.editing()?, decoding) {
            (None, decoding) => Ok(decoding),
            (Some((editing_threshold, max_post_steps)), Decoding::Block(block)) => {
                Ok(Decoding::Editing(Editing { block, editing_threshold, max_post_steps }))
            }
            (Some(_), other) => {
                let option = if self.editing_threshold.is_some() { "--editing-threshold" } else { "this --preset" };
                let reason = "guesses are judged in states that only ever fill masks, and an edit leads out of them";
                Err(Failure::Said(format!("{option} rewrites tokens and cannot go with {}: {reason}; leave one of them out", other.name())))
            }
        }
    }
}
