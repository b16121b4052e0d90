//! Prompts: one or many, each a text or ids.

use dlmrs::Llm;
use dlmrs::tokenizer::{ChatOptions, Message, Specials};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::errors::Result;
use crate::value;

/// One prompt.
pub(crate) enum Prompt {
    /// What it says is text: a control token that it spells stays text.
    Text(String),
    /// Token ids.
    Ids(Vec<u32>),
    /// A conversation for the chat template; what its messages spell is text.
    Chat(Vec<Message>, ChatOptions),
}

impl Prompt {
    /// A string or ids.
    pub(crate) fn read(name: &str, object: &Bound<'_, PyAny>) -> Result<Self> {
        if object.is_instance_of::<PyString>() {
            return Ok(Self::Text(value::text(name, object)?));
        }
        Ok(Self::Ids(value::list(name, object, "a string or a list of token ids", value::id)?))
    }

    /// Its ids.
    pub(crate) fn ids(self, llm: &Llm) -> Result<Vec<u32>, dlmrs::Error> {
        match self {
            Self::Text(text) => llm.require_tokenizer()?.encode(&text, Specials::AsText),
            Self::Ids(ids) => Ok(ids),
            Self::Chat(messages, options) => llm.require_tokenizer()?.encode_chat(&messages, &options, Specials::AsText),
        }
    }
}

/// A string is one prompt, and so is a list of numbers; any other list holds prompts, of which some may be texts and others ids.
pub(crate) fn read(prompts: &Bound<'_, PyAny>) -> Result<Vec<Prompt>> {
    const WANTED: &str = "a string, a list of token ids, or a list of these";
    if prompts.is_instance_of::<PyString>() {
        return Ok(vec![Prompt::read("prompts", prompts)?]);
    }
    let Some(items) = value::items(prompts)? else {
        return Err(value::refuse("prompts", prompts, WANTED).into());
    };
    let is_prompt = |item: &Bound<'_, PyAny>| value::is_text(item) || item.len().is_ok();
    match items.first() {
        Some(first) if !is_prompt(first) => Ok(vec![Prompt::read("prompts", prompts)?]),
        _ => items.iter().enumerate().map(|(index, item)| Prompt::read(&format!("prompts[{index}]"), item)).collect(),
    }
}
