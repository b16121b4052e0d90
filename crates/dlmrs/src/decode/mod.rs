//! Decoders: one state machine a request and a method. A decoder runs no model. It says which passes it wants ([`Decoder::next`]) and
//! learns what their rows say ([`Decoder::take`]), so it can be tested with scripted answers, and batching, streaming and cancelling
//! live in one place, the engine.

mod block;
mod canvas;
mod counts;
mod edit;
pub mod even;
mod grid;
mod method;
pub mod reveal;
pub(crate) mod rule;
pub(crate) mod rules;
pub mod schedule;
mod sub_block;
pub mod suffix;
mod wish;

pub use block::BlockDecoder;
pub use canvas::CanvasDecoder;
pub(crate) use canvas::CanvasLookahead;
pub use counts::{Counts, PassKind, Tally};
pub use edit::EditingDecoder;
pub(crate) use grid::Grid;
pub(crate) use method::temperature;
pub use method::{Acceptance, Amount, Editing, Fallback, Grade, Lookahead, Offer, S2D2, SimSD, Variant, VerifyLayout, estimator};
pub use method::{BlockDiffusion, BlockPreset, Canvas, Decoding, DreamAlg, Remasking, Strategy, SubBlockDiffusion, Subject, Task};
pub use method::{CacheMode, DropoutKind, EarlyStop, Refresh, Spotlight, Suffix, SuffixDropout, WindowTail, preset, presets};
pub use rule::{RevealRule, Steps};
pub use sub_block::SubBlockDecoder;
pub use wish::{Answer, FullRows, Role, Scan, Took, Wish};

use crate::error::Result;
use crate::sample::RowStat;
use crate::speculate::cost::Pace;

/// How a slot was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Chosen by the rule's ranking, within the quota of the step.
    Ranked,
    /// Above the threshold (or inside the entropy bound), beyond what the quota asked for.
    Bound,
    /// Guessed before, and confirmed.
    Accepted,
    /// Put in place of a guess that was rejected.
    Corrected,
    /// Put in place of a token that was decided before, in the same block.
    Edited,
}

impl How {
    /// "ranked", "bound", "accepted", "corrected" or "edited".
    pub fn name(self) -> &'static str {
        match self {
            Self::Ranked => "ranked",
            Self::Bound => "bound",
            Self::Accepted => "accepted",
            Self::Corrected => "corrected",
            Self::Edited => "edited",
        }
    }
}

/// A slot that has just been decided, or decided anew ([`How::Edited`]).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Revealed {
    /// Its place in the canvas.
    pub position: usize,
    /// The statistics of the row that decided it; `stat.token` is what the slot holds now.
    pub stat: RowStat,
    /// By which rule.
    pub how: How,
}

impl Revealed {
    /// Whether the slot held another token before, so that it is not one more that is decided.
    pub fn is_edit(&self) -> bool {
        self.how == How::Edited
    }
}

/// A request's way through its canvas.
pub trait Decoder: Send {
    /// How many caches of the target it uses; the engine makes them.
    fn caches(&self) -> usize {
        1
    }

    /// How many caches of the draft model it uses.
    fn draft_caches(&self) -> usize {
        0
    }

    /// What became of its guesses so far.
    fn tally(&self) -> Tally {
        Tally::default()
    }

    /// Before its first pass: what passes of other requests over the same models took. Only what cannot change a token may go by it.
    fn told(&mut self, _pace: Pace) {}

    /// Whether it asks its answers for whole rows of logits.
    fn asks_for_rows(&self) -> bool {
        false
    }

    /// How many rows its next passes feed together.
    fn next_rows(&self) -> usize;

    /// The passes it wants next, all of which run in one forward. Empty only when it has finished.
    fn next(&mut self) -> Result<Vec<Wish>>;

    /// Takes the answers to the wishes of the last `next`, in order, and says what was revealed, or rewritten.
    fn take(&mut self, answers: &[Answer]) -> Result<Vec<Revealed>>;

    /// All tokens, prompt included; undecided slots hold the mask id.
    fn canvas(&self) -> &[u32];

    /// Everything before this place is decided and will not change any more (whole blocks or sub-blocks only, until the end). A decoder that edits may
    /// rewrite what stands behind it, but never with a mask.
    fn committed(&self) -> usize;

    /// Whether every slot is decided.
    fn finished(&self) -> bool {
        self.committed() == self.canvas().len()
    }

    /// What stands before this place of the canvas may end the request: a stop behind it is not looked at yet.
    fn watched(&self) -> usize {
        self.canvas().len()
    }

    /// The places behind each block so far that its passes fed; empty where there are none to choose.
    fn kept_suffix(&self) -> &[Vec<u32>] {
        &[]
    }
}
