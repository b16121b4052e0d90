//! A tokenizer from `tokenizer.json`, the library's own format.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::Deserialize;
use serde_json::{Value, json};
use tokenizers::AddedToken;

use super::config::malformed;
use super::load::Loaded;
use super::{Files, added, library};
use crate::{Error, Result};

pub(super) const NAME: &str = "tokenizer.json";

/// The part of the file that says which tokens were added, and where.
#[derive(Deserialize)]
struct Declared {
    #[serde(default)]
    added_tokens: Vec<Entry>,
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
    let mut renamed = false;
    for Entry { id, token } in declared.added_tokens {
        renamed |= tokens.get(&id).is_some_and(|wanted| wanted.content != token.content);
        let elsewhere = tokens.iter().any(|(other, wanted)| *other != id && wanted.content == token.content);
        if !elsewhere && !token.content.is_empty() {
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

/// The library panics on some inconsistent files (a merge whose result is not in the vocabulary), which is an error of the file.
fn parse(files: &dyn Files, bytes: &[u8]) -> Result<tokenizers::Tokenizer> {
    let bad = |message: String| Error::checkpoint(files.describe(NAME), message);
    match catch_unwind(AssertUnwindSafe(|| tokenizers::Tokenizer::from_bytes(bytes))) {
        Ok(Ok(tokenizer)) => Ok(tokenizer),
        Ok(Err(error)) => Err(bad(format!("not a tokenizer: {error}"))),
        Err(_) => Err(bad("the parts contradict each other, most likely a merge whose result is not in the vocabulary".to_owned())),
    }
}
