//! Text to ids.

use std::collections::HashSet;

use tokenizers::{Model, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer};

use super::guard::{failed, guarded};
use super::shield::Substitutes;
use super::{Specials, Tokenizer, library};
use crate::{Error, Result};

impl Tokenizer {
    /// The ids of a text; nothing is added at either end.
    ///
    /// With [`Specials::AsText`] the ids hold no control token and decode to the same text (up to the tokenizer's own normalisation,
    /// which for Qwen2 is Unicode NFC). Where a text spells no control token, both modes give the same ids.
    pub fn encode(&self, text: &str, specials: Specials) -> Result<Vec<u32>> {
        guarded(
            || failed("encoding a text"),
            || match specials {
                Specials::Parse => self.words(self.found(text), None),
                Specials::AsText => {
                    self.words(self.facts.words.extract_and_normalize(self.inner.get_normalizer(), text), Some(&self.facts.control))
                }
            },
        )
    }

    /// As [`Specials::Parse`], but literals behind `substitutes` are text.
    pub(super) fn encode_shielded(&self, text: &str, substitutes: &Substitutes) -> Result<Vec<u32>> {
        guarded(|| failed("encoding a chat"), || self.shielded_words(text, substitutes))
    }

    fn shielded_words(&self, text: &str, substitutes: &Substitutes) -> Result<Vec<u32>> {
        let mut pieces = self.found(text);
        let left: usize = pieces
            .get_splits(OffsetReferential::Normalized, OffsetType::None)
            .iter()
            .filter(|(_, _, tokens)| tokens.is_none())
            .map(|(piece, _, _)| substitutes.count(piece))
            .sum();
        if left != substitutes.count(text) {
            let message = "this tokenizer's normaliser changes private-use characters, so user text cannot be told from control tokens; \
                           take them out of the messages or use Specials::Parse";
            return Err(Error::Tokenizer(message.to_owned()));
        }
        pieces
            .normalize(|piece| {
                if substitutes.count(piece.get()) > 0 {
                    piece.map(|c| substitutes.restore_char(c));
                }
                Ok(())
            })
            .map_err(library)?;
        self.words(pieces, Some(&self.facts.control))
    }

    /// The text cut around every added token in it, and normalised.
    pub(super) fn found(&self, text: &str) -> PreTokenizedString {
        self.inner.get_added_vocabulary().extract_and_normalize(self.inner.get_normalizer(), text)
    }

    /// The second half of encoding: words, then tokens. Tokens that the model makes from text are kept out of `banned`.
    fn words(&self, mut pieces: PreTokenizedString, banned: Option<&HashSet<u32>>) -> Result<Vec<u32>> {
        if let Some(pre_tokenizer) = self.inner.get_pre_tokenizer() {
            pre_tokenizer.pre_tokenize(&mut pieces).map_err(library)?;
        }
        let mut ids = Vec::new();
        for (word, _, tokens) in pieces.get_splits(OffsetReferential::Normalized, OffsetType::None) {
            match (tokens, banned) {
                (Some(tokens), _) => ids.extend(tokens.iter().map(|token| token.id)),
                (None, None) => ids.extend(self.inner.get_model().tokenize(word).map_err(library)?.iter().map(|token| token.id)),
                (None, Some(banned)) => self.plain_word(word, banned, &mut ids)?,
            }
        }
        Ok(ids)
    }

    /// Some models find whole words in their vocabulary, control tokens among them. Such a word is cut in half until none is left.
    fn plain_word(&self, word: &str, banned: &HashSet<u32>, ids: &mut Vec<u32>) -> Result<()> {
        let tokens = self.inner.get_model().tokenize(word).map_err(library)?;
        let is_banned = |id: u32| banned.contains(&id) && Some(id) != self.facts.unknown;
        let Some(bad) = tokens.iter().find(|token| is_banned(token.id)) else {
            ids.extend(tokens.iter().map(|token| token.id));
            return Ok(());
        };
        let middle = word.chars().count() / 2;
        let Some((cut, _)) = word.char_indices().nth(middle).filter(|_| middle > 0) else {
            return Err(library(format!("{word:?} cannot be written without the control token {:?} (id {})", bad.value, bad.id)));
        };
        self.plain_word(&word[..cut], banned, ids)?;
        self.plain_word(&word[cut..], banned, ids)
    }
}
