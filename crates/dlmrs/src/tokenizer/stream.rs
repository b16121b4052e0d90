//! Ids to text while they come in.

use super::Tokenizer;
use super::bytes::Utf8Buffer;
use crate::Result;

/// Turns ids that come one after another into text, in constant time a token. The pieces add up to [`Tokenizer::decode`] of all ids,
/// no piece ends within a character, and U+FFFD comes only when nothing can complete the character any more.
#[derive(Debug, Clone)]
pub struct TextStream {
    tokenizer: Tokenizer,
    skip_special: bool,
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    Bytes(Utf8Buffer),
    Window(Window),
}

/// For decoders that look at neighbours: the last tokens, of which the first `read` are out already. Decoding these with and without
/// the new ones gives the new text, whatever the decoder does between two tokens.
#[derive(Debug, Clone, Default)]
struct Window {
    tokens: Vec<String>,
    read: usize,
    /// No attempt before so many tokens wait; doubles, so that text which never settles does not cost quadratic time.
    patience: usize,
}

impl Tokenizer {
    /// A stream of this tokenizer's text; `skip_special` as in [`Self::decode`].
    pub fn stream(&self, skip_special: bool) -> TextStream {
        let state = if self.is_byte_level() { State::Bytes(Utf8Buffer::default()) } else { State::Window(Window::default()) };
        TextStream { tokenizer: self.clone(), skip_special, state }
    }
}

impl TextStream {
    /// Takes the next ids and gives the text that is complete now, which may be empty. An id that no token has is an error, and then
    /// none of `ids` is taken.
    pub fn push(&mut self, ids: &[u32]) -> Result<String> {
        let mut text = String::new();
        match &mut self.state {
            State::Bytes(buffer) => {
                let bytes: Result<Vec<_>> = ids.iter().map(|&id| self.tokenizer.bytes_of(id, self.skip_special)).collect();
                buffer.push(&bytes?.into_iter().flatten().flatten().collect::<Vec<u8>>(), &mut text);
            }
            State::Window(window) => {
                let tokens: Result<Vec<_>> = ids.iter().map(|&id| self.tokenizer.shown(id, self.skip_special)).collect();
                for token in tokens?.into_iter().flatten() {
                    window.push(token, &self.tokenizer, &mut text)?;
                }
            }
        }
        Ok(text)
    }

    /// Ends the stream and gives what was held back, with U+FFFD for an incomplete character. The stream starts anew.
    pub fn finish(&mut self) -> Result<String> {
        let mut text = String::new();
        match &mut self.state {
            State::Bytes(buffer) => buffer.finish(&mut text),
            State::Window(window) => std::mem::take(window).finish(&self.tokenizer, &mut text)?,
        }
        Ok(text)
    }
}

impl Window {
    fn push(&mut self, token: String, tokenizer: &Tokenizer, text: &mut String) -> Result<()> {
        // The bytes of a run are decoded together, and one wrong byte spoils the run: only its end tells what it was.
        let in_run = is_byte(&token);
        self.tokens.push(token);
        let waiting = self.tokens.len() - self.read;
        if in_run || waiting < self.patience {
            return Ok(());
        }
        match self.new_text(tokenizer)?.1 {
            Some(new) if !new.is_empty() && !new.ends_with(char::REPLACEMENT_CHARACTER) => {
                text.push_str(&new);
                self.tokens.drain(..self.read);
                self.read = self.tokens.len();
                self.patience = 0;
            }
            _ => self.patience = 2 * waiting,
        }
        Ok(())
    }

    fn finish(self, tokenizer: &Tokenizer, text: &mut String) -> Result<()> {
        let (whole, new) = self.new_text(tokenizer)?;
        text.push_str(&new.unwrap_or(whole));
        Ok(())
    }

    /// The text of all tokens here, and what the waiting ones add to it; `None` while they still change what came before.
    fn new_text(&self, tokenizer: &Tokenizer) -> Result<(String, Option<String>)> {
        let before = tokenizer.join(self.tokens[..self.read].to_vec())?;
        let whole = tokenizer.join(self.tokens.clone())?;
        let new = whole.strip_prefix(&before).map(str::to_owned);
        Ok((whole, new))
    }
}

/// A token that stands for one byte, `<0xE2>`.
fn is_byte(token: &str) -> bool {
    token.len() == 6 && token.starts_with("<0x") && token.ends_with('>')
}
