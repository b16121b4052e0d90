//! Decoders: one state machine a request and a method. A decoder runs no model. It says which passes it wants ([`Decoder::next`]) and
//! learns what their rows say ([`Decoder::take`]), so it can be tested with scripted answers, and batching, streaming and cancelling
//! live in one place, the engine.

mod block;
mod canvas;
mod counts;
mod method;
pub mod reveal;
mod rules;
pub mod schedule;
pub mod suffix;

pub use block::BlockDecoder;
pub use canvas::CanvasDecoder;
pub use counts::{Counts, PassKind};
pub(crate) use method::temperature;
pub use method::{BlockDiffusion, Canvas, Decoding, DreamAlg, Remasking, Strategy, Subject, Task};
pub use method::{CacheMode, DropoutKind, EarlyStop, Refresh, Spotlight, Suffix, SuffixDropout, WindowTail, preset, presets};

use crate::error::Result;
use crate::pass::Pass;
use crate::sample::{RowRule, RowStat};

/// One pass that a decoder wants.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Which of the decoder's caches it runs over; see [`Decoder::caches`].
    pub cache: usize,
    /// The pass.
    pub pass: Pass,
    /// Rows to scan.
    pub scans: Vec<Scan>,
    /// What it is for.
    pub kind: PassKind,
    /// Its rows by what they serve.
    pub rows: Counts,
}

/// A read row of a wish that is to be scanned.
#[derive(Clone, Debug)]
pub struct Scan {
    /// Index into the `read` of the wish's pass.
    pub read: usize,
    /// The guiding row of classifier-free guidance: (wish of the same `next`, index into its `read`, scale).
    pub guide: Option<(usize, usize, f32)>,
    /// How the row is turned into a token.
    pub rule: RowRule,
}

/// What came of a wish.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// One for each of the wish's scans, in their order.
    pub stats: Vec<RowStat>,
    /// What the pass's tap found, `[queries, keys]` in rows; empty without one.
    pub tapped: Vec<Vec<f32>>,
}

/// How a slot was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Chosen by the rule's ranking, within the quota of the step.
    Ranked,
    /// Above the threshold (or inside the entropy bound), beyond what the quota asked for.
    Bound,
}

impl How {
    /// "ranked" or "bound".
    pub fn name(self) -> &'static str {
        match self {
            Self::Ranked => "ranked",
            Self::Bound => "bound",
        }
    }
}

/// A slot that has just been decided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Revealed {
    /// Its place in the canvas.
    pub position: usize,
    /// The statistics of the row that decided it; `stat.token` is what the slot holds now.
    pub stat: RowStat,
    /// By which rule.
    pub how: How,
}

/// A request's way through its canvas.
pub trait Decoder: Send {
    /// How many caches it uses; the engine makes them.
    fn caches(&self) -> usize {
        1
    }

    /// How many rows its next passes feed together.
    fn next_rows(&self) -> usize;

    /// The passes it wants next, all of which run in one forward. Empty only when it has finished.
    fn next(&mut self) -> Result<Vec<Wish>>;

    /// Takes the answers to the wishes of the last `next`, in order, and says what was revealed.
    fn take(&mut self, answers: &[Answer]) -> Result<Vec<Revealed>>;

    /// All tokens, prompt included; undecided slots hold the mask id.
    fn canvas(&self) -> &[u32];

    /// Everything before this place is decided and will not be looked at again (whole blocks only, until the end).
    fn committed(&self) -> usize;

    /// Whether every slot is decided.
    fn finished(&self) -> bool;

    /// What stands before this place of the canvas may end the request: a stop behind it is not looked at yet.
    fn watched(&self) -> usize {
        self.canvas().len()
    }

    /// The places behind each block so far that its passes fed; empty where there are none to choose.
    fn kept_suffix(&self) -> &[Vec<u32>] {
        &[]
    }
}
