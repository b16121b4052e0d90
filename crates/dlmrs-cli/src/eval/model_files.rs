//! Which model it was, to the bit: the SHA-256 of each of its files.

use std::path::{Path, PathBuf};

use dlmrs::Folder;
use dlmrs::checkpoint::TEXTS;
use serde_json::{Map, Value};

use super::digest;
use crate::console::Console;
use crate::failure::Failure;

const INDEX: &str = "model.safetensors.index.json";
const WEIGHTS: &str = ".safetensors";

/// The files of a model by name, each with its digest.
pub(super) fn digests(model: &str, console: &mut Console<'_>, interrupt: &dyn Fn() -> bool) -> Result<Value, Failure> {
    let folder = Folder::open(model)?;
    let files = match &folder {
        Folder::Bundled(_, files) => {
            let digests = files.iter().filter(|(name, _)| wanted(name)).map(|(name, bytes)| (*name, digest::of_bytes(bytes)));
            return Ok(digests.map(|(name, digest)| (name.to_string(), digest.into())).collect::<Map<_, Value>>().into());
        }
        Folder::Disk(path) => files(path)?,
        Folder::Gguf(file) => vec![(file.path().file_name().unwrap_or_default().to_string_lossy().into_owned(), file.path().to_path_buf())],
    };
    let bytes = |path: &Path| path.metadata().map(|metadata| metadata.len()).unwrap_or_default();
    let (all, mut done) = (files.iter().map(|(_, path)| bytes(path)).sum::<u64>().max(1), 0);
    let mut digests = Map::new();
    for (name, path) in files {
        let digest = digest::of_file(&path, &mut |read| {
            done += read;
            console.show_wait(&format!("reading {model} for its checksums: {} %", 100 * done.min(all) / all));
            !interrupt()
        })?;
        digests.insert(name, digest.into());
    }
    console.clear_progress();
    Ok(digests.into())
}

fn wanted(name: &str) -> bool {
    name.ends_with(WEIGHTS) || name == INDEX || TEXTS.contains(&name)
}

/// The files of a folder, by name.
fn files(folder: &Path) -> Result<Vec<(String, PathBuf)>, Failure> {
    let cannot = |error: std::io::Error| Failure::Said(format!("cannot read {}: {error}", folder.display()));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if wanted(&name) && entry.path().is_file() {
            files.push((name, entry.path()));
        }
    }
    files.sort();
    Ok(files)
}
