//! A tokenizer from `tokenizer.json`, the library's own format.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde_json::{Value, json};
use tokenizers::AddedToken;

use super::config::malformed;
use super::guard::{MAX_ID, check_steps};
use super::load::Loaded;
use super::{Files, added, guard, library};
use crate::{Error, Result};

pub(super) const NAME: &str = "tokenizer.json";

/// The parts of the file that are looked at before the library reads it: which tokens were added, and what is done to a text.
#[derive(Deserialize)]
struct Declared {
    #[serde(default)]
    added_tokens: Vec<Entry>,
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    #[serde(default)]
    decoder: Value,
    #[serde(default)]
    model: Option<Model>,
}

#[derive(Deserialize)]
struct Model {
    #[serde(default, rename = "type")]
    kind: Value,
    #[serde(default)]
    continuing_subword_prefix: Value,
}

impl Model {
    /// In a BPE model the library cuts this many bytes off a token without looking for the ends of characters, and takes the rest for
    /// text unchecked.
    fn cuts_bytes(&self) -> bool {
        self.kind != "WordPiece" && self.continuing_subword_prefix.as_str().is_some_and(|prefix| !prefix.is_empty())
    }
}

#[derive(Deserialize)]
struct Entry {
    id: u32,
    #[serde(flatten)]
    token: AddedToken,
}

/// Builds the tokenizer, with `tokens` (from `tokenizer_config.json`) added where the file does not have them, and in place of the
/// file's where both give the same id to different tokens.
pub(super) fn build(files: &dyn Files, bytes: &[u8], mut tokens: BTreeMap<u32, AddedToken>) -> Result<Loaded> {
    let declared: Declared = serde_json::from_slice(bytes).map_err(|error| malformed(files, NAME, &error))?;
    let bad = |message| Error::checkpoint(files.describe(NAME), message);
    for (part, value) in [("normalizer", &declared.normalizer), ("pre_tokenizer", &declared.pre_tokenizer), ("decoder", &declared.decoder)]
    {
        check_steps(part, value).map_err(bad)?;
    }
    if declared.model.as_ref().is_some_and(Model::cuts_bytes) {
        return Err(bad("the model has a continuing_subword_prefix, which is supported for WordPiece models only".to_owned()));
    }
    let mut renamed = false;
    let mut places: HashMap<String, u32> = tokens.iter().map(|(id, token)| (token.content.clone(), *id)).collect();
    for Entry { id, token } in declared.added_tokens {
        if id >= MAX_ID {
            return Err(bad(format!("the added token {:?} has the id {id}, but ids must be below {MAX_ID}", token.content)));
        }
        renamed |= tokens.get(&id).is_some_and(|wanted| wanted.content != token.content);
        let elsewhere = places.get(&token.content).is_some_and(|other| *other != id);
        if !elsewhere && !token.content.is_empty() {
            places.insert(token.content.clone(), id);
            tokens.entry(id).or_insert(token);
        }
    }
    let mut inner = parse(files, bytes)?;
    let outside = added::outside(inner.get_model(), &tokens);
    if !renamed {
        added::add(&mut inner, &tokens)?;
    }
    if renamed || added::misplaced(&inner, &tokens).is_some() {
        inner = rewritten(files, bytes, &tokens)?;
    }
    if let Some((id, content, found)) = added::misplaced(&inner, &tokens) {
        return Err(added::conflict(&files.describe(NAME), id, content, found));
    }
    // They belong to training; here every text is encoded whole.
    inner.with_truncation(None).map_err(library)?.with_padding(None);
    Ok(Loaded { inner, outside })
}

/// The library gives out ids in a row and cannot rename a token. So where ids have gaps or names differ, the file is rewritten: the
/// tokens enter the model's vocabulary, which the library looks into first.
fn rewritten(files: &dyn Files, bytes: &[u8], tokens: &BTreeMap<u32, AddedToken>) -> Result<tokenizers::Tokenizer> {
    let mut file: Value = serde_json::from_slice(bytes).map_err(|error| malformed(files, NAME, &error))?;
    if let Some(vocab) = file.pointer_mut("/model/vocab").and_then(Value::as_object_mut) {
        for (text, id) in vocab.iter() {
            let wanted = id.as_u64().and_then(|id| tokens.get(&u32::try_from(id).ok()?));
            if let Some(token) = wanted.filter(|token| token.content != *text) {
                return Err(added::taken(&files.describe(NAME), id.as_u64().unwrap_or(0) as u32, &token.content, text));
            }
        }
        for (id, token) in tokens {
            vocab.entry(token.content.clone()).or_insert_with(|| json!(id));
        }
    }
    file["added_tokens"] = Value::Array(tokens.iter().map(|(id, token)| entry(*id, token)).collect());
    parse(files, file.to_string().as_bytes())
}

fn entry(id: u32, token: &AddedToken) -> Value {
    json!({
        "id": id, "content": token.content, "single_word": token.single_word, "lstrip": token.lstrip,
        "rstrip": token.rstrip, "normalized": token.normalized, "special": token.special,
    })
}

fn parse(files: &dyn Files, bytes: &[u8]) -> Result<tokenizers::Tokenizer> {
    let bad = |message: String| Error::checkpoint(files.describe(NAME), message);
    let broken = || bad("the parts contradict each other, most likely a merge whose result is not in the vocabulary".to_owned());
    guard::guarded(broken, || tokenizers::Tokenizer::from_bytes(bytes).map_err(|error| bad(format!("not a tokenizer: {error}"))))
}
