//! Where a text ends: at a stop id, before a stop string, or at `max_tokens`.

use super::event::StopCause;
use crate::error::{Error, Result};
use crate::params::SamplingParams;
use crate::tokenizer::{TextStream, Tokenizer};

/// Follows the decided tokens of a request in order, keeps their text and finds the end.
pub(super) struct Watch {
    stop_token_ids: Vec<u32>,
    strings: Vec<String>,
    min_tokens: usize,
    max_tokens: usize,
    stream: Option<TextStream>,
    tokens: Vec<u32>,
    text: String,
    /// Length of `text` after each token.
    ends: Vec<usize>,
    /// Tokens and bytes that were given out.
    given: (usize, usize),
    stop: Option<StopCause>,
    ended: bool,
}

impl Watch {
    /// `stop_token_ids` are those of checkpoint and request together.
    pub(super) fn new(params: &SamplingParams, stop_token_ids: &[u32], tokenizer: Option<&Tokenizer>) -> Result<Self> {
        let (stop_token_ids, strings) = match params.ignore_eos {
            true => (Vec::new(), Vec::new()),
            false => (stop_token_ids.to_vec(), params.stop.clone()),
        };
        if !strings.is_empty() && tokenizer.is_none() {
            return Err(Error::input("stop", "needs text, but this model has no tokenizer; use stop_token_ids"));
        }
        Ok(Self {
            stop_token_ids,
            strings,
            min_tokens: params.min_tokens,
            max_tokens: params.max_tokens,
            stream: tokenizer.map(|t| t.stream(true)),
            tokens: Vec::new(),
            text: String::new(),
            ends: Vec::new(),
            given: (0, 0),
            stop: None,
            ended: params.max_tokens == 0,
        })
    }

    /// Takes the decided tokens from the first slot on; those that it has seen before are passed over.
    pub(super) fn follow(&mut self, decided: &[u32]) {
        let mut seen = self.tokens.len();
        while !self.ended && seen < decided.len() {
            self.push(decided[seen]);
            seen += 1;
        }
    }

    fn push(&mut self, token: u32) {
        if self.stop_token_ids.contains(&token) && self.tokens.len() >= self.min_tokens {
            self.stop = Some(StopCause::Token(token));
            self.ended = true;
            self.flush();
            return;
        }
        if let Some(stream) = &mut self.stream {
            // An id that no token has (a gap in the vocabulary) has no text.
            self.text += &stream.push(&[token]).unwrap_or_default();
        }
        self.tokens.push(token);
        self.ends.push(self.text.len());
        if self.tokens.len() >= self.min_tokens && self.cut() {
            self.ended = true;
            return;
        }
        if self.tokens.len() == self.max_tokens {
            self.ended = true;
            self.flush();
            self.cut();
        }
    }

    /// The bytes of an unfinished character, at the end.
    fn flush(&mut self) {
        if let Some(stream) = &mut self.stream {
            self.text += &stream.finish().unwrap_or_default();
            if let Some(end) = self.ends.last_mut() {
                *end = self.text.len();
            }
        }
    }

    /// Looks for a stop string and cuts the text before the first.
    fn cut(&mut self) -> bool {
        // Only a string that ends in the last token's text is new; one that ended before came too early to count (`min_tokens`).
        let before = self.ends.len().checked_sub(2).map_or(0, |i| self.ends[i]);
        let ends_after = |s: &String| ceil_boundary(&self.text, (before + 1).saturating_sub(s.len()));
        let find = |s| Some((self.text[ends_after(s)..].find(s.as_str())? + ends_after(s), s));
        let found = self.strings.iter().filter_map(find).min_by_key(|(at, _)| *at);
        let Some((at, string)) = found else { return false };
        self.stop = Some(StopCause::Text(string.clone()));
        self.text.truncate(at);
        let starts_before = |end: &usize| *end < at;
        let tokens = self.ends.iter().take_while(|end| starts_before(end)).count() + 1;
        // The token in which the string begins is kept only if it also holds text before it.
        let holds_text = tokens == 1 && at > 0 || tokens > 1 && self.ends[tokens - 2] < at;
        let kept = if holds_text { tokens } else { tokens - 1 };
        self.tokens.truncate(kept.max(self.given.0)); // a token without text may have been given out just before the string
        self.ends.truncate(self.tokens.len());
        if let Some(end) = self.ends.last_mut() {
            *end = at;
        }
        true
    }

    /// New tokens among the first `committed`, and the text that is certain: at the end all of it, before that no part of what may
    /// become a stop string.
    pub(super) fn take(&mut self, committed: usize, at_end: bool) -> (Vec<u32>, String) {
        let mut tokens = committed.min(self.tokens.len());
        let mut bytes = if at_end { self.text.len() } else { tokens.checked_sub(1).map_or(0, |last| self.ends[last]) };
        if !at_end {
            bytes -= self.held_back(bytes);
            // A token whose text is held back, or a part of it, waits as a whole: it may yet be cut off.
            tokens = tokens.min(self.ends.partition_point(|&end| end <= bytes));
            bytes = tokens.checked_sub(1).map_or(0, |last| self.ends[last]);
        }
        let (tokens, bytes) = (tokens.max(self.given.0), bytes.max(self.given.1));
        let new = (self.tokens[self.given.0..tokens].to_vec(), self.text[self.given.1..bytes].to_string());
        self.given = (tokens, bytes);
        new
    }

    /// Length of the longest end of the text that begins a stop string.
    fn held_back(&self, bytes: usize) -> usize {
        let text = &self.text[..bytes];
        let begun = |s: &String| (1..s.len()).rev().filter(|&n| s.is_char_boundary(n)).find(|&n| text.ends_with(&s[..n])).unwrap_or(0);
        self.strings.iter().map(begun).max().unwrap_or(0)
    }

    /// What stopped the text.
    pub(super) fn stopped(&self) -> Option<&StopCause> {
        self.stop.as_ref()
    }

    /// All tokens and all text so far; ends the text.
    pub(super) fn close(&mut self) {
        if !self.ended {
            self.ended = true;
            self.flush();
        }
    }

    pub(super) fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

fn ceil_boundary(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}
