//! Downloads into hf-hub's cache, which other programs share (`HF_HOME` moves it, `HF_ENDPOINT` names another server).
//!
//! A repository that is complete in the cache is used as it is, without asking the network, so that a model stays the same until its
//! folder in the cache is deleted. A file is complete when it has the length that the hub says; one that is not is taken away again.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use hf_hub::api::sync::{Api, ApiBuilder, ApiError, ApiRepo, Metadata};
use hf_hub::{Cache, CacheRepo, Repo, RepoType};
use serde_json::Value;

use super::super::Folder;
use super::super::folder::{TEXTS, hint};
use super::super::index::{INDEX, SINGLE, plain_name};
use crate::{Error, Result};

const CONFIG: &str = "config.json";

/// The folder of a repository in the cache, downloaded if it is not there.
pub(in crate::checkpoint) fn open(repository: &str) -> Result<Folder> {
    let cache = Cache::new(place(std::env::var_os("HF_HOME"), std::env::home_dir())?);
    let main = cache.repo(Repo::model(repository.to_string()));
    if let Some(folder) = main.get(CONFIG).and_then(|config| complete(&config)) {
        return Ok(Folder::Disk(folder));
    }
    tracing::info!(repository, "downloading from the Hugging Face hub");
    let refuse = |error: ApiError| failed(repository, std::io::Error::other(error.to_string()));
    // The bar that shows the progress is drawn on a terminal only. No retries: the library's begin at the wrong place.
    let mut builder = ApiBuilder::from_cache(cache.clone()).with_progress(true);
    if let Ok(endpoint) = std::env::var("HF_ENDPOINT") {
        builder = builder.with_endpoint(endpoint);
    }
    let api = builder.build().map_err(refuse)?;
    let info = api.model(repository.to_string()).info().map_err(refuse)?;
    // The commit of this moment, so that a push meanwhile does not mix two states.
    let pinned = Repo::with_revision(repository.to_string(), RepoType::Model, info.sha.clone());
    let download = Download { repository, repo: api.repo(pinned.clone()), cached: cache.repo(pinned), api };
    let has = |name: &str| info.siblings.iter().any(|file| file.rfilename == name);
    if !has(CONFIG) {
        let hint = format!("the repository holds none, so it is no model that can be loaded; {}", hint());
        return Err(Error::NotFound { what: CONFIG.to_string(), path: repository.into(), hint });
    }
    let config = download.file(CONFIG)?;
    for name in TEXTS.into_iter().filter(|name| *name != CONFIG && has(name)) {
        download.file(name)?;
    }
    let weights = match (has(SINGLE), has(INDEX)) {
        (true, _) => BTreeSet::from([SINGLE.to_string()]),
        (false, true) => shards(&download.file(INDEX)?),
        (false, false) => BTreeSet::new(), // said when the weights are opened
    };
    for name in weights.iter().filter(|name| has(name)) {
        download.file(name)?;
    }
    // Only now: from here on the cache counts as complete.
    main.create_ref(&info.sha).map_err(|error| failed(repository, error))?;
    Ok(Folder::Disk(folder_of(&config)))
}

/// The cache's own folder, as all programs of the hub find it; the library would panic where there is none.
fn place(hf_home: Option<OsString>, home: Option<PathBuf>) -> Result<PathBuf> {
    let given = hf_home.filter(|home| !home.is_empty()).map(PathBuf::from);
    let usual = || home.filter(|home| !home.as_os_str().is_empty()).map(|home| home.join(".cache/huggingface"));
    match given.or_else(usual) {
        Some(folder) => Ok(folder.join("hub")),
        None => Err(Error::input("HF_HOME", "is not set, and there is no home folder to download into; set HF_HOME to a folder")),
    }
}

/// The files of one commit on their way into the cache.
struct Download<'a> {
    repository: &'a str,
    api: Api,
    repo: ApiRepo,
    cached: CacheRepo,
}

