//! Compares the tensors that are there with those that the config asks for: each once, with the right shape and a type that can be
//! read, and nothing beside them.

use std::collections::{BTreeMap, HashSet};

use safetensors::tensor::TensorInfo;
use serde_json::Value;

use super::json::shown;
use super::shard::Shard;
use super::weights::{Entry, StoredType};
use super::{ModelConfig, names};
use crate::{Error, Result};

/// How many problems are spelt out in one message.
const MOST: usize = 20;

/// The tensors by name, if nothing is missing, surplus, doubled or wrongly shaped; else one error that names them with their files.
pub(super) fn entries(shards: &[Shard], config: &ModelConfig, whole: &str) -> Result<BTreeMap<String, Entry>> {
    let mut problems = Vec::new();
    let mut found: BTreeMap<String, (usize, &TensorInfo)> = BTreeMap::new();
    for (index, shard) in shards.iter().enumerate() {
        for (name, info) in shard.tensors().into_iter().filter(|(name, _)| !names::ignored(name)) {
            if let Some((earlier, _)) = found.get(&name) {
                let first = shards.get(*earlier).map_or("", |shard| shard.name.as_str());
                problems.push(format!("{} is stored twice, in {first} and in {}", tensor(&name), shard.name));
            } else {
                found.insert(name, (index, info));
            }
        }
    }
    let expected = names::expected(config);
    let known: HashSet<&str> = expected.iter().map(|(name, _)| name.as_str()).collect();
    let head = names::Names::of(config.family).head;
    let mut entries = BTreeMap::new();
    for (name, shape) in &expected {
        match found.get(name) {
            Some(&(shard, info)) => {
                let file = shards.get(shard).map_or(whole, |shard| shard.name.as_str());
                match entry(name, shape, shard, info, file) {
                    Ok(entry) => {
                        entries.insert(name.clone(), entry);
                    }
                    Err(problem) => problems.push(problem),
                }
            }
            None if config.tied && name == head => {}
            None => problems.push(format!("{name} {shape:?} is missing")),
        }
    }
    for (name, (shard, _)) in found.iter().filter(|(name, _)| !known.contains(name.as_str())) {
        let file = shards.get(*shard).map_or(whole, |shard| shard.name.as_str());
        problems.push(format!("{} in {file} belongs to no {} model of this config", tensor(name), config.family));
    }
    if problems.is_empty() { Ok(entries) } else { Err(report(whole, &problems)) }
}

/// One tensor against the shape it must have.
fn entry(name: &str, shape: &[usize], shard: usize, info: &TensorInfo, file: &str) -> Result<Entry, String> {
    if info.shape != shape {
        return Err(format!("{name} in {file} has the shape {}, but must be {shape:?}", dims(&info.shape)));
    }
    let Some(dtype) = StoredType::of(info.dtype) else {
        return Err(format!("{name} in {file} is stored as {}, but only F32, BF16 and F16 are read", info.dtype));
    };
    Ok(Entry { shard, dtype, info: info.clone() })
}

fn report(whole: &str, problems: &[String]) -> Error {
    let mut message = format!("the weights do not fit the config ({} problems): ", problems.len());
    if problems.len() == 1 {
        message = "the weights do not fit the config: ".to_string();
    }
    message += &problems.iter().take(MOST).map(String::as_str).collect::<Vec<_>>().join("; ");
    if problems.len() > MOST {
        message += &format!("; and {} more", problems.len() - MOST);
    }
    Error::checkpoint(whole, message)
}

/// A name from a file, cut short and without control characters; names that we expect need no such care.
fn tensor(name: &str) -> String {
    shown(&Value::from(name)).trim_matches('"').to_string()
}

/// A shape from a file, cut short.
fn dims(shape: &[usize]) -> String {
    if shape.len() <= 8 { format!("{shape:?}") } else { format!("of {} dimensions", shape.len()) }
}
