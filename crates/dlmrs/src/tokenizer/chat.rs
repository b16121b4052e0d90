//! From a conversation to a prompt.

use serde_json::{Map, Value, json};
use tokenizers::{OffsetReferential, OffsetType};

use super::guard::{failed, guarded};
use super::shield::{Banned, Shield, Substitutes};
use super::template::{ChatTemplate, StoredTemplate};
use super::{Specials, Tokenizer};
use crate::{Error, Result};

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Message {
    /// "system", "user", "assistant", "tool", or whatever else the template knows.
    pub role: String,
    /// What was said.
    pub content: String,
    /// Further fields: `tool_calls`, `reasoning_content`, ... One named `content` takes the place of [`Self::content`], for templates
    /// that want a list of parts or a null there.
    pub extra: Map<String, Value>,
}

impl Message {
    /// A message with nothing but a role and a text.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: content.into(), extra: Map::new() }
    }

    fn to_value(&self) -> Value {
        let mut map = Map::from_iter([("role".to_owned(), json!(self.role)), ("content".to_owned(), json!(self.content))]);
        map.extend(self.extra.clone());
        map.insert("role".to_owned(), json!(self.role));
        Value::Object(map)
    }
}

/// How a conversation is rendered.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatOptions {
    /// Whether the prompt ends with the head of the assistant's answer. On by default.
    pub add_generation_prompt: bool,
    /// Descriptions of tools: a list, in the form that the template expects.
    pub tools: Option<Value>,
    /// Further variables of the template, e.g. `enable_thinking`.
    pub extra: Map<String, Value>,
}

impl Default for ChatOptions {
    fn default() -> Self {
        Self { add_generation_prompt: true, tools: None, extra: Map::new() }
    }
}

/// A template's variables, from the caller and from the tokenizer.
#[derive(Clone)]
struct Variables {
    messages: Vec<Value>,
    tools: Value,
    extra: Map<String, Value>,
}

/// Variables that have a field or an argument of their own.
const ARGUMENTS: [&str; 3] = ["messages", "tools", "add_generation_prompt"];

impl Variables {
    fn new(messages: &[Message], options: &ChatOptions) -> Result<Self> {
        if messages.is_empty() {
            return Err(Error::input("messages", "the conversation is empty; it needs at least one message"));
        }
        let tools = options.tools.clone().unwrap_or(Value::Null);
        if !tools.is_null() && !tools.is_array() {
            return Err(Error::input("tools", "must be a list of tool descriptions"));
        }
        if let Some(name) = ARGUMENTS.iter().find(|name| options.extra.contains_key(**name)) {
            return Err(Error::input("extra", format!("{name:?} is an argument of its own and cannot be given as a variable")));
        }
        Ok(Self { messages: messages.iter().map(Message::to_value).collect(), tools, extra: options.extra.clone() })
    }

    /// Every string, to see which characters are in use.
    fn text(&self) -> String {
        json!([self.messages, self.tools, self.extra]).to_string()
    }

    /// Shields all strings but the names of variables and of a message's own fields. A role is shielded only where it spells a whole
    /// literal, as some templates make control tokens of it (`<|user|>`).
    fn shield(&mut self, shield: &mut Shield, all: &Banned, special: &Banned) {
        for message in &mut self.messages {
            let banned = if is_assistant(message) { special } else { all };
            for (name, value) in message.as_object_mut().into_iter().flatten() {
                match value {
                    Value::String(role) if name == "role" => shield.text(role, all, false),
                    value => shield.value(value, banned),
                }
            }
        }
        shield.value(&mut self.tools, all);
        self.extra.values_mut().for_each(|value| shield.value(value, all));
    }
}

impl Tokenizer {
    /// The prompt as text: what `apply_chat_template(tokenize=False)` gives in transformers. Roles are left to the template.
    pub fn render_chat(&self, messages: &[Message], options: &ChatOptions) -> Result<String> {
        self.render(&Variables::new(messages, options)?, options)
    }

