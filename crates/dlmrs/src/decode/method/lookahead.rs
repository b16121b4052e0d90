//! Settings of Lookahead.

use super::{Amount, BlockDiffusion, Method, Subject, Task, check};
use crate::checkpoint::NativeAttention;
use crate::decode::rules::Rules;
use crate::decode::{Decoder, Grid, RevealRule};
use crate::error::{Error, Result};
use crate::speculate::{LookaheadDecoder, Sources};

/// More copies than this would not fit a forward anyway; it bounds what is laid out.
pub(super) const MOST_BLOCKS: usize = 64;

/// Block diffusion in fewer passes, with the same tokens: the model's own last words on undecided slots are guesses, and one pass judges the
/// states that would follow, in several blocks. No draft model.
#[derive(Clone, Debug, PartialEq)]
pub struct Lookahead {
    /// The reveal rule.
    pub block: BlockDiffusion,
    /// Blocks that a pass may confirm.
    pub blocks: usize,
    /// Further blocks, all masked, that ride along to be guessed from.
    pub probes: usize,
    /// Beside each guessed step its runner-up, for slots that are decided in another order than guessed: more rows, fewer passes.
    pub alternatives: bool,
    /// Rows of guessed states and probes in a pass at most; `Auto` goes by what rows cost, which changes passes and no token.
    pub max_rows: Amount,
}

impl Default for Lookahead {
    fn default() -> Self {
        Self { block: BlockDiffusion::default(), blocks: 2, probes: 1, alternatives: true, max_rows: Amount::All }
    }
}

/// Refuses numbers of blocks and rows that cannot be.
pub(super) fn check_blocks(blocks: usize, max_rows: Amount) -> Result<()> {
    check::positive("blocks", Some(blocks))?;
    if blocks > MOST_BLOCKS {
        return Err(Error::input("blocks", format!("is {blocks}; at most {MOST_BLOCKS} are possible")));
    }
    check::positive("max_rows", max_rows.limit())
}

impl Method for Lookahead {
    fn name(&self) -> &'static str {
        "Lookahead"
    }

    fn attention(&self) -> NativeAttention {
        NativeAttention::BlockCausal
    }

    fn block_length(&self) -> Option<usize> {
        self.block.block_length
    }

    fn validate(&self) -> Result<()> {
        self.block.validate()?;
        if self.probes > MOST_BLOCKS {
            return Err(Error::input("probes", format!("is {}; at most {MOST_BLOCKS} are possible", self.probes)));
        }
        check_blocks(self.blocks, self.max_rows)
    }

    fn suits(&self, subject: &Subject<'_>) -> Result<()> {
        self.block.suits(subject)
    }

    fn warnings(&self, subject: &Subject<'_>) -> Vec<String> {
        self.block.warnings(subject)
    }

    fn decoder(&self, task: Task) -> Box<dyn Decoder> {
        let grid = Grid::new(&self.block, &task);
        let rule = RevealRule::new(&self.block, task.threshold, grid.length);
        let sources = Sources {
            blocks: self.blocks,
            probes: self.probes,
            max_rows: self.max_rows,
            alternatives: self.alternatives,
            one_by_one: false,
            own: true,
            drafter: None,
            auto_gamma: false,
            overlap: false,
            draft_from: 0,
        };
        Box::new(LookaheadDecoder::new(grid, Rules::new(&task, &[]), rule, sources))
    }
}
