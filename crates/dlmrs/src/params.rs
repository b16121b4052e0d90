//! What a caller may ask of sampling, whatever the method of decoding.

use std::collections::BTreeMap;

use crate::decode::temperature;
use crate::error::{Error, Result};

/// Settings of one request. The defaults are greedy decoding of at most 256 tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingParams {
    /// At most this many tokens are given back.
    pub max_tokens: usize,
    /// No stop id is drawn, and no stop string counts, before so many tokens.
    pub min_tokens: usize,
    /// 0 is greedy.
    pub temperature: f32,
    /// Draw among the most likely tokens that hold this much probability; 1 is off.
    pub top_p: f32,
    /// Draw among so many most likely tokens; 0 is off, 1 is greedy.
    pub top_k: usize,
    /// Fixes every random choice of the request; None draws a seed, which the output tells.
    pub seed: Option<u64>,
    /// The text ends before the first of these.
    pub stop: Vec<String>,
    /// Besides the checkpoint's own.
    pub stop_token_ids: Vec<u32>,
    /// Switches every early stop off, stop strings included.
    pub ignore_eos: bool,
    /// Divides positive and multiplies negative logits of tokens that the canvas holds; 1 is off.
    pub repetition_penalty: f32,
    /// Added to the logits of these tokens.
    pub logit_bias: BTreeMap<u32, f32>,
    /// Never drawn.
    pub banned_token_ids: Vec<u32>,
    /// Whether the output tells how each slot was decided ([`crate::engine::Traced`]).
    pub trace: bool,
}

impl Default for SamplingParams {
    fn default() -> Self {
        Self {
            max_tokens: 256,
            min_tokens: 0,
            temperature: 0.0,
            top_p: 1.0,
            top_k: 0,
            seed: None,
            stop: Vec::new(),
            stop_token_ids: Vec::new(),
            ignore_eos: false,
            repetition_penalty: 1.0,
            logit_bias: BTreeMap::new(),
            banned_token_ids: Vec::new(),
            trace: false,
        }
    }
}

impl SamplingParams {
    /// Checks every value that can be checked without a prompt; `vocab` is the size of the model's vocabulary.
    pub fn validate(&self, vocab: usize) -> Result<()> {
        temperature("temperature", self.temperature, "greedy")?;
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return Err(Error::input("top_p", format!("is {}; a number above 0 and up to 1 is needed (1 is off)", self.top_p)));
        }
        if !(self.repetition_penalty > 0.0 && self.repetition_penalty.is_finite()) {
            return Err(Error::input(
                "repetition_penalty",
                format!("is {}; a number above 0 is needed (1 is off)", self.repetition_penalty),
            ));
        }
        if self.min_tokens > self.max_tokens {
            return Err(Error::input("min_tokens", format!("is {}, more than max_tokens ({})", self.min_tokens, self.max_tokens)));
        }
        if self.stop.iter().any(String::is_empty) {
            return Err(Error::input("stop", "holds an empty string, which would end every text at once"));
        }
        for (name, ids) in [("stop_token_ids", &self.stop_token_ids), ("banned_token_ids", &self.banned_token_ids)] {
            known(name, ids.iter().copied(), vocab)?;
        }
        known("logit_bias", self.logit_bias.keys().copied(), vocab)?;
        match self.logit_bias.iter().find(|(_, bias)| bias.is_nan() || **bias == f32::INFINITY) {
            Some((id, bias)) => {
                Err(Error::input("logit_bias", format!("is {bias} for token {id}; a finite number (or -inf to ban it) is needed")))
            }
            None => Ok(()),
        }
    }
}

fn known(name: &str, mut ids: impl Iterator<Item = u32>, vocab: usize) -> Result<()> {
    match ids.find(|&id| id as usize >= vocab) {
        Some(id) => Err(Error::input(name, format!("holds the id {id}, but the vocabulary has {vocab} entries (0 to {})", vocab - 1))),
        None => Ok(()),
    }
}
