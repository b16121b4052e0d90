//! The methods of decoding and their settings, with the papers' own names. None means the checkpoint's own way.

mod amount;
mod block;
mod block_preset;
mod cache;
mod canvas;
mod check;
mod editing;
mod lookahead;
mod offers;
mod preset;
mod s2d2;
mod simsd;
mod sub_block;
mod suffix;
mod suffix_text;
mod task;

pub use amount::Amount;
pub use block::{BlockDiffusion, Strategy};
pub use block_preset::BlockPreset;
pub use cache::{CacheMode, EarlyStop, Refresh};
pub use canvas::{Canvas, DreamAlg, Remasking};
pub(crate) use check::temperature;
pub use editing::Editing;
pub use lookahead::Lookahead;
pub use offers::{Grade, Offer};
pub use preset::{preset, presets};
pub use s2d2::{S2D2, Variant, estimator};
pub use simsd::{Acceptance, Fallback, SimSD, VerifyLayout};
pub use sub_block::SubBlockDiffusion;
pub use suffix::{DropoutKind, Spotlight, Suffix, SuffixDropout, WindowTail};
pub use task::Task;

use super::Decoder;
use crate::checkpoint::NativeAttention;
use crate::error::{Error, Result};

/// How a request is decoded.
#[derive(Clone, Debug, PartialEq)]
pub enum Decoding {
    /// For block-causal models (SDAR).
    Block(BlockDiffusion),
    /// For block-causal models that were trained to look at decided tokens again (LLaDA2.1).
    Editing(Editing),
    /// For bidirectional models (LLaDA, Dream).
    Canvas(Canvas),
    /// For block-causal models, and for bidirectional ones with a dual cache, with the model's own guesses.
    Lookahead(Lookahead),
    /// For block-causal models, with a draft model.
    SimSD(SimSD),
    /// For block-causal models, which verify themselves at block length 1.
    S2D2(S2D2),
    /// For block-causal models whose predictions are shifted by one.
    SubBlock(SubBlockDiffusion),
}

/// What the settings of a method have to know of a model.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// For messages.
    pub name: &'a str,
    /// What its weights were trained with.
    pub attention: NativeAttention,
    /// Whether the prediction for slot i is read at row i - 1.
    pub shift: bool,
    /// The schedule that its canvases are decided by unless told otherwise.
    pub alg: Option<DreamAlg>,
    /// Whether it was trained to look at decided tokens again.
    pub edits: bool,
    /// End of text.
    pub eos_token_id: Option<u32>,
    /// B of the checkpoint, or what the user says it is.
    pub block_length: Option<usize>,
    /// B, if it is baked into the weights.
    pub trained_block_length: Option<usize>,
    /// The longest prompt and answer together.
    pub max_model_len: usize,
    /// Whether a draft model was loaded with it.
    pub has_draft: bool,
}

/// The settings of one method.
pub(super) trait Method {
    /// As the Python class is called.
    fn name(&self) -> &'static str;

    /// Its reveal rule, if that is block diffusion's.
    fn block(&self) -> Option<&BlockDiffusion> {
        None
    }

    /// The models that it is for.
    fn attention(&self) -> NativeAttention {
        NativeAttention::BlockCausal
    }

    /// What to do on other models besides using another method, for an error; nothing is empty.
    fn instead(&self) -> &'static str {
        ""
    }

    /// Whether these models' predictions are shifted by one; None if it works with either.
    fn shift(&self) -> Option<bool> {
        (self.attention() == NativeAttention::BlockCausal).then_some(false)
    }

    /// B, if the user gave one.
    fn block_length(&self) -> Option<usize> {
        self.block().and_then(|block| block.block_length)
    }

    /// Refuses values that are wrong for every model.
    fn validate(&self) -> Result<()>;

    /// Refuses settings that have no effect, or that this model cannot serve.
    fn suits(&self, subject: &Subject<'_>) -> Result<()>;

    /// Refuses settings that do not fit a prompt of so many tokens and an answer of so many slots.
    fn fits(&self, _subject: &Subject<'_>, _prompt: usize, _slots: usize) -> Result<()> {
        Ok(())
    }

    /// What may not be as the user thinks.
    fn warnings(&self, subject: &Subject<'_>) -> Vec<String> {
        self.block().map_or(Vec::new(), |block| block.warnings(subject))
    }

    /// The state machine for one request. Settings and task must have been checked.
    fn decoder(&self, task: Task) -> Box<dyn Decoder>;
}

impl Decoding {
    /// The way of decoding that such models are made for.
    pub fn own(attention: NativeAttention, shift: bool) -> Self {
        match (attention, shift) {
            (NativeAttention::BlockCausal, false) => Self::Block(BlockDiffusion::default()),
            (NativeAttention::BlockCausal, true) => Self::SubBlock(SubBlockDiffusion::default()),
            (NativeAttention::Bidirectional, _) => Self::Canvas(Canvas::default()),
        }
    }

    fn method(&self) -> &dyn Method {
        match self {
            Self::Block(method) => method,
            Self::Editing(method) => method,
            Self::Canvas(method) => method,
            Self::Lookahead(method) => method,
            Self::SimSD(method) => method,
            Self::S2D2(method) => method,
            Self::SubBlock(method) => method,
        }
    }

    /// Its name, as the Python class is called.
    pub fn name(&self) -> &'static str {
        self.method().name()
    }

    /// Refuses values that are wrong for every model.
    pub fn validate(&self) -> Result<()> {
        self.method().validate()
    }

    /// Refuses settings that have no effect, or that this model cannot serve.
    pub fn suits(&self, subject: &Subject<'_>) -> Result<()> {
        let method = self.method();
        if method.attention() != subject.attention || method.shift().is_some_and(|shift| shift != subject.shift) {
            return Err(Error::input("decoding", self.misfit(subject)));
        }
        method.suits(subject)?;
        match method.block_length() {
            Some(length) if length > subject.max_model_len => {
                let message = format!("is {length}, but the model takes at most {} tokens", subject.max_model_len);
                Err(Error::input("block_length", message))
            }
            _ => Ok(()),
        }
    }

    /// Why this is no method for the model, and which one is.
    fn misfit(&self, subject: &Subject<'_>) -> String {
        let shift = match (subject.attention, subject.shift, self.method().shift()) {
            (NativeAttention::BlockCausal, true, _) => ", its predictions shifted by one",
            (NativeAttention::BlockCausal, false, Some(true)) => ", its predictions not shifted",
            _ => "",
        };
        let instead = if self.method().attention() == subject.attention { "" } else { self.method().instead() };
        let (kind, right) = (subject.attention.name(), Self::own(subject.attention, subject.shift));
        format!("is {}, but {} is {kind}{shift}; use {}{instead}", self.name(), subject.name, right.name())
    }

    /// Refuses settings that do not fit a prompt of so many tokens and an answer of so many slots.
    pub(crate) fn fits(&self, subject: &Subject<'_>, prompt: usize, slots: usize) -> Result<()> {
        self.method().fits(subject, prompt, slots)
    }

    /// What may not be as the user thinks.
    pub fn warnings(&self, subject: &Subject<'_>) -> Vec<String> {
        self.method().warnings(subject)
    }

    /// The state machine for one request. Settings and task must have been checked.
    pub fn decoder(&self, task: Task) -> Box<dyn Decoder> {
        self.method().decoder(task)
    }
}
