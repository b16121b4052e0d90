//! Settings of shifted block diffusion in sub-blocks.

use super::{BlockDiffusion, Method, Subject, Task, check};
use crate::checkpoint::NativeAttention;
use crate::decode::{Decoder, SubBlockDecoder};
use crate::error::{Error, Result};

/// The usual length of a sub-block (Fast-dLLM v2's generation code).
const USUAL: usize = 8;

/// Block diffusion of models whose predictions are shifted by one (Fast-dLLM v2, arXiv:2509.26328): a finished block's last row gives the
/// first token of the next one, and a block is filled sub-block by sub-block. Finished blocks are cached exactly.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SubBlockDiffusion {
    /// B. None: the checkpoint's.
    pub block_length: Option<usize>,
    /// Slots that are decided before those on their right; divides B. None: 8, or the largest smaller number that divides B.
    pub sub_block: Option<usize>,
    /// Reveal above this probability, and always the most probable; from 0 to 1. None: the family's own.
    pub threshold: Option<f32>,
    /// After the whole block has run, passes feed the sub-block alone, as soon as its first slot is decided. Approximate: the rest of the
    /// block is as it was.
    pub sub_block_cache: bool,
}

impl SubBlockDiffusion {
    /// Slots of a sub-block, for blocks of `length`.
    pub(in crate::decode) fn sub_block_for(&self, length: usize) -> usize {
        self.sub_block.unwrap_or_else(|| (1..=USUAL.min(length)).rev().find(|n| length.is_multiple_of(*n)).unwrap_or(1))
    }

    /// What it has in common with block diffusion: the grid.
    pub(in crate::decode) fn grid(&self) -> BlockDiffusion {
        BlockDiffusion { block_length: self.block_length, ..BlockDiffusion::default() }
    }

    /// Refuses a sub-block that does not divide a block of `length`.
    fn check_divides(&self, length: usize) -> Result<()> {
        match self.sub_block {
            Some(slots) if !length.is_multiple_of(slots) => {
                Err(Error::input("sub_block", format!("is {slots}, which does not divide the block length {length}")))
            }
            _ => Ok(()),
        }
    }

    /// Refuses settings that would have no effect with blocks of `length`.
    fn check_together(&self, length: usize) -> Result<()> {
        let slots = self.sub_block_for(length);
        if self.threshold.is_some() && slots == 1 {
            return Err(Error::input("threshold", "has no effect with sub-blocks of one slot, which every pass decides; leave it out"));
        }
        if self.sub_block_cache && (slots == 1 || slots == length) {
            let message = format!(
                "has an effect only where a sub-block has more than one slot and less than the {length} of the block, but it has {slots}; \
                 leave it out, or give another sub_block"
            );
            return Err(Error::input("sub_block_cache", message));
        }
        Ok(())
    }
}

impl Method for SubBlockDiffusion {
    fn name(&self) -> &'static str {
        "SubBlockDiffusion"
    }

    fn attention(&self) -> NativeAttention {
        NativeAttention::BlockCausal
    }

    fn shift(&self) -> Option<bool> {
        Some(true)
    }

    fn block_length(&self) -> Option<usize> {
        self.block_length
    }

    fn validate(&self) -> Result<()> {
        check::positive("block_length", self.block_length)?;
        check::positive("sub_block", self.sub_block)?;
        if let Some(threshold) = self.threshold.filter(|threshold| !(0.0..=1.0).contains(threshold)) {
            return Err(Error::input("threshold", format!("is {threshold}; a number from 0 (all at once) to 1 (one by one) is needed")));
        }
        self.block_length.map_or(Ok(()), |length| self.check_divides(length))
    }

    fn suits(&self, subject: &Subject<'_>) -> Result<()> {
        let Some(length) = self.block_length.or(subject.block_length) else { return Ok(()) };
        self.check_divides(length)?;
        self.check_together(length)
    }

    fn warnings(&self, subject: &Subject<'_>) -> Vec<String> {
        self.grid().warnings(subject)
    }

    fn decoder(&self, task: Task) -> Box<dyn Decoder> {
        Box::new(SubBlockDecoder::new(self, task))
    }
}
