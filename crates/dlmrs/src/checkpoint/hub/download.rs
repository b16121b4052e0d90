//! Downloads into hf-hub's cache, which other programs share (`HF_HOME` moves it, `HF_ENDPOINT` names another server).
//!
//! A repository that is complete in the cache is used as it is, without asking the network, so that a model stays the same until its
//! folder in the cache is deleted.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use hf_hub::api::sync::{ApiBuilder, ApiError};
use hf_hub::{Cache, Repo, RepoType};
use serde_json::Value;

use super::super::Folder;
use super::super::folder::hint;
use super::super::index::{INDEX, SINGLE, plain_name};
use crate::{Error, Result};

const CONFIG: &str = "config.json";

/// What is read beside config and weights, where a repository has it.
const TEXTS: [&str; 8] = [
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
];

/// The folder of a repository in the cache, downloaded if it is not there.
pub(in crate::checkpoint) fn open(repository: &str) -> Result<Folder> {
    let main = Cache::from_env().repo(Repo::model(repository.to_string()));
    if let Some(folder) = main.get(CONFIG).and_then(|config| complete(&config)) {
        return Ok(Folder::Disk(folder));
    }
    tracing::info!(repository, "downloading from the Hugging Face hub");
    let refuse = |error: ApiError| failed(repository, std::io::Error::other(error.to_string()));
    // The bar that shows the progress is drawn on a terminal only.
    let api = ApiBuilder::from_env().with_progress(true).build().map_err(refuse)?;
    let info = api.model(repository.to_string()).info().map_err(refuse)?;
    // The commit of this moment, so that a push meanwhile does not mix two states.
    let pinned = api.repo(Repo::with_revision(repository.to_string(), RepoType::Model, info.sha.clone()));
    let has = |name: &str| info.siblings.iter().any(|file| file.rfilename == name);
    if !has(CONFIG) {
        let hint = format!("the repository holds none, so it is no model that can be loaded; {}", hint());
        return Err(Error::NotFound { what: CONFIG.to_string(), path: repository.into(), hint });
    }
    let config = pinned.get(CONFIG).map_err(refuse)?;
    for name in TEXTS.into_iter().filter(|name| has(name)) {
        pinned.get(name).map_err(refuse)?;
    }
    let weights = match (has(SINGLE), has(INDEX)) {
        (true, _) => BTreeSet::from([SINGLE.to_string()]),
        (false, true) => shards(&pinned.get(INDEX).map_err(refuse)?),
        (false, false) => BTreeSet::new(), // said when the weights are opened
    };
    for name in weights.iter().filter(|name| has(name)) {
        pinned.get(name).map_err(refuse)?;
    }
    // Only now: from here on the cache counts as complete.
    main.create_ref(&info.sha).map_err(|error| failed(repository, error))?;
    Ok(Folder::Disk(folder_of(&config)))
}

fn folder_of(config: &Path) -> PathBuf {
    config.parent().map(Path::to_path_buf).unwrap_or_default()
}

/// The folder of a cached config, if all its weights are there. They come last, so whatever else the repository has is there too.
fn complete(config: &Path) -> Option<PathBuf> {
    let folder = folder_of(config);
    let shards = shards(&folder.join(INDEX));
    let sharded = !shards.is_empty() && shards.iter().all(|name| folder.join(name).is_file());
    (sharded || folder.join(SINGLE).is_file()).then_some(folder)
}

/// The files that an index names. What is wrong with an index is said when the weights are opened.
fn shards(index: &Path) -> BTreeSet<String> {
    let index: Value = std::fs::read(index).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    let files = index.get("weight_map").and_then(Value::as_object).into_iter().flat_map(|map| map.values());
    files.filter_map(Value::as_str).filter(|name| plain_name(name)).map(str::to_string).collect()
}

fn failed(repository: &str, cause: std::io::Error) -> Error {
    let message = format!("{cause}. Check the repository's name and the network; without one, {}", hint());
    Error::io("download", Path::new(repository), std::io::Error::new(cause.kind(), message))
}