    /// The prompt as ids.
    ///
    /// With [`Specials::AsText`] only the template's own control tokens are control tokens: what messages, tools and variables spell
    /// stays text, even where two of them meet. One exception: an assistant's message may spell added tokens that are not special
    /// (`</think>`, `<tool_call>`), because models write these and templates look for them. If nobody spells a control token, the ids
    /// are those of [`Specials::Parse`], which encodes [`Self::render_chat`].
    pub fn encode_chat(&self, messages: &[Message], options: &ChatOptions, specials: Specials) -> Result<Vec<u32>> {
        let mut variables = Variables::new(messages, options)?;
        let plain = self.render(&variables, options)?;
        if specials == Specials::Parse {
            return self.encode(&plain, Specials::Parse);
        }
        let literals = self.control_literals(false);
        let special = self.control_literals(true);
        let banned = Banned::new(literals.iter().map(String::as_str));
        let banned_special = Banned::new(special.iter().map(String::as_str));
        let substitutes = Substitutes::new(&literals, [plain.as_str(), &variables.text()])?;
        let mut shield = Shield { substitutes: &substitutes, spelled: false, edges: false };
        variables.shield(&mut shield, &banned, &banned_special);
        guarded(|| failed("normalising a chat"), || self.refuse_hidden(&variables))?;
        let (spelled, edges) = (shield.spelled, shield.edges);
        let text = match (spelled || edges).then(|| self.render(&variables, options)) {
            None => plain,
            // A template that looks at a ">" at an edge saw a substitute there. Nobody spelled a token, so its plain output counts.
            Some(Err(_)) if !spelled => plain,
            Some(Ok(shielded)) if !spelled && substitutes.restore(&shielded) != plain => plain,
            Some(shielded) => shielded?,
        };
        self.encode_shielded(&text, &substitutes)
    }

    /// The chat template in use, as it was written.
    pub fn chat_template(&self) -> Option<&str> {
        self.template.get(false).ok().map(ChatTemplate::source)
    }

    /// The same tokenizer with another chat template.
    pub fn with_chat_template(&self, source: &str) -> Result<Self> {
        Ok(Self { template: StoredTemplate::one(ChatTemplate::new(source)?).into(), ..self.clone() })
    }

    fn render(&self, variables: &Variables, options: &ChatOptions) -> Result<String> {
        let mut all: Map<String, Value> = self.facts.roles.iter().map(|(role, literal)| ((*role).to_owned(), json!(literal))).collect();
        all.insert("documents".to_owned(), Value::Null);
        all.extend(variables.extra.clone());
        all.insert("messages".to_owned(), json!(variables.messages));
        all.insert("tools".to_owned(), variables.tools.clone());
        all.insert("add_generation_prompt".to_owned(), json!(options.add_generation_prompt));
        self.template.get(!variables.tools.is_null())?.render(&all)
    }

    fn control_literals(&self, special_only: bool) -> Vec<String> {
        let added = self.inner.get_added_vocabulary().get_added_tokens_decoder();
        let wanted = |id: &u32| self.is_control(*id) && (!special_only || self.is_special(*id));
        added.iter().filter(|(id, _)| wanted(id)).map(|(_, token)| token.content.clone()).collect()
    }

    /// Literals that are matched after normalisation may be spelled in other characters than their own. No known tokenizer has such a
    /// pair, so this is refused and not solved.
    fn refuse_hidden(&self, variables: &Variables) -> Result<()> {
        let added = self.inner.get_added_vocabulary().get_added_tokens_decoder();
        if self.inner.get_normalizer().is_none() || !added.iter().any(|(id, token)| self.is_control(*id) && token.normalized) {
            return Ok(());
        }
        let (own, others): (Vec<_>, Vec<_>) = variables.messages.iter().partition(|message| is_assistant(message));
        for (text, special_only) in [(json!(own), true), (json!([others, variables.tools, variables.extra]), false)] {
            let pieces = self.found(&text.to_string());
            for (literal, _, tokens) in pieces.get_splits(OffsetReferential::Normalized, OffsetType::None) {
                if tokens.iter().flatten().any(|token| self.is_control(token.id) && (!special_only || self.is_special(token.id))) {
                    let message =
                        format!("the text becomes the control token {literal:?} once normalised; change it or use Specials::Parse");
                    return Err(Error::input("messages", message));
                }
            }
        }
        Ok(())
    }
}

fn is_assistant(message: &Value) -> bool {
    message.get("role").and_then(Value::as_str) == Some("assistant")
}
