//! The tokenizer of a GGUF file, written as `tokenizer.json` and `tokenizer_config.json`, so that one reader with its limits serves both.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::config::TOKENS;
use super::header::{Header, List};
use super::object;
use crate::checkpoint::json::shown;
use crate::tokenizer::QWEN2_WORDS;

/// Roles of tokens, as `tokenizer_config.json` and as GGUF call them.
const ROLES: [(&str, &str); 7] = [
    ("bos_token", "bos_token_id"),
    ("eos_token", "eos_token_id"),
    ("unk_token", "unknown_token_id"),
    ("sep_token", "seperator_token_id"),
    ("pad_token", "padding_token_id"),
    ("cls_token", "cls_token_id"),
    ("mask_token", "mask_token_id"),
];

/// Kinds of tokens. What is unused has no text that means it.
const NORMAL: i64 = 1;
const UNKNOWN: i64 = 2;
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;
const UNUSED: i64 = 5;

/// How Ling's and LLaDA's tokenizers cut text into words: single digits, and each line break by itself.
const BAILING_WORDS: &str = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+";
/// Llama 3: up to three digits together.
const LLAMA3_WORDS: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// What is done to a text before its words are looked up.
struct Before {
    /// Unicode NFC first.
    composed: bool,
    /// Digits stand alone, whatever follows.
    digits: bool,
    /// The pattern of a word; None: GPT-2's.
    words: Option<&'static str>,
    /// A word that is a token as it is, is that token.
    whole_words: bool,
}

const GPT2: Before = Before { composed: false, digits: false, words: None, whole_words: false };

/// By `tokenizer.ggml.pre`, which names a pattern and no more.
const KNOWN: [(&str, Before); 10] = [
    ("gpt-2", GPT2),
    ("smollm", Before { digits: true, ..GPT2 }),
    ("starcoder", Before { digits: true, ..GPT2 }),
    ("refact", Before { digits: true, ..GPT2 }),
    ("command-r", Before { digits: true, ..GPT2 }),
    ("qwen2", Before { composed: true, words: Some(QWEN2_WORDS), ..GPT2 }),
    ("llama-bpe", Before { words: Some(LLAMA3_WORDS), whole_words: true, ..GPT2 }),
    ("bailingmoe", Before { words: Some(BAILING_WORDS), ..GPT2 }),
    ("bailingmoe2", Before { words: Some(BAILING_WORDS), ..GPT2 }),
    ("llada-moe", Before { words: Some(BAILING_WORDS), ..GPT2 }),
];

impl Before {
    fn steps(&self) -> Value {
        let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": self.words.is_none()});
        let digits = self.digits.then(|| json!({"type": "Digits", "individual_digits": true}));
        let words = self.words.map(|regex| json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false}));
        json!({"type": "Sequence", "pretokenizers": digits.into_iter().chain(words).chain([bytes]).collect::<Vec<_>>()})
    }
}

/// The tokens of a file. Errors are the end of a sentence that begins with the file's name.
pub(super) struct Vocabulary<'a> {
    pub(super) header: &'a Header,
    pub(super) bytes: &'a [u8],
}

