//! Names that mean a repository of the Hugging Face hub. With the feature `hub` it is downloaded, without it the error says so.

#[cfg(feature = "hub")]
mod data;
#[cfg(feature = "hub")]
mod download;

use std::path::Path;

#[cfg(feature = "hub")]
pub use data::data_file;
#[cfg(feature = "hub")]
pub(super) use download::open;

/// Whether a name is written as `org/name` and cannot be meant as a path: a folder `org` is not there.
pub(super) fn is_repository(name: &str) -> bool {
    let part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric()) && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    name.split_once('/').is_some_and(|(org, model)| part(org) && part(model) && !Path::new(org).exists())
}

/// There is nothing to download with.
#[cfg(not(feature = "hub"))]
pub(super) fn open(repository: &str) -> crate::Result<super::Folder> {
    Err(crate::Error::NotFound {
        what: "model folder".to_string(),
        path: repository.into(),
        hint: format!(
            "{}. To download the repository of that name from the Hugging Face hub, use a build with the feature 'hub'",
            super::folder::hint()
        ),
    })
}

/// A file of a data set on the Hugging Face hub, written as `OWNER/NAME/PATH`, in the hub's cache; a build without the feature `hub` has
/// nothing to download it with.
#[cfg(not(feature = "hub"))]
pub fn data_file(name: &str) -> crate::Result<std::path::PathBuf> {
    let hint = "this build cannot download; use one with the feature 'hub', or download the file and give its path".to_string();
    Err(crate::Error::NotFound { what: "data file".to_string(), path: format!("hub:{name}").into(), hint })
}