impl Download<'_> {
    /// A file, whole.
    fn file(&self, name: &str) -> Result<PathBuf> {
        let refuse = |error: ApiError| {
            let message = format!("{name}: {error}; what has arrived is kept, and the next try goes on from there");
            failed(self.repository, std::io::Error::other(message))
        };
        let expected = self.api.metadata(&self.repo.url(name)).map_err(refuse)?;
        // Both become names of files.
        if !plain_name(expected.etag()) || !plain_name(expected.commit_hash()) {
            let message = format!("{name}: the server answers with an ETag or a commit that cannot be a name in the cache");
            return Err(failed(self.repository, std::io::Error::other(message)));
        }
        self.clear(name, &expected);
        let path = loop {
            match self.repo.get(name) {
                Ok(path) => break path,
                // Its owner goes on or ends, and with it ends the lock.
                Err(ApiError::LockAcquisition(_)) => tracing::info!(name, "another process downloads this file; waiting for it"),
                Err(error) => return Err(refuse(error)),
            }
        };
        let found = length(&path);
        if found == Some(expected.size() as u64) {
            return Ok(path);
        }
        self.clear(name, &expected);
        let message = format!("{name}: {} of {} bytes have arrived; try again", found.unwrap_or_default(), expected.size());
        Err(failed(self.repository, std::io::Error::other(message)))
    }

    /// Takes away what cannot become the file: a copy of the wrong length, and a part that nothing is missing from, with which the
    /// library cannot go on. Not while another process is at work on it.
    fn clear(&self, name: &str, expected: &Metadata) {
        let blob = self.cached.blob_path(expected.etag());
        let lock = File::options().write(true).create(true).truncate(false).open(blob.with_extension("lock"));
        if !lock.is_ok_and(|lock| lock.try_lock().is_ok()) {
            return; // also where there is no cache yet
        }
        let size = expected.size() as u64;
        let part = blob.with_extension("part");
        let pointer = self.cached.pointer_path(expected.commit_hash()).join(name);
        // What cannot be removed makes the download fail, which then says why.
        if length(&part).is_some_and(|length| length >= size) {
            let _ = fs::remove_file(&part);
        }
        match length(&pointer) {
            Some(length) if length != size => {
                let _ = fs::remove_file(&pointer);
                let _ = fs::remove_file(&blob);
            }
            // A link to a file that somebody has deleted.
            None if pointer.is_symlink() => drop(fs::remove_file(&pointer)),
            _ => (),
        }
    }
}

fn length(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|metadata| metadata.len())
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
    let bytes = Folder::Disk(folder_of(index)).read(INDEX).ok().flatten();
    let index: Value = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    let files = index.get("weight_map").and_then(Value::as_object).into_iter().flat_map(|map| map.values());
    files.filter_map(Value::as_str).filter(|name| plain_name(name)).map(str::to_string).collect()
}

fn failed(repository: &str, cause: std::io::Error) -> Error {
    let message = format!("{cause}. Check the repository's name and the network; without one, {}", hint());
    Error::io("download", Path::new(repository), std::io::Error::new(cause.kind(), message))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn without_a_home_the_error_says_what_to_set() {
        let hub = |hf_home: Option<&str>, home: Option<&str>| place(hf_home.map(Into::into), home.map(Into::into));
        assert_eq!(hub(Some("/a"), Some("/b")).unwrap(), Path::new("/a/hub"));
        assert_eq!(hub(None, Some("/b")).unwrap(), Path::new("/b/.cache/huggingface/hub"));
        assert_eq!(hub(Some(""), Some("/b")).unwrap(), Path::new("/b/.cache/huggingface/hub"));
        for home in [None, Some("")] {
            let message = hub(None, home).unwrap_err().to_string();
            assert!(message.starts_with("HF_HOME: is not set") && message.contains("home folder"), "{message}");
        }
    }
}
