//! The methods of decoding and their settings, with the papers' own names. None means the checkpoint's own way.

mod amount;
mod block;
mod block_preset;
mod cache;
mod canvas;
mod check;
mod editing;
mod lookahead;
mod preset;
mod s2d2;
mod simsd;
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
pub use preset::{preset, presets};
pub use s2d2::{S2D2, Variant, estimator};
pub use simsd::{Acceptance, Fallback, SimSD, VerifyLayout};
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
    /// For block-causal models, with the model's own guesses.
    Lookahead(Lookahead),
    /// For block-causal models, with a draft model.
    SimSD(SimSD),
    /// For block-causal models, which verify themselves at block length 1.
    S2D2(S2D2),
}

/// What the settings of a method have to know of a model.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// For messages.
    pub name: &'a str,
    /// What its weights were trained with.
    pub attention: NativeAttention,
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

    /// The models that it is for.
    fn attention(&self) -> NativeAttention;

    /// B, if the user gave one.
    fn block_length(&self) -> Option<usize>;

    /// Refuses values that are wrong for every model.
    fn validate(&self) -> Result<()>;

    /// Refuses settings that have no effect, or that this model cannot serve.
    fn suits(&self, subject: &Subject<'_>) -> Result<()>;

    /// Refuses settings that do not fit a prompt of so many tokens and an answer of so many slots.
    fn fits(&self, _subject: &Subject<'_>, _prompt: usize, _slots: usize) -> Result<()> {
        Ok(())
    }

    /// What may not be as the user thinks.
    fn warnings(&self, subject: &Subject<'_>) -> Vec<String>;

    /// The state machine for one request. Settings and task must have been checked.
    fn decoder(&self, task: Task) -> Box<dyn Decoder>;
}

impl Decoding {
    /// The way of decoding that such models are made for.
    pub fn own(attention: NativeAttention) -> Self {
        match attention {
            NativeAttention::BlockCausal => Self::Block(BlockDiffusion::default()),
            NativeAttention::Bidirectional => Self::Canvas(Canvas::default()),
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
        if method.attention() != subject.attention {
            let kind = match subject.attention {
                NativeAttention::BlockCausal => "block-causal",
                NativeAttention::Bidirectional => "bidirectional",
            };
            let right = Self::own(subject.attention);
            let cache = match (self, subject.attention) {
                (Self::Canvas(canvas), NativeAttention::BlockCausal) if canvas.cache != CacheMode::None => {
                    ", which caches finished blocks exactly (prefix and dual caches are for bidirectional models: LLaDA, Dream)"
                }
                _ => "",
            };
            let message = format!("is {}, but {} is {kind}; use {}{cache}", self.name(), subject.name, right.name());
            return Err(Error::input("decoding", message));
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
