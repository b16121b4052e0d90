//! Prompts as token ids.

use dlmrs::Llm;
use dlmrs::tokenizer::{ChatOptions, Message, Specials};
use serde_json::Value;

use super::source::{Content, Source};
use crate::failure::Failure;

/// A prompt as the model takes it.
pub(crate) struct Prompt {
    /// Where it stands, for errors; empty for the command line.
    pub(crate) place: String,
    /// The user's name for it.
    pub(crate) id: Option<Value>,
    pub(crate) ids: Vec<u32>,
    /// Whether it has slots to fill.
    pub(crate) has_masks: bool,
}

impl Prompt {
    /// Refuses a request that would decide nothing.
    pub(crate) fn check(&self, max_tokens: usize) -> Result<(), Failure> {
        match max_tokens == 0 && !self.has_masks {
            true => Err(Failure::at(&self.place, "max_tokens: is 0, and the prompt has no masks to fill; at least 1 is needed")),
            false => Ok(()),
        }
    }
}

/// How texts become prompts. By default they are a user's turn wherever the model has a chat template.
#[derive(Default)]
pub(crate) struct Framing<'a> {
    /// Always as a turn.
    pub(crate) chat: bool,
    /// Never as a turn.
    pub(crate) raw: bool,
    /// A system message before it.
    pub(crate) system: Option<&'a str>,
    /// Text that spells a special token is that token.
    pub(crate) parse_specials: bool,
    /// For the template; None: its own defaults.
    pub(crate) options: Option<&'a ChatOptions>,
    /// The command's option that set one of them, for the message where there is no template to take it.
    pub(crate) template_option: Option<&'static str>,
}

/// Encodes all, as chats or as they are.
pub(crate) fn encode(sources: Vec<Source>, llm: &Llm, framing: &Framing<'_>) -> Result<Vec<Prompt>, Failure> {
    let mut prompts = Vec::new();
    for Source { place, id, content } in sources {
        let ids = ids(content, llm, framing).map_err(|failure| match failure.message() {
            Some(message) => Failure::at(&place, message),
            None => failure,
        })?;
        let has_masks = ids.contains(&llm.facts().mask_token_id);
        prompts.push(Prompt { place, id, ids, has_masks });
    }
    Ok(prompts)
}

fn ids(content: Content, llm: &Llm, framing: &Framing<'_>) -> Result<Vec<u32>, Failure> {
    let specials = if framing.parse_specials { Specials::Parse } else { Specials::AsText };
    let none = ChatOptions::default();
    let options = framing.options.unwrap_or(&none);
    let chat = |messages: &[Message]| llm.require_tokenizer()?.encode_chat(messages, options, specials);
    let without_template = || match framing.template_option {
        Some(option) => Err(Failure::Said(format!("{option} has no effect on a prompt without the chat template; leave it out"))),
        None => Ok(()),
    };
    match content {
        Content::TokenIds(_) | Content::Messages(_) if framing.system.is_some() => {
            Err(Failure::Said("--system is for prompts that are texts; put a system message into \"messages\" instead".into()))
        }
        Content::TokenIds(ids) => without_template().map(|()| ids),
        Content::Messages(messages) => Ok(chat(&messages)?),
        Content::Text(text) if text.is_empty() => Err(Failure::Said("prompt: is empty; a text is needed".into())),
        Content::Text(text) => {
            let tokenizer = llm.require_tokenizer()?;
            if framing.raw || !(framing.chat || framing.system.is_some() || tokenizer.chat_template().is_some()) {
                without_template()?;
                return Ok(tokenizer.encode(&text, specials)?);
            }
            let system = framing.system.map(|system| Message::new("system", system));
            let messages: Vec<Message> = system.into_iter().chain([Message::new("user", text)]).collect();
            Ok(chat(&messages)?)
        }
    }
}
