//! Settings of speculation with a draft model.

use super::lookahead::check_blocks;
use super::{Amount, BlockDiffusion, Method, Subject, Task, check};
use crate::decode::rules::Rules;
use crate::decode::{Decoder, Grid, RevealRule};
use crate::error::{Error, Result};
use crate::speculate::{Arrangement, DraftPlan, Drafter, Judging, LookaheadDecoder, SimSdDecoder, Sources};

/// The copies of a block that one pass of the target judges; see [`crate::speculate::layout`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VerifyLayout {
    /// The block in every drafted state. Exact.
    #[default]
    States,
    /// A data and a mask row for each slot: SimSD's. Approximate beyond one step.
    Paired,
    /// A third row for each slot, so that no row learns of later drafts.
    NoLeak,
    /// One pass a state: slow and exact.
    Sequential,
}

/// When a drafted token stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acceptance {
    /// If the target alone would have decided the same slots with the same tokens in that step.
    #[default]
    Identical,
    /// If the target would put the same token there.
    Greedy,
    /// With probability min(1, p/q).
    Rejection,
}

/// What a round does when fewer masked slots than `gamma` are left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// It drafts what is left.
    #[default]
    Draft,
    /// The target denoises alone (the paper's way).
    Target,
}

macro_rules! words {
    ($kind:ty, $name:literal, $($word:literal => $value:expr),+) => {
        impl $kind {
            /// As it is typed.
            pub fn name(self) -> &'static str {
                [$(($value, $word)),+].into_iter().find(|(value, _)| *value == self).map_or("", |(_, word)| word)
            }
        }

        impl std::str::FromStr for $kind {
            type Err = Error;
            fn from_str(s: &str) -> Result<Self> {
                match s {
                    $($word => Ok($value),)+
                    other => Err(Error::input($name, format!("'{other}' is unknown; use one of {}", [$($word),+].join(", ")))),
                }
            }
        }
    };
}
words!(VerifyLayout, "layout", "states" => Self::States, "paired" => Self::Paired, "no_leak" => Self::NoLeak, "sequential" => Self::Sequential);
words!(Acceptance, "accept", "identical" => Self::Identical, "greedy" => Self::Greedy, "rejection" => Self::Rejection);
words!(Fallback, "fallback", "draft" => Self::Draft, "target" => Self::Target);

/// A draft model fills the masked slots of the current block, one pass of the target judges them.
#[derive(Clone, Debug, PartialEq)]
pub struct SimSD {
    /// The reveal rule, of draft and target.
    pub block: BlockDiffusion,
    /// Slots of a block that a round drafts at most, 1 to B; slots that one step reveals together are never parted. `Auto`
    /// (with `identical` only) goes by what drafts cost and how many are accepted, and leaves them out where they do not pay.
    pub gamma: Amount,
    /// Blocks that a round drafts and a pass may confirm; beyond 1 with `states` and `identical` only.
    pub blocks: usize,
    /// Passes of the draft model a block at most; the rest of its chain is guessed from the last. With `identical` only. None: all it takes.
    pub draft_steps: Option<usize>,
    /// Adds the target's own guesses, as in [`super::Lookahead`]. With `states` and `identical`; ignored elsewhere.
    pub own_guesses: bool,
    /// Beside each guessed step its runner-up, as in [`super::Lookahead`]. With `states` and `identical`; ignored elsewhere.
    pub alternatives: bool,
    /// Rows of guessed states in a pass at most, with `states` and `identical`; `Auto` goes by what rows cost.
    pub max_rows: Amount,
    /// What the target's pass looks like.
    pub layout: VerifyLayout,
    /// When a drafted token stays.
    pub accept: Acceptance,
    /// Whether the mask rows of `paired` stand at their slots' positions; off only to see what it is good for.
    pub align_positions: bool,
    /// What happens when fewer than `gamma` masked slots are left.
    pub fallback: Fallback,
    /// The draft model begins the next round while the target judges this one, on the assumption that everything is accepted; both run at the
    /// same time. With `states` and `identical`; it changes no token.
    pub overlap: bool,
}

impl Default for SimSD {
    fn default() -> Self {
        Self {
            block: BlockDiffusion::default(),
            gamma: Amount::All,
            blocks: 1,
            draft_steps: None,
            own_guesses: true,
            alternatives: true,
            max_rows: Amount::All,
            layout: VerifyLayout::default(),
            accept: Acceptance::default(),
            align_positions: true,
            fallback: Fallback::default(),
            overlap: false,
        }
    }
}

