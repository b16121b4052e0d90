//! Conversations.

use dlmrs::Error;
use dlmrs::tokenizer::{ChatOptions, Message};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping};
use serde_json::Value;

use crate::errors::Result;
use crate::{json, value};

/// One conversation, or several.
pub(crate) enum Conversations {
    /// A list of messages.
    One(Vec<Message>),
    /// A list of lists of messages.
    Many(Vec<Vec<Message>>),
}

impl Conversations {
    /// A list of dicts is one conversation; a list of lists is several.
    pub(crate) fn read(messages: &Bound<'_, PyAny>) -> Result<Self> {
        const WANTED: &str = "a list of messages (dicts with role and content), or a list of such lists";
        let Some(items) = value::items(messages)? else {
            return Err(value::refuse("messages", messages, WANTED).into());
        };
        match items.first() {
            Some(first) if value::items(first)?.is_some() => {
                let named = items.iter().enumerate().map(|(index, item)| conversation(&format!("messages[{index}]"), item));
                Ok(Self::Many(named.collect::<Result<_>>()?))
            }
            _ => Ok(Self::One(conversation("messages", messages)?)),
        }
    }
}

/// The messages of one conversation.
pub(crate) fn conversation(name: &str, messages: &Bound<'_, PyAny>) -> Result<Vec<Message>> {
    value::list(name, messages, "a list of messages (dicts with role and content)", message)
}

fn message(name: &str, object: &Bound<'_, PyAny>) -> Result<Message> {
    let mapping = object.cast::<PyMapping>().map_err(|_| value::refuse(name, object, "a dict with role and content"))?;
    let mut fields = json::map(name, mapping)?;
    let role = match fields.shift_remove("role") {
        Some(Value::String(role)) => role,
        Some(other) => return Err(Error::input(format!("{name}[\"role\"]"), format!("is {other}; a string is needed")).into()),
        None => {
            return Err(Error::input(name, "has no role; \"system\", \"user\", \"assistant\" or another of the template is needed").into());
        }
    };
    // Anything but a text stays among the further fields, for templates that want a list of parts or a null.
    let content = match fields.shift_remove("content") {
        Some(Value::String(content)) => content,
        Some(other) => {
            fields.insert("content".into(), other);
            String::new()
        }
        None if fields.contains_key("tool_calls") => String::new(),
        None => return Err(Error::input(name, "has no content; a string is needed").into()),
    };
    Ok(Message { role, content, extra: fields })
}

/// Whether an argument that may be a prompt or a conversation is the latter.
pub(crate) fn is_conversation(object: &Bound<'_, PyAny>) -> Result<bool> {
    let items = if value::is_text(object) { None } else { value::items(object)? };
    Ok(items.is_some_and(|items| items.first().is_some_and(|first| first.cast::<PyMapping>().is_ok())))
}

/// Refuses what has a meaning for a conversation only.
pub(crate) fn refuse_options(
    tools: Option<&Bound<'_, PyAny>>,
    add_generation_prompt: Option<bool>,
    extra: Option<&Bound<'_, PyDict>>,
) -> Result<()> {
    let given = |name: &str, given: bool| given.then(|| name.to_owned());
    let first = given("tools", tools.is_some_and(|tools| !tools.is_none()))
        .or_else(|| given("add_generation_prompt", add_generation_prompt.is_some()))
        .or_else(|| extra.and_then(|extra| extra.keys().iter().next()).map(|key| key.to_string()));
    match first {
        Some(name) => Err(Error::input(name, "is for the chat template, but the prompt is no list of messages; leave it out").into()),
        None => Ok(()),
    }
}

/// The arguments of `chat` beside the messages.
pub(crate) fn options(
    tools: Option<&Bound<'_, PyAny>>,
    add_generation_prompt: bool,
    extra: Option<&Bound<'_, PyDict>>,
) -> Result<ChatOptions> {
    Ok(ChatOptions {
        add_generation_prompt,
        tools: value::given(tools, |tools| json::from_python("tools", tools))?,
        extra: extra.map(|extra| json::map("template_options", extra.as_mapping())).transpose()?.unwrap_or_default(),
    })
}
