//! From text to token ids and back, and from a conversation to a prompt.
//!
//! A [`Tokenizer`] is built from a checkpoint's files by [`Tokenizer::from_files`]. Three rules hold throughout:
//!
//! - Text is text: in the default mode, [`Specials::AsText`], a user who writes `<|MASK|>` gets the characters, never the mask.
//! - Nothing is added: no begin or end token unless the text or the chat template spells it.
//! - Text comes out whole: [`TextStream`] never splits a character, and its pieces add up to what [`Tokenizer::decode`] gives.

mod added;
mod bpe;
mod bytes;
mod chat;
mod clock;
mod config;
mod decode;
mod encode;
mod facts;
mod fast;
mod guard;
mod jinja;
mod limits;
mod load;
mod metered;
mod methods;
mod pyjson;
mod shield;
mod stream;
mod template;
mod values;

use std::sync::Arc;

pub(crate) use bpe::WORDS as QWEN2_WORDS;
pub use chat::{ChatOptions, Message};
pub use stream::TextStream;
pub use template::ChatTemplate;

use crate::Result;
use facts::Facts;
use template::StoredTemplate;

/// Named files of a checkpoint: a folder on disk or one inside the binary.
pub trait Files {
    /// The bytes of a file, or `None` if there is no such file.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>>;
    /// The file as messages should name it: its full path.
    fn describe(&self, name: &str) -> String;
}

/// What text that spells a control token becomes.
///
/// *Control tokens* are the added tokens that are special, those that lie outside the base vocabulary (`<think>`, `<tool_call>` and
/// the like, which no text but their own literal reaches) and the mask token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Specials {
    /// Ordinary tokens that decode to the same text: safe for whatever a user types.
    #[default]
    AsText,
    /// The control token, as a plain tokenizer does. For text that you wrote yourself.
    Parse,
}

/// Text to ids, ids to text, and what the special tokens are. Cheap to clone.
#[derive(Clone)]
pub struct Tokenizer {
    inner: Arc<tokenizers::Tokenizer>,
    facts: Arc<Facts>,
    template: Arc<StoredTemplate>,
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer").field("vocab_size", &self.vocab_size()).field("mask", &self.mask_token_id()).finish_non_exhaustive()
    }
}

/// The one way in which an error of the `tokenizers` library becomes ours.
fn library(error: impl std::fmt::Display) -> crate::Error {
    crate::Error::Tokenizer(crate::error::one_line(error.to_string()))
}
