//! Models by the name of a repository. Nothing is downloaded from the network: without the feature there is nothing to do it with, and
//! with it the server is a thread of this process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use dlmrs::{Error, Folder};

#[cfg(feature = "hub")]
#[path = "hub/local.rs"]
mod local;

#[cfg(not(feature = "hub"))]
#[test]
fn without_the_feature_the_error_names_it() {
    let error = Folder::open("no-such-org/no-such-model").unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error:?}");
    let message = error.to_string();
    for part in ["no-such-org/no-such-model", "folder", "config.json", "Hugging Face hub", "feature 'hub'"] {
        assert!(message.contains(part), "{message}");
    }
}

/// Everything that is a path, or can only have been meant as one, never leads to the hub.
#[test]
fn paths_are_no_repositories() {
    // The last one's first part is a folder, for tests run in the crate's own.
    for path in ["/no/such", "./no/such", "../no-such", "no/such/model", "no-such", "no-such/", "/no-such", "no such/model", "src/no-such"]
    {
        let error = Folder::open(path).unwrap_err();
        assert!(matches!(error, Error::NotFound { .. }), "{error:?}");
        assert!(!error.to_string().contains("hub"), "{error}");
    }
}
