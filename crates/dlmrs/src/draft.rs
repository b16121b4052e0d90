//! The draft model of a speculative pair, and the checks that it fits its target.

use crate::checkpoint::{NativeAttention, Overrides};
use crate::error::{Error, Result};
use crate::llm::Llm;
use crate::model::{LoadOptions, Model};

/// What drafts for a target.
#[derive(Clone, Debug)]
pub enum DraftSource {
    /// The target itself: the same weights, another cache.
    Itself,
    /// Another checkpoint.
    Model {
        /// A folder, or a bundled model by its name.
        name: String,
        /// Where and how it is loaded; it has a device and threads of its own.
        options: LoadOptions,
    },
}

/// A loaded draft model.
pub(crate) enum Draft {
    Itself,
    Other(Box<Llm>),
}

impl Draft {
    /// Loads what drafts for `target`, and refuses what cannot.
    pub(crate) fn load(
        target: &Llm,
        source: &DraftSource,
        overrides: &Overrides,
        progress: &mut dyn FnMut(usize, usize) -> bool,
    ) -> Result<Self> {
        if target.config().attention != NativeAttention::BlockCausal {
            let message = format!("needs a block-causal target, and {} is bidirectional; leave it out", target.name());
            return Err(Error::input("draft", message));
        }
        if target.config().shift {
            let message = format!("needs a target whose predictions are not shifted, and those of {} are; leave it out", target.name());
            return Err(Error::input("draft", message));
        }
        let DraftSource::Model { name, options } = source else { return Ok(Self::Itself) };
        let draft = Llm::read(name, options, overrides, progress)?;
        check(target, &draft)?;
        Ok(Self::Other(Box::new(draft)))
    }

    /// None where it is the target.
    pub(crate) fn model(&self) -> Option<&Model> {
        match self {
            Self::Itself => None,
            Self::Other(llm) => Some(llm.model()),
        }
    }

    /// None where it is the target.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Itself => None,
            Self::Other(llm) => Some(llm.name()),
        }
    }
}

/// Refuses a draft whose tokens would mean something else to the target, by the first difference. Its family may be another one, so that a dense
/// model may draft for a mixture of experts.
fn check(target: &Llm, draft: &Llm) -> Result<()> {
    let (t, d) = (target.config(), draft.config());
    let differs = |what: &str, found: String, wanted: String| {
        let message =
            format!("{} has {what} {found}, but {} has {wanted}; a draft must have its target's tokens", draft.name(), target.name());
        Err(Error::input("draft", message))
    };
    if d.attention != NativeAttention::BlockCausal {
        let message = format!("{} has no block mode: it is bidirectional; a block-causal checkpoint is needed", draft.name());
        return Err(Error::input("draft", message));
    }
    if t.shift != d.shift {
        return differs("the shift", d.shift.to_string(), t.shift.to_string());
    }
    if t.vocab != d.vocab {
        return differs("the vocabulary size", d.vocab.to_string(), t.vocab.to_string());
    }
    let (own, other) = (target.facts().mask_token_id, draft.facts().mask_token_id);
    if own != other {
        return differs("the mask id", other.to_string(), own.to_string());
    }
    let (theirs, ours) = match (draft.tokenizer(), target.tokenizer()) {
        (Some(theirs), Some(ours)) => (theirs, ours),
        (None, None) => return Ok(()),
        (theirs, _) => {
            let with = if theirs.is_some() { draft.name() } else { target.name() };
            let message = format!("cannot be compared: only {with} has a tokenizer; both or neither is needed");
            return Err(Error::input("draft", message));
        }
    };
    let shown = |token: Option<String>| token.map_or_else(|| "no token".to_owned(), |token| format!("'{token}'"));
    for id in 0..ours.vocab_size().max(theirs.vocab_size()) {
        let (own, other) = (ours.id_to_token(id), theirs.id_to_token(id));
        if own != other {
            return differs("another tokenizer: id", format!("{id} is {}", shown(other)), format!("{} there", shown(own)));
        }
    }
    Ok(())
}
