//! What is known about single tokens: their roles, and which of them are special or control tokens.

use std::collections::HashSet;

use tokenizers::{AddedVocabulary, Model};

use super::config::TokenizerConfig;
use super::load::Loaded;
use super::{Tokenizer, library};
use crate::Result;

#[derive(Clone)]
pub(super) struct Facts {
    /// Role and literal, e.g. `("eos_token", "<|im_end|>")`: the variables of a chat template.
    pub(super) roles: Vec<(&'static str, String)>,
    /// Skipped by `decode(.., skip_special: true)`.
    pub(super) special: HashSet<u32>,
    /// Never made from a user's text.
    pub(super) control: HashSet<u32>,
    /// Added tokens that are words of the language, not control tokens: found in text in every mode.
    pub(super) words: AddedVocabulary,
    /// Highest id + 1.
    size: u32,
    mask: Option<u32>,
    /// Made for characters that the vocabulary does not know, so it may come from text after all.
    pub(super) unknown: Option<u32>,
}

impl Facts {
    pub(super) fn new(loaded: &Loaded, config: &TokenizerConfig) -> Result<Self> {
        let inner = &loaded.inner;
        let id_of = |literal: &String| inner.token_to_id(literal);
        let role = |name| config.roles.iter().find(|(role, _)| *role == name).and_then(|(_, literal)| id_of(literal));
        let added = inner.get_added_tokens_decoder();
        let mut special: HashSet<u32> = added.iter().filter(|(_, token)| token.special).map(|(id, _)| *id).collect();
        special.extend(config.roles.iter().filter_map(|(_, literal)| id_of(literal)));
        special.extend(config.more_special.iter().filter_map(id_of));
        let mut facts = Self {
            roles: config.roles.clone(),
            control: added.keys().copied().filter(|id| special.contains(id) || loaded.outside.contains(id)).collect(),
            special,
            words: AddedVocabulary::new(),
            size: inner.get_vocab(true).into_values().max().map_or(0, |id| id.saturating_add(1)),
            mask: None,
            unknown: role("unk_token"),
        };
        facts.set_words(inner)?;
        if let Some(id) = role("mask_token") {
            facts.set_mask(inner, id)?;
        }
        Ok(facts)
    }

    /// The highest id + 1.
    pub(super) fn size(&self) -> u32 {
        self.size
    }

    fn set_mask(&mut self, inner: &tokenizers::Tokenizer, id: u32) -> Result<()> {
        self.mask = Some(id);
        self.special.insert(id);
        if self.control.insert(id) {
            self.set_words(inner)?;
        }
        Ok(())
    }

    fn set_words(&mut self, inner: &tokenizers::Tokenizer) -> Result<()> {
        let words = inner.get_added_tokens_decoder().into_iter().filter(|(id, _)| !self.control.contains(id)).map(|(_, token)| token);
        self.words = AddedVocabulary::new();
        self.words.add_tokens(words, inner.get_model(), inner.get_normalizer()).map(|_| ()).map_err(library)
    }
}

impl Tokenizer {
    /// The id of a token, by its text as the vocabulary has it (`Ġthe`, `<|im_end|>`).
    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// The text of a token as the vocabulary has it.
    pub fn id_to_token(&self, id: u32) -> Option<String> {
        let added = self.inner.get_added_vocabulary().get_added_tokens_decoder().get(&id).map(|token| token.content.clone());
        added.or_else(|| self.inner.get_model().id_to_token(id))
    }

    /// The number of ids, added tokens included: the highest id + 1. A model's rows may be more, padded to a round number.
    pub fn vocab_size(&self) -> u32 {
        self.facts.size
    }

    /// The token of a masked slot, if `tokenizer_config.json` names one (or [`Self::with_mask_token_id`] has).
    pub fn mask_token_id(&self) -> Option<u32> {
        self.facts.mask
    }

    /// The end of a text, by `tokenizer_config.json`. A model's stop ids are in `generation_config.json` and may be more.
    pub fn eos_token_id(&self) -> Option<u32> {
        self.role("eos_token")
    }

    /// The filler of a batch.
    pub fn pad_token_id(&self) -> Option<u32> {
        self.role("pad_token")
    }

    /// The begin of a text. Never added by [`Self::encode`].
    pub fn bos_token_id(&self) -> Option<u32> {
        self.role("bos_token")
    }

    /// Whether a token is special: marked so, named for a role, or the mask. Decoding can leave these out.
    pub fn is_special(&self, id: u32) -> bool {
        self.facts.special.contains(&id)
    }

    /// Whether a token is a control token, which [`super::Specials::AsText`] never makes.
    pub fn is_control(&self, id: u32) -> bool {
        self.facts.control.contains(&id)
    }

    /// The same tokenizer with another mask token. For checkpoints that name it in `config.json` only, or nowhere (LLaDA): without
    /// this their mask would be one added token among others, which an assistant message in a chat may spell. The id may lie beyond
    /// the vocabulary, where no text reaches it.
    pub fn with_mask_token_id(&self, id: u32) -> Result<Self> {
        let mut facts = (*self.facts).clone();
        facts.set_mask(&self.inner, id)?;
        Ok(Self { facts: facts.into(), ..self.clone() })
    }

    fn role(&self, name: &str) -> Option<u32> {
        let (_, literal) = self.facts.roles.iter().find(|(role, _)| *role == name)?;
        self.token_to_id(literal)
    }
}