impl SimSD {
    fn whole_states(&self) -> bool {
        self.layout == VerifyLayout::States && self.accept == Acceptance::Identical
    }

    /// Refuses settings that would have no effect, or that cannot be.
    fn check_together(&self) -> Result<()> {
        let exact = matches!(self.layout, VerifyLayout::States | VerifyLayout::Sequential);
        if self.accept == Acceptance::Identical && !exact {
            let message = "identical needs the target's own rows, which layouts paired and no_leak do not give; use layout states, or accept greedy or rejection";
            return Err(Error::input("accept", message));
        }
        if self.blocks > 1 && !self.whole_states() {
            return Err(Error::input("blocks", "above 1 needs layout states and accept identical"));
        }
        if self.max_rows != Amount::All && !self.whole_states() {
            return Err(Error::input("max_rows", "has an effect with layout states and accept identical only; leave it out"));
        }
        if self.overlap && !self.whole_states() {
            return Err(Error::input("overlap", "needs layout states and accept identical; leave it out"));
        }
        if self.gamma.is_auto() && self.accept != Acceptance::Identical {
            return Err(Error::input(
                "gamma",
                "auto goes by the clock, so it needs accept identical, where no choice changes a token; give a number",
            ));
        }
        if self.draft_steps.is_some() && self.accept != Acceptance::Identical {
            return Err(Error::input("draft_steps", "needs accept identical: what is guessed from fewer passes was drawn from no row"));
        }
        if !self.align_positions && self.layout != VerifyLayout::Paired {
            return Err(Error::input("align_positions", "can be switched off with layout paired only"));
        }
        Ok(())
    }
}

impl Method for SimSD {
    fn name(&self) -> &'static str {
        "SimSD"
    }

    fn block(&self) -> Option<&BlockDiffusion> {
        Some(&self.block)
    }

    fn validate(&self) -> Result<()> {
        self.block.validate()?;
        check_blocks(self.blocks, self.max_rows)?;
        check::positive("gamma", self.gamma.limit())?;
        check::positive("draft_steps", self.draft_steps)
    }

    fn suits(&self, subject: &Subject<'_>) -> Result<()> {
        self.block.suits(subject)?;
        self.check_together()?;
        if !subject.has_draft {
            let message = format!(
                "is SimSD, but {} was loaded without a draft model; load it with one, or use Lookahead, which needs none",
                subject.name
            );
            return Err(Error::input("decoding", message));
        }
        match (self.gamma.limit(), self.block.block_length.or(subject.block_length)) {
            (Some(gamma), Some(length)) if gamma > length => {
                Err(Error::input("gamma", format!("is {gamma}, but a block has {length} slots; 1 to {length} is needed")))
            }
            _ => Ok(()),
        }
    }

    fn decoder(&self, task: Task) -> Box<dyn Decoder> {
        let grid = Grid::new(&self.block, &task);
        let rule = RevealRule::new(&self.block, task.threshold, grid.length);
        let rules = || Rules::new(&task, &[]);
        let gamma = self.gamma.limit().unwrap_or(grid.length);
        let honest = self.accept == Acceptance::Rejection;
        let plan = DraftPlan { gamma, steps: self.draft_steps, blocks: self.blocks, honest };
        let drafter = Drafter::new(plan, rules(), rule.clone(), task.seed, &grid);
        let draft_from = if self.fallback == Fallback::Target { gamma } else { 0 };
        let arrangement = match self.layout {
            VerifyLayout::States => Arrangement::States,
            VerifyLayout::Paired => Arrangement::Paired { aligned: self.align_positions },
            VerifyLayout::NoLeak => Arrangement::NoLeak,
            VerifyLayout::Sequential => Arrangement::Sequential,
        };
        if self.accept != Acceptance::Identical {
            let judging = Judging { arrangement, by_probability: honest, draft_from, seed: task.seed };
            return Box::new(SimSdDecoder::new(grid, rules(), rule, drafter, judging));
        }
        let sources = Sources {
            blocks: self.blocks,
            probes: 0,
            max_rows: self.max_rows,
            alternatives: self.alternatives,
            one_by_one: arrangement == Arrangement::Sequential,
            own: self.own_guesses && self.whole_states(),
            drafter: Some(drafter),
            auto_gamma: self.gamma.is_auto(),
            overlap: self.overlap,
            draft_from,
        };
        Box::new(LookaheadDecoder::new(grid, rules(), rule, sources))
    }
}
