//! What a decoder asks for and what it is told.

use std::fmt;
use std::sync::Arc;

use super::{Counts, PassKind};
use crate::error::{Error, Result};
use crate::pass::Pass;
use crate::sample::{RowRule, RowStat};

/// Which of the two models of a speculative pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The model whose text is wanted.
    #[default]
    Target,
    /// The one that guesses.
    Draft,
}

/// One pass that a decoder wants.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The model that is to run it.
    pub model: Role,
    /// Which of the decoder's caches of that model it runs over; see [`super::Decoder::caches`].
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

impl Wish {
    /// How many rows some wishes feed together.
    pub(crate) fn rows_of(wishes: &[Wish]) -> usize {
        wishes.iter().map(|wish| wish.pass.rows()).sum()
    }
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

/// Whole rows of logits of one wish, computed when they are asked for.
pub trait FullRows: Send + Sync {
    /// The rows of logits `[V]` of these indices into the wish's `read`.
    fn rows(&self, reads: &[usize]) -> Result<Vec<Vec<f32>>>;
}

/// What a forward cost, of all requests that took part in it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Took {
    /// Rows.
    pub rows: usize,
    /// Time of the forward and of its scan.
    pub seconds: f64,
}

/// What came of a wish.
#[derive(Clone, Default)]
pub struct Answer {
    /// One for each of the wish's scans, in their order.
    pub stats: Vec<RowStat>,
    /// What the pass's tap found, `[queries, keys]` in rows; empty without one.
    pub tapped: Vec<Vec<f32>>,
    /// For what needs whole rows (q rows, residuals).
    pub full: Option<Arc<dyn FullRows>>,
    /// What its forward took, if that was measured. Only what cannot change a token may go by it.
    pub took: Option<Took>,
}

impl Answer {
    /// Whole rows of logits `[V]`, by their indices into the wish's `read`.
    pub fn rows(&self, reads: &[usize]) -> Result<Vec<Vec<f32>>> {
        match &self.full {
            Some(full) => full.rows(reads),
            None => Err(Error::input("answer", "has no whole rows; this decoder needs them")),
        }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("stats", &self.stats).field("full", &self.full.is_some()).finish()
    }
}
