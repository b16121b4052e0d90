//! Ids to text.

use tokenizers::{Decoder, DecoderWrapper};

use super::bytes::{Utf8Buffer, token_bytes};
use super::guard::{failed, guarded};
use super::{Tokenizer, library};
use crate::{Error, Result};

impl Tokenizer {
    /// The text of ids. `skip_special` leaves special tokens out (see [`Self::is_special`]); other added tokens stay.
    ///
    /// For a byte-level vocabulary this is exact: the bytes of all tokens in a row, and U+FFFD only where these are not UTF-8. An id
    /// that no token has is an error.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String> {
        let mut text = String::new();
        if self.is_byte_level() {
            let mut buffer = Utf8Buffer::default();
            for &id in ids {
                if let Some(bytes) = self.bytes_of(id, skip_special)? {
                    buffer.push(&bytes, &mut text);
                }
            }
            buffer.finish(&mut text);
            return Ok(text);
        }
        let tokens: Result<Vec<Option<String>>> = ids.iter().map(|&id| self.shown(id, skip_special)).collect();
        self.join(tokens?.into_iter().flatten().collect())
    }

    /// Whether tokens are plain byte strings, so that each can be decoded by itself.
    pub(super) fn is_byte_level(&self) -> bool {
        matches!(self.inner.get_decoder(), Some(DecoderWrapper::ByteLevel(_)))
    }

    /// The bytes of a token of a byte-level vocabulary, `None` if it is left out.
    pub(super) fn bytes_of(&self, id: u32, skip_special: bool) -> Result<Option<Vec<u8>>> {
        let added = self.inner.get_added_vocabulary().get_added_tokens_decoder().get(&id);
        Ok(self.shown(id, skip_special)?.map(|token| match added {
            // An added token is written as it is; "é" in one is the letter and not the byte 0xE9.
            Some(_) => token.into_bytes(),
            None => token_bytes(&token),
        }))
    }

    /// The token of an id, `None` if it is left out.
    pub(super) fn shown(&self, id: u32, skip_special: bool) -> Result<Option<String>> {
        let token = self.id_to_token(id).ok_or_else(|| {
            Error::Tokenizer(format!("the id {id} is not in the vocabulary of {} tokens, so it has no text", self.vocab_size()))
        })?;
        Ok((!skip_special || !self.is_special(id)).then_some(token))
    }

    /// The text of tokens in a row, by the tokenizer's own decoder.
    pub(super) fn join(&self, tokens: Vec<String>) -> Result<String> {
        match self.inner.get_decoder() {
            Some(decoder) => guarded(|| failed("decoding ids"), || decoder.decode(tokens).map_err(library)),
            None => Ok(tokens.join(" ")),
        }
    }
}
