//! Pipes, folders, links and endless files in the place of files.
#![cfg(unix)]

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use dlmrs::{Llm, Overrides};
use tempfile::TempDir;

use crate::common::{alone, at, is_sentence, measured};

const NAMES: [&str; 9] = [
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.json",
    "chat_template.jinja",
];

/// A sound checkpoint with everything but the file.
fn without(name: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"] {
        fs::copy(at("bundled/tiny-sdar-draft").join(file), folder.path().join(file)).unwrap();
    }
    // These are asked for only if others are missing.
    match name {
        "model.safetensors.index.json" => fs::remove_file(folder.path().join("model.safetensors")).unwrap(),
        "vocab.json" => fs::remove_file(folder.path().join("tokenizer.json")).unwrap(),
        _ => (),
    }
    let _ = fs::remove_file(folder.path().join(name));
    folder
}

fn refused(make: impl Fn(&Path), why: &[&str]) {
    for name in NAMES {
        let folder = without(name);
        make(&folder.path().join(name));
        let (result, risen) = measured(|| Llm::inspect(folder.path().to_str().unwrap(), &Overrides::default()));
        let error = result.expect_err(name);
        is_sentence(&error, &[name]);
        assert!(why.iter().any(|why| error.to_string().contains(why)), "{name}: {error}");
        assert!(risen < 8 << 20, "{name}: {risen} bytes");
    }
}

/// Nobody writes into it, so opening it would wait for ever.
#[test]
fn a_pipe() {
    let _alone = alone();
    refused(|path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success()), &["is not a regular file"]);
}

#[test]
fn a_folder() {
    let _alone = alone();
    refused(|path| fs::create_dir(path).unwrap(), &["is not a regular file"]);
}

#[test]
fn an_endless_device() {
    let _alone = alone();
    refused(|path| symlink("/dev/zero", path).unwrap(), &["is not a regular file"]);
}

#[test]
fn a_link_to_itself() {
    let _alone = alone();
    refused(|path| symlink(path, path).unwrap(), &["symbolic link"]);
}

/// A terabyte of nothing; the weights are mapped, which costs nothing either.
#[test]
fn a_huge_file() {
    let _alone = alone();
    refused(|path| File::create(path).unwrap().set_len(1 << 40).unwrap(), &["no such file has more than", "header"]);
}

#[test]
fn links_are_followed() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    for file in ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"] {
        symlink(at("bundled/tiny-sdar-draft").join(file), folder.path().join(file)).unwrap();
    }
    Llm::inspect(folder.path().to_str().unwrap(), &Overrides::default()).unwrap();
}
