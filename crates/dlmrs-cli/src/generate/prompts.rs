//! Prompts as token ids.

use dlmrs::Llm;
use dlmrs::tokenizer::{ChatOptions, Message, Specials};
use serde_json::Value;

use super::source::{Content, Source};
use crate::args::GenerateArgs;
use crate::failure::Failure;

/// A prompt as the model takes it.
pub(super) struct Prompt {
    /// Where it stands, for errors; empty for the command line.
    pub(super) place: String,
    /// The user's name for it.
    pub(super) id: Option<Value>,
    pub(super) ids: Vec<u32>,
    /// Whether it has slots to fill.
    pub(super) has_masks: bool,
}

/// Encodes all, as chats or as they are.
pub(super) fn encode(sources: Vec<Source>, llm: &Llm, args: &GenerateArgs) -> Result<Vec<Prompt>, Failure> {
    let mut prompts = Vec::new();
    for Source { place, id, content } in sources {
        let ids = ids(content, llm, args).map_err(|failure| match failure.message() {
            Some(message) => Failure::at(&place, message),
            None => failure,
        })?;
        let has_masks = ids.contains(&llm.facts().mask_token_id);
        if args.sampling.max_tokens == Some(0) && !has_masks {
            return Err(Failure::at(&place, "max_tokens: is 0, and the prompt has no masks to fill; at least 1 is needed"));
        }
        prompts.push(Prompt { place, id, ids, has_masks });
    }
    Ok(prompts)
}

fn ids(content: Content, llm: &Llm, args: &GenerateArgs) -> Result<Vec<u32>, Failure> {
    let specials = if args.parse_specials { Specials::Parse } else { Specials::AsText };
    let chat = |messages: &[Message]| llm.require_tokenizer()?.encode_chat(messages, &ChatOptions::default(), specials);
    match content {
        Content::TokenIds(_) | Content::Messages(_) if args.system.is_some() => {
            Err(Failure::Said("--system is for prompts that are texts; put a system message into \"messages\" instead".into()))
        }
        Content::TokenIds(ids) => Ok(ids),
        Content::Messages(messages) => Ok(chat(&messages)?),
        Content::Text(text) if text.is_empty() => Err(Failure::Said("prompt: is empty; a text is needed".into())),
        Content::Text(text) => {
            let tokenizer = llm.require_tokenizer()?;
            if args.raw || !(args.chat || args.system.is_some() || tokenizer.chat_template().is_some()) {
                return Ok(tokenizer.encode(&text, specials)?);
            }
            let system = args.system.as_ref().map(|system| Message::new("system", system));
            let messages: Vec<Message> = system.into_iter().chain([Message::new("user", text)]).collect();
            Ok(chat(&messages)?)
        }
    }
}
