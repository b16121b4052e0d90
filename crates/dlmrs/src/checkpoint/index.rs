//! Which files hold the weights: one `model.safetensors`, or the shards of `model.safetensors.index.json`.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::Folder;
use super::json::{Object, shown};
use super::names::ignored;
use super::shard::Shard;
use crate::{Error, Result};

pub(super) const SINGLE: &str = "model.safetensors";
pub(super) const INDEX: &str = "model.safetensors.index.json";
/// What PyTorch writes; reading it would mean to run the code inside it.
const PICKLES: [&str; 2] = ["pytorch_model.bin", "pytorch_model.bin.index.json"];

/// Opens every file of weights; None if the folder has none.
pub(super) fn open_shards(folder: &Folder) -> Result<Option<Vec<Shard>>> {
    if let Folder::Gguf(file) = folder {
        return Ok(Some(vec![file.shard()]));
    }
    if let Some(shard) = Shard::open(folder, SINGLE)? {
        return Ok(Some(vec![shard]));
    }
    let Some(index) = Object::read(folder, INDEX)? else {
        for name in PICKLES {
            if folder.has(name)? {
                return Err(Error::checkpoint(
                    folder.describe(name),
                    format!("only safetensors are read; convert the weights to {SINGLE}"),
                ));
            }
        }
        return Ok(None);
    };
    open_listed(folder, &index).map(Some)
}

/// The error for a folder without weights.
pub(super) fn no_weights(folder: &Folder) -> Error {
    Error::NotFound {
        what: "weights".to_string(),
        path: folder.path(),
        hint: format!("a model folder must hold {SINGLE}, or {INDEX} and its shards"),
    }
}

fn open_listed(folder: &Folder, index: &Object) -> Result<Vec<Shard>> {
    let mut files: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let Some(Value::Object(map)) = index.get("weight_map") else {
        return Err(index.error("weight_map is missing; it must be an object that gives the file of every tensor"));
    };
    for (tensor, file) in map {
        let Some(name) = file.as_str().filter(|name| plain_name(name)) else {
            let tensor = shown(&Value::from(tensor.as_str()));
            return Err(index.error(format!("weight_map puts {tensor} into {}, but must name a file of the same folder", shown(file))));
        };
        files.entry(name).or_default().push(tensor);
    }
    if files.is_empty() {
        return Err(index.error("weight_map is empty; it must give the file of every tensor"));
    }
    files.into_iter().map(|(name, listed)| open_one(folder, index, name, listed)).collect()
}

/// Opens one shard and compares what it holds with what the index says of it.
fn open_one(folder: &Folder, index: &Object, name: &str, mut listed: Vec<&str>) -> Result<Shard> {
    let Some(shard) = Shard::open(folder, name)? else {
        return Err(index.error(format!(
            "weight_map names {} for {} tensors, but {} is missing",
            shown(&name.into()),
            listed.len(),
            folder.describe(name)
        )));
    };
    let held: Vec<String> = shard.tensors.iter().map(|(tensor, _)| tensor.clone()).collect();
    listed.sort_unstable();
    if let Some(tensor) = listed.iter().find(|tensor| held.binary_search_by(|held| held.as_str().cmp(tensor)).is_err()) {
        return Err(index.error(format!("weight_map puts {} into {name}, but that file holds no such tensor", shown(&(*tensor).into()))));
    }
    if let Some(tensor) = held.iter().find(|tensor| listed.binary_search(&tensor.as_str()).is_err() && !ignored(tensor)) {
        let tensor = shown(&Value::from(tensor.as_str()));
        return Err(index.error(format!("{name} holds {tensor}, but weight_map does not list it there")));
    }
    Ok(shard)
}

/// Whether a name is that of a file right in the folder: an index must not lead out of it.
pub(super) fn plain_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    let one = matches!(parts.next(), Some(std::path::Component::Normal(part)) if part == name);
    one && parts.next().is_none() && !name.contains(['/', '\\', '\0'])
}