impl<'a> Vocabulary<'a> {
    fn text(&self, name: &str) -> Result<Option<&'a str>, String> {
        let key = format!("{TOKENS}{name}");
        match self.header.scalars.get(&key) {
            None => Ok(None),
            Some(value) => value.as_str().map(Some).ok_or_else(|| format!("{key} is {}, but must be a text", shown(value))),
        }
    }

    fn list(&self, name: &str) -> Result<&'a List, String> {
        self.header.lists.get(&format!("{TOKENS}{name}")).ok_or_else(|| format!("{TOKENS}{name} is missing; it must be a list"))
    }

    fn texts(&self, name: &str) -> Result<Vec<&'a str>, String> {
        self.list(name)?.texts(self.bytes).unwrap_or_else(|| Err(format!("{TOKENS}{name} is not a list of texts")))
    }

    /// Whether there is a tokenizer, which must be a byte-level BPE.
    fn is_there(&self) -> Result<bool, String> {
        match self.text("model")? {
            None | Some("none" | "no_vocab") => Ok(false),
            Some("gpt2") => Ok(true),
            Some(other) => {
                let found = shown(&other.into());
                Err(format!("{TOKENS}model is {found}, but only \"gpt2\", a byte-level BPE, is read"))
            }
        }
    }

    /// `tokenizer.json`, None if the file has no tokenizer.
    pub(super) fn whole(&self) -> Result<Option<Value>, String> {
        if !self.is_there()? {
            return Ok(None);
        }
        let pre = self.text("pre")?.unwrap_or_default();
        let Some((_, before)) = KNOWN.iter().find(|(name, _)| *name == pre) else {
            let known: Vec<_> = KNOWN.iter().map(|(name, _)| *name).collect();
            let found = shown(&pre.into());
            return Err(format!("{TOKENS}pre is {found}, a way of cutting text that is unknown; known are {}", known.join(", ")));
        };
        let (vocab, added) = self.tokens()?;
        let merges = self.merges(&vocab)?;
        let model = json!({
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null,
            "fuse_unk": false, "byte_fallback": false, "ignore_merges": before.whole_words, "vocab": vocab, "merges": merges,
        });
        Ok(Some(Value::Object(object([
            ("version", "1.0".into()),
            ("added_tokens", added.into()),
            ("normalizer", if before.composed { json!({"type": "NFC"}) } else { Value::Null }),
            ("pre_tokenizer", before.steps()),
            ("decoder", json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true})),
            ("model", model),
        ]))))
    }

    /// The vocabulary of the model itself, and the tokens beside it.
    fn tokens(&self) -> Result<(Map<String, Value>, Vec<Value>), String> {
        let (texts, name) = (self.texts("tokens")?, "token_type");
        let kinds = match self.header.lists.get(&format!("{TOKENS}{name}")) {
            Some(list) => list.numbers(self.bytes).unwrap_or_else(|| Err(format!("{TOKENS}{name} is not a list of whole numbers")))?,
            None => vec![NORMAL; texts.len()],
        };
        if kinds.len() != texts.len() {
            return Err(format!("{TOKENS}{name} has {} values, but there are {} tokens", kinds.len(), texts.len()));
        }
        let (mut vocab, mut added, mut seen) = (Map::new(), Vec::new(), HashSet::new());
        for (id, (text, kind)) in texts.into_iter().zip(kinds).enumerate() {
            if kind == UNUSED {
                continue;
            }
            if !seen.insert(text) {
                return Err(format!("has the token {} twice, the second time as {id}", shown(&text.into())));
            }
            match kind {
                UNKNOWN | CONTROL | USER_DEFINED => added.push(json!({
                    "id": id, "content": text, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
                    "special": kind != USER_DEFINED,
                })),
                _ => drop(vocab.insert(text.to_string(), id.into())),
            }
        }
        Ok((vocab, added))
    }

    /// The merges, best first. What they take and what they make must be there, which the library takes on trust.
    fn merges(&self, vocab: &Map<String, Value>) -> Result<Vec<&'a str>, String> {
        let (merges, mut made) = (self.texts("merges")?, String::new());
        for merge in &merges {
            let Some((left, right)) = merge.split_once(' ').filter(|(left, right)| !left.is_empty() && !right.is_empty()) else {
                let found = shown(&(*merge).into());
                return Err(format!("{TOKENS}merges holds {found}, but a merge is two tokens with one space between them"));
            };
            made.clear();
            made.extend([left, right]);
            if let Some(token) = [left, right, &made].into_iter().find(|token| !vocab.contains_key(*token)) {
                let (merge, token) = (shown(&(*merge).into()), shown(&token.into()));
                return Err(format!("{TOKENS}merges holds {merge}, which needs the token {token}, and there is none"));
            }
        }
        Ok(merges)
    }

    /// `tokenizer_config.json`: the special tokens by their roles, and the chat template. None if the file has no tokenizer.
    pub(super) fn roles(&self) -> Result<Option<Value>, String> {
        if !self.is_there()? {
            return Ok(None);
        }
        let (texts, mut config) = (self.texts("tokens")?, Map::new());
        for (role, name) in ROLES {
            let key = format!("{TOKENS}{name}");
            let Some(value) = self.header.scalars.get(&key) else { continue };
            let token = value.as_u64().and_then(|id| texts.get(usize::try_from(id).ok()?));
            let text =
                token.ok_or_else(|| format!("{key} is {}, but must be the id of one of the {} tokens", shown(value), texts.len()))?;
            config.insert(role.to_string(), Value::from(*text));
        }
        if let Some(template) = self.header.scalars.get("tokenizer.chat_template") {
            config.insert("chat_template".to_string(), template.clone());
        }
        Ok(Some(Value::Object(config)))
    }
}
