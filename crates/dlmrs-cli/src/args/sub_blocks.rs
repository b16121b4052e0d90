//! Options of block diffusion in sub-blocks, with predictions shifted by one.

use clap::Args;
use dlmrs::SubBlockDiffusion;

/// Settings of sub-block diffusion. None is the method's own default.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Decoding (SDAR: block diffusion; LLaDA and Dream: canvas diffusion)")]
pub(crate) struct SubBlockArgs {
    /// Sub-block diffusion (Fast-dLLM v2): slots of a block that are decided before those on their right; divides the block [default: 8]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    sub_block: Option<usize>,
    /// Sub-block diffusion: passes feed the sub-block alone once its first slot is decided, approximate
    #[arg(long)]
    sub_block_cache: bool,
}

impl SubBlockArgs {
    /// The first option that was given.
    pub(super) fn option(&self) -> Option<&'static str> {
        let given = [("--sub-block", self.sub_block.is_some()), ("--sub-block-cache", self.sub_block_cache)];
        given.into_iter().find(|(_, given)| *given).map(|(option, _)| option)
    }

    /// The method with these settings.
    pub(super) fn settings(&self, own: SubBlockDiffusion) -> SubBlockDiffusion {
        SubBlockDiffusion {
            sub_block: self.sub_block.or(own.sub_block),
            sub_block_cache: self.sub_block_cache || own.sub_block_cache,
            ..own
        }
    }
}
