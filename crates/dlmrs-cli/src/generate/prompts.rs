//! Prompts as token ids.

use dlmrs::Llm;
use dlmrs::tokenizer::{ChatOptions, Message, Specials};
use serde_json::Value;

use super::source::{Content, Source};
use crate::args::FramingArgs;
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

/// How texts become prompts.
#[derive(Default)]
pub(crate) struct Framing<'a> {
    /// As turns of a chat, or as they are; None: as is usual for the model.
    pub(crate) args: Option<&'a FramingArgs>,
    /// Text that spells a special token is that token.
    pub(crate) parse_specials: bool,
    /// For the template; None: its own defaults.
    pub(crate) options: Option<&'a ChatOptions>,
    /// The command's option that set one of them, for the message where there is no template to take it.
    pub(crate) template_option: Option<&'static str>,
}

/// Encodes one, as a chat or as it is.
pub(crate) fn encode(source: Source, llm: &Llm, framing: &Framing<'_>) -> Result<Prompt, Failure> {
    let Source { place, id, content } = source;
    let ids = ids(content, llm, framing).map_err(|failure| match failure.message() {
        Some(message) => Failure::at(&place, message),
        None => failure,
    })?;
    let has_masks = ids.contains(&llm.facts().mask_token_id);
    Ok(Prompt { place, id, ids, has_masks })
}

fn ids(content: Content, llm: &Llm, framing: &Framing<'_>) -> Result<Vec<u32>, Failure> {
    let specials = if framing.parse_specials { Specials::Parse } else { Specials::AsText };
    let usual = (FramingArgs::default(), ChatOptions::default());
    let (args, options) = (framing.args.unwrap_or(&usual.0), framing.options.unwrap_or(&usual.1));
    let chat = |messages: &[Message]| llm.require_tokenizer()?.encode_chat(messages, options, specials);
    let without_template = || match framing.template_option {
        Some(option) => Err(Failure::Said(format!("{option} has no effect on a prompt without the chat template; leave it out"))),
        None => Ok(()),
    };
    match content {
        Content::TokenIds(_) | Content::Messages(_) if args.system.is_some() => {
            Err(Failure::Said("--system is for prompts that are texts; put a system message into \"messages\" instead".into()))
        }
        Content::TokenIds(ids) => without_template().map(|()| ids),
        Content::Messages(messages) => Ok(chat(&messages)?),
        Content::Text(text) if text.is_empty() => Err(Failure::Said("prompt: is empty; a text is needed".into())),
        Content::Text(text) => {
            let tokenizer = llm.require_tokenizer()?;
            if !args.is_chat(tokenizer) {
                without_template()?;
                return Ok(tokenizer.encode(&text, specials)?);
            }
            let system = args.system.as_ref().map(|system| Message::new("system", system));
            let messages: Vec<Message> = system.into_iter().chain([Message::new("user", text)]).collect();
            Ok(chat(&messages)?)
        }
    }
}
