//! Settings of Lookahead.

use super::{Amount, BlockDiffusion, CacheMode, Canvas, Method, Refresh, Subject, Task, check};
use crate::checkpoint::NativeAttention;
use crate::decode::rules::Rules;
use crate::decode::{CanvasDecoder, CanvasLookahead, Decoder, Grid, RevealRule};
use crate::error::{Error, Result};
use crate::speculate::{LookaheadDecoder, Sources};

/// More copies than this would not fit a forward anyway; it bounds what is laid out.
pub(super) const MOST_BLOCKS: usize = 64;

/// Copies of a canvas's block in a pass, where nothing is said about rows.
const COPIES: usize = 4;

/// The same tokens in fewer passes: the model's own last words on undecided slots are guesses, and one pass judges the states that would
/// follow, in several blocks (block diffusion) or inside a block (a canvas with a dual cache). No draft model.
#[derive(Clone, Debug, PartialEq)]
pub struct Lookahead {
    /// The reveal rule of block diffusion.
    pub block: BlockDiffusion,
    /// For bidirectional models, in place of all of `block`, `blocks` and `probes`: canvas diffusion with a dual cache.
    pub canvas: Option<Canvas>,
    /// Blocks that a pass may confirm.
    pub blocks: usize,
    /// Further blocks, all masked, that ride along to be guessed from.
    pub probes: usize,
    /// Beside each guessed step its runner-up, for slots that are decided in another order than guessed: more rows, fewer passes.
    pub alternatives: bool,
    /// Rows of guessed states and probes in a pass at most; `Auto` goes by what rows cost, which changes passes and no token. None: all there
    /// are; with a canvas 4 times its block length.
    pub max_rows: Option<Amount>,
}

impl Default for Lookahead {
    fn default() -> Self {
        Self { block: BlockDiffusion::default(), canvas: None, blocks: 2, probes: 1, alternatives: true, max_rows: None }
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

impl Lookahead {
    /// Refuses what has no meaning with a canvas, and canvases without a pass that feeds a block alone.
    fn check_canvas(&self, canvas: &Canvas) -> Result<()> {
        canvas.validate()?;
        let own = Self::default();
        if self.block != own.block {
            return Err(Error::input(
                "canvas",
                "has a reveal rule of its own; give the rule to it, and leave out those of block diffusion",
            ));
        }
        for (name, given) in [("blocks", self.blocks != own.blocks), ("probes", self.probes != own.probes)] {
            if given {
                return Err(Error::input(name, "has no effect with a canvas, whose passes look ahead inside a block; leave it out"));
            }
        }
        if canvas.cache != CacheMode::Dual {
            let message = "is \"{}\", but lookahead on a canvas needs cache=\"dual\", where a pass feeds a block alone (without, each guess would be a whole canvas)";
            return Err(Error::input("cache", message.replace("{}", canvas.cache.name())));
        }
        if canvas.refresh == Refresh::Step {
            return Err(Error::input("refresh", "is \"step\", so that no pass feeds a block alone; use \"block\" or a number of blocks"));
        }
        Ok(())
    }

    /// Rows at most, where all is the default.
    fn rows(&self) -> Amount {
        self.max_rows.unwrap_or_default()
    }
}

impl Method for Lookahead {
    fn name(&self) -> &'static str {
        "Lookahead"
    }

    fn block(&self) -> Option<&BlockDiffusion> {
        self.canvas.is_none().then_some(&self.block)
    }

    fn attention(&self) -> NativeAttention {
        self.canvas.as_ref().map_or(NativeAttention::BlockCausal, Method::attention)
    }

    fn instead(&self) -> &'static str {
        match self.canvas {
            Some(_) => ", or leave out canvas",
            None => ", or give Lookahead a canvas with cache=\"dual\"",
        }
    }

    fn block_length(&self) -> Option<usize> {
        self.canvas.as_ref().map_or(self.block.block_length, Method::block_length)
    }

    fn validate(&self) -> Result<()> {
        self.canvas.as_ref().map_or(Ok(()), |canvas| self.check_canvas(canvas))?;
        self.block.validate()?;
        if self.probes > MOST_BLOCKS {
            return Err(Error::input("probes", format!("is {}; at most {MOST_BLOCKS} are possible", self.probes)));
        }
        check_blocks(self.blocks, self.rows())
    }

    fn suits(&self, subject: &Subject<'_>) -> Result<()> {
        match &self.canvas {
            Some(canvas) => canvas.suits(subject),
            None => self.block.suits(subject),
        }
    }

    fn fits(&self, subject: &Subject<'_>, prompt: usize, slots: usize) -> Result<()> {
        self.canvas.as_ref().map_or(Ok(()), |canvas| canvas.fits(subject, prompt, slots))
    }

    fn decoder(&self, task: Task) -> Box<dyn Decoder> {
        if let Some(canvas) = &self.canvas {
            let copies = COPIES * canvas.block_length_for(task.alg, task.params.max_tokens);
            let max_rows = self.max_rows.unwrap_or(Amount::AtMost(copies));
            return Box::new(CanvasLookahead::new(CanvasDecoder::new(canvas, task), max_rows, self.alternatives));
        }
        let grid = Grid::new(&self.block, &task);
        let rule = RevealRule::new(&self.block, task.threshold, grid.length);
        let sources = Sources {
            blocks: self.blocks,
            probes: self.probes,
            max_rows: self.rows(),
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
