//! Single files of data sets, in the same cache as models.

use std::io::Error as IoError;
use std::path::{Path, PathBuf};

use hf_hub::api::sync::{ApiBuilder, ApiError};
use hf_hub::{Cache, Repo, RepoType};

use crate::{Error, Result};

/// A file of a data set on the Hugging Face hub, written as `OWNER/NAME/PATH`, in the hub's cache, downloaded if it is not there. A file
/// in the cache is used as it is, without asking the network.
pub fn data_file(name: &str) -> Result<PathBuf> {
    let parts: Vec<&str> = name.split('/').collect();
    // No part may lead out of the cache.
    let plain = parts.iter().all(|part| !part.is_empty() && !part.starts_with('.') && !part.contains('\\'));
    let [owner, repository, file @ ..] = parts.as_slice() else { return malformed(name) };
    if !plain || file.is_empty() {
        return malformed(name);
    }
    let (repository, file) = (format!("{owner}/{repository}"), file.join("/"));
    if let Some(path) = Cache::from_env().repo(Repo::new(repository.clone(), RepoType::Dataset)).get(&file) {
        return Ok(path);
    }
    tracing::info!(repository, file, "downloading from the Hugging Face hub");
    let refuse = |error: ApiError| {
        let message = format!("{error}. Check the names of data set and file, and the network; without one, give the path of a file");
        Error::io("download", Path::new(&format!("hub:{name}")), IoError::other(message))
    };
    // The bar that shows the progress is drawn on a terminal only.
    let api = ApiBuilder::from_env().with_progress(true).build().map_err(refuse)?;
    api.dataset(repository).get(&file).map_err(refuse)
}

fn malformed(name: &str) -> Result<PathBuf> {
    Err(Error::input("data file", format!("is hub:{name}; hub:OWNER/NAME/PATH is needed, the path of a file in a data set")))
}
