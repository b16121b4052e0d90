//! `tokenizer_config.json`, `special_tokens_map.json` and `added_tokens.json`: which tokens were added, and what they are for.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value};
use tokenizers::AddedToken;

use super::Files;
use super::guard::MAX_ID;
use crate::checkpoint::shown;
use crate::{Error, Result};

const CONFIG: &str = "tokenizer_config.json";
const SPECIAL_MAP: &str = "special_tokens_map.json";
const ADDED: &str = "added_tokens.json";

/// The roles a token can have, in the spelling of the files.
pub(super) const ROLES: [&str; 7] = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// What `tokenizer_config.json` says, and `special_tokens_map.json` about roles of which the former does not speak.
#[derive(Default)]
pub(super) struct TokenizerConfig {
    /// Added tokens by id.
    pub(super) added: BTreeMap<u32, AddedToken>,
    /// The literal of each role that is filled.
    pub(super) roles: Vec<(&'static str, String)>,
    /// More literals that count as special.
    pub(super) more_special: Vec<String>,
    /// The `chat_template` entry.
    pub(super) chat_template: Option<Value>,
}

impl TokenizerConfig {
    pub(super) fn read(files: &dyn Files) -> Result<Self> {
        let config = object(files, CONFIG)?.unwrap_or_default();
        let map = object(files, SPECIAL_MAP)?.unwrap_or_default();
        let added = declared(&config, &files.describe(CONFIG))?;
        let role = |name| match config.get(name) {
            // A null is a statement too: this tokenizer has no such token.
            Some(value) => literal(value),
            None => map.get(name).and_then(literal),
        };
        Ok(Self {
            added,
            roles: ROLES.iter().filter_map(|&name| role(name).map(|text| (name, text))).collect(),
            more_special: ["additional_special_tokens", "extra_special_tokens"].iter().flat_map(|key| literals(config.get(*key))).collect(),
            chat_template: config.get("chat_template").filter(|value| !value.is_null()).cloned(),
        })
    }
}

/// A JSON object file, or `None` if it is not there.
fn object(files: &dyn Files, name: &str) -> Result<Option<Map<String, Value>>> {
    let Some(bytes) = files.read(name)? else { return Ok(None) };
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(map)) => Ok(Some(map)),
        Ok(_) => Err(Error::checkpoint(files.describe(name), "the file must hold one JSON object in braces")),
        Err(error) => Err(malformed(files, name, &error)),
    }
}

/// The error for text that is not JSON of the expected shape; the parser's message ends with the line and the column.
pub(super) fn malformed(files: &dyn Files, name: &str, error: &serde_json::Error) -> Error {
    Error::checkpoint(files.describe(name), format!("malformed JSON: {error}"))
}

/// A token is written as its text or as an object with a `content`.
fn literal(value: &Value) -> Option<String> {
    let text = value.as_str().or_else(|| value.get("content")?.as_str())?;
    (!text.is_empty()).then(|| text.to_owned())
}

/// Special tokens come as a list, or as a table from names to tokens.
fn literals(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::Array(list)) => list.iter().filter_map(literal).collect(),
        Some(Value::Object(table)) => table.values().filter_map(literal).collect(),
        _ => Vec::new(),
    }
}

/// `added_tokens_decoder`: a table from ids to tokens with their flags.
fn declared(config: &Map<String, Value>, file: &str) -> Result<BTreeMap<u32, AddedToken>> {
    let table = match config.get("added_tokens_decoder") {
        None | Some(Value::Null) => return Ok(BTreeMap::new()),
        Some(Value::Object(table)) => table,
        Some(_) => return Err(Error::checkpoint(file, "added_tokens_decoder must be an object from token ids to tokens")),
    };
    let mut added = BTreeMap::new();
    for (key, value) in table {
        let id = key.parse().ok().filter(|id| *id < MAX_ID).ok_or_else(|| {
            Error::checkpoint(file, format!("added_tokens_decoder has the key {key:?}, but its keys must be token ids, below {MAX_ID}"))
        })?;
        let content = literal(value).ok_or_else(|| {
            Error::checkpoint(file, format!("added_tokens_decoder[{key}] must be an object with a non-empty \"content\""))
        })?;
        added.insert(id, token(content, value));
    }
    Ok(added)
}

fn token(content: String, flags: &Value) -> AddedToken {
    let flag = |name: &str| flags.get(name).and_then(Value::as_bool);
    let special = flag("special").unwrap_or(false);
    AddedToken {
        content,
        single_word: flag("single_word").unwrap_or(false),
        lstrip: flag("lstrip").unwrap_or(false),
        rstrip: flag("rstrip").unwrap_or(false),
        normalized: flag("normalized").unwrap_or(!special),
        special,
    }
}

/// `added_tokens.json` speaks only for ids and literals of which `tokenizer_config.json` says nothing: in published SDAR checkpoints
/// it still has the mask token's old spelling.
pub(super) fn fill_in(added: &mut BTreeMap<u32, AddedToken>, files: &dyn Files) -> Result<()> {
    let file = files.describe(ADDED);
    let mut literals: HashSet<String> = added.values().map(|token| token.content.clone()).collect();
    for (content, value) in object(files, ADDED)?.unwrap_or_default() {
        let id = value.as_u64().and_then(|id| u32::try_from(id).ok()).filter(|id| *id < MAX_ID).ok_or_else(|| {
            Error::checkpoint(&file, format!("the id of {content:?} is {}, but it must be a whole number below {MAX_ID}", shown(&value)))
        })?;
        if !content.is_empty() && !added.contains_key(&id) && literals.insert(content.clone()) {
            added.insert(id, AddedToken::from(content, false).normalized(false));
        }
    }
    Ok(())
}
