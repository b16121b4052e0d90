//! What the engine reports.

use super::{Stats, Trace};
use crate::decode::Revealed;
use crate::error::Error;

/// The number of a request, unique within its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub(super) u64);

/// Something that happened to a request during a step.
#[derive(Debug)]
pub enum Event {
    /// Slots were decided, or decided anew where editing is on ([`crate::decode::How::Edited`]), after so many passes of the request (with
    /// guidance two of them a step).
    Revealed {
        /// The request.
        id: RequestId,
        /// Passes of the request so far.
        pass: usize,
        /// The slots.
        slots: Vec<Revealed>,
    },
    /// Tokens that will not change any more: whole blocks or sub-blocks, in order. The texts of all these events add up to the output's text.
    Committed {
        /// The request.
        id: RequestId,
        /// The new tokens.
        token_ids: Vec<u32>,
        /// Their text, as far as it is complete.
        text: String,
    },
    /// The request has ended.
    Finished {
        /// The request.
        id: RequestId,
        /// Its result.
        output: Box<Output>,
    },
    /// The request cannot go on, and has been dropped.
    Failed {
        /// The request.
        id: RequestId,
        /// Why.
        error: Error,
    },
}

/// Why a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// A stop id or a stop string.
    Stop,
    /// `max_tokens`.
    Length,
    /// The caller.
    Cancelled,
}

impl Event {
    /// The request that it is about.
    pub fn id(&self) -> RequestId {
        let (Self::Revealed { id, .. } | Self::Committed { id, .. } | Self::Finished { id, .. } | Self::Failed { id, .. }) = self;
        *id
    }

    /// Whether no other event of the request follows.
    pub fn is_last(&self) -> bool {
        matches!(self, Self::Finished { .. } | Self::Failed { .. })
    }
}

impl FinishReason {
    /// "stop", "length" or "cancelled".
    pub fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::Cancelled => "cancelled",
        }
    }
}

/// What ended a request that stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopCause {
    /// This stop id.
    Token(u32),
    /// This stop string.
    Text(String),
}

/// The result of a request.
#[derive(Clone, Debug)]
pub struct Output {
    /// The generated text, cut before what stopped it; special tokens are left out. Empty without a tokenizer.
    pub text: String,
    /// The generated tokens, the stop id left out. With a stop string the last token may reach into it.
    pub token_ids: Vec<u32>,
    /// The prompt as it was given.
    pub prompt_token_ids: Vec<u32>,
    /// The whole canvas as it was left: the prompt with its masks filled in, what was generated, and what was not used of it.
    pub canvas_token_ids: Vec<u32>,
    /// Why it ended.
    pub finish_reason: FinishReason,
    /// What stopped it, if it stopped.
    pub stop_cause: Option<StopCause>,
    /// The seed that was used, for doing it again.
    pub seed: u64,
    /// What it cost.
    pub stats: Stats,
    /// How each decided slot of the canvas came to be decided, by its place, the unused ones included; None unless asked for.
    pub trace: Option<Trace>,
    /// What the caller should know, such as a block length that the weights were not trained for.
    pub warnings: Vec<String>,
}
