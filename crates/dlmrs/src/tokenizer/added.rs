//! Putting added tokens into a tokenizer at the ids that the checkpoint gives them.

use std::collections::{BTreeMap, HashSet};

use tokenizers::{AddedToken, Model};

use super::library;
use crate::{Error, Result};

/// Adds the tokens in the order of their ids, as the ids are given out in that order.
pub(super) fn add(tokenizer: &mut tokenizers::Tokenizer, added: &BTreeMap<u32, AddedToken>) -> Result<()> {
    tokenizer.add_tokens(added.values().cloned()).map(|_| ()).map_err(library)
}

/// The first token that did not get its id, with the id that it has.
pub(super) fn misplaced<'a>(
    tokenizer: &tokenizers::Tokenizer,
    added: &'a BTreeMap<u32, AddedToken>,
) -> Option<(u32, &'a str, Option<u32>)> {
    added.iter().find_map(|(&id, token)| {
        let found = tokenizer.token_to_id(&token.content);
        (found != Some(id)).then_some((id, token.content.as_str(), found))
    })
}

/// The error for a token that cannot have its id.
pub(super) fn conflict(file: &str, id: u32, content: &str, found: Option<u32>) -> Error {
    let found = found.map_or_else(|| "has no free place there".to_owned(), |other| format!("has it as {other}"));
    Error::checkpoint(file, format!("the added token {content:?} should have id {id}, but the vocabulary {found}; the two must agree"))
}

/// The error for an id that the base vocabulary gives to another token.
pub(super) fn taken(file: &str, id: u32, content: &str, holder: &str) -> Error {
    Error::checkpoint(
        file,
        format!("the added token {content:?} should have id {id}, but that is {holder:?} in the vocabulary; the two must agree"),
    )
}

/// The ids of added tokens that the base vocabulary does not have.
pub(super) fn outside(model: &impl Model, added: &BTreeMap<u32, AddedToken>) -> HashSet<u32> {
    added.iter().filter(|(id, token)| model.token_to_id(&token.content) != Some(**id)).map(|(id, _)| *id).collect()
}
