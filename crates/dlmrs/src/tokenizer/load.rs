//! Which files make the tokenizer.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use super::config::{TokenizerConfig, fill_in};
use super::facts::Facts;
use super::guard::{MAX_ID, guarded};
use super::template::StoredTemplate;
use super::{Files, Tokenizer, bpe, fast};
use crate::{Error, Result};

/// A tokenizer as read.
pub(super) struct Loaded {
    pub(super) inner: tokenizers::Tokenizer,
    /// Added tokens that the base vocabulary does not have.
    pub(super) outside: HashSet<u32>,
}

impl Tokenizer {
    /// Reads `tokenizer.json`, or else `vocab.json` with `merges.txt`; `None` if the folder has neither.
    ///
    /// Added tokens come from `tokenizer_config.json` first; beside a `vocab.json`, `added_tokens.json` is asked about ids that
    /// the former does not mention. The chat template comes from `chat_template.jinja`, or else from `tokenizer_config.json`.
    pub fn from_files(files: &dyn Files) -> Result<Option<Self>> {
        let whole = files.read(fast::NAME)?;
        let pair = if whole.is_some() { (None, None) } else { (files.read(bpe::VOCAB)?, files.read(bpe::MERGES)?) };
        if whole.is_none() && pair.0.is_none() && pair.1.is_none() {
            return Ok(None);
        }
        let mut config = TokenizerConfig::read(files)?;
        let mut added = std::mem::take(&mut config.added);
        let template = StoredTemplate::read(files, config.chat_template.take())?;
        let file = if whole.is_some() { fast::NAME } else { bpe::VOCAB };
        let broken = || Error::checkpoint(files.describe(file), "its parts contradict each other or those of the tokenizer's other files");
        let (loaded, facts) = guarded(broken, || {
            let loaded = match (whole, pair) {
                (Some(bytes), _) => fast::build(files, &bytes, added)?,
                (None, (Some(vocab), Some(merges))) => {
                    fill_in(&mut added, files)?;
                    bpe::build(files, &vocab, &merges, added)?
                }
                (None, (vocab, _)) => return Err(other_half(files, vocab.is_some())),
            };
            let facts = Facts::new(&loaded, &config)?;
            Ok((loaded, facts))
        })?;
        if facts.size() > MAX_ID {
            let message = format!("the highest token id is {}, but ids must be below {MAX_ID}", facts.size() - 1);
            return Err(Error::checkpoint(files.describe(file), message));
        }
        Ok(Some(Self { inner: Arc::new(loaded.inner), facts: Arc::new(facts), template: Arc::new(template) }))
    }
}

fn other_half(files: &dyn Files, has_vocab: bool) -> Error {
    let (there, missing) = if has_vocab { (bpe::VOCAB, bpe::MERGES) } else { (bpe::MERGES, bpe::VOCAB) };
    Error::NotFound {
        what: missing.to_owned(),
        path: PathBuf::from(files.describe(missing)),
        hint: format!("{there} is there, and a tokenizer needs both files (or one {})", fast::NAME),
    }
}
