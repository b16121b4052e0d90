//! Compares the tensors that are there with those that the config asks for: each once, with the right shape and a type that can be
//! read, and nothing beside them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::json::shown;
use super::names::{self, Names};
use super::shard::{Shard, Stored};
use super::weights::Entry;
use super::{ExpertLayout, FeedForward, ModelConfig, StoredType, rounded};
use crate::{Error, Result};

/// How many problems are spelt out in one message.
const MOST: usize = 20;

/// Problems, the first ones in words: a wrong config may make a problem of every tensor of every expert.
#[derive(Default)]
struct Problems {
    said: Vec<String>,
    all: usize,
}

impl Problems {
    fn push(&mut self, problem: impl FnOnce() -> String) {
        self.all += 1;
        if self.said.len() < MOST {
            self.said.push(problem());
        }
    }
}

/// What has been found to fit.
pub(super) struct Checked {
    pub(super) entries: BTreeMap<String, Entry>,
    pub(super) layout: ExpertLayout,
}

/// The tensors by name, if nothing is missing, surplus, doubled or wrongly shaped; else one error that names them with their files.
pub(super) fn entries(shards: &[Shard], config: &ModelConfig, names: &Names, whole: &str) -> Result<Checked> {
    let mut problems = Problems::default();
    let mut found: BTreeMap<&str, Found<'_>> = BTreeMap::new();
    let file = |shard: usize| shards.get(shard).map_or(whole, |shard| shard.name.as_str());
    for (index, shard) in shards.iter().enumerate() {
        for (name, stored) in shard.tensors.iter().filter(|(name, _)| !names::ignored(name)) {
            let (base, kind) = rounded::parse(name).map_or((name.as_str(), None), |(base, kind)| (base, Some(kind)));
            if let Some(earlier) = found.get(base) {
                problems.push(|| format!("{} is stored twice, in {} and in {}", tensor(base), file(earlier.shard), shard.name));
            } else {
                found.insert(base, Found { shard: index, stored, kind });
            }
        }
    }
    let layout = layout(&found, config, names, whole)?;
    let mut entries = BTreeMap::new();
    for (name, shape) in names::expected(config, names, layout) {
        match found.remove(name.as_str()) {
            Some(found) => match entry(&name, &shape, &found, file(found.shard)) {
                Ok(entry) => drop(entries.insert(name, entry)),
                Err(problem) => problems.push(|| problem),
            },
            None if config.tied && name == names.head => {}
            None => problems.push(|| format!("{name} {shape:?} is missing")),
        }
    }
    for (name, found) in &found {
        problems.push(|| format!("{} in {} belongs to no {} model of this config", tensor(name), file(found.shard), config.family));
    }
    if problems.all == 0 { Ok(Checked { entries, layout }) } else { Err(report(whole, &problems)) }
}

/// How the experts are stored, which must be one way for all of them.
fn layout(found: &BTreeMap<&str, Found<'_>>, config: &ModelConfig, names: &Names, whole: &str) -> Result<ExpertLayout> {
    if !matches!(config.feed_forward, FeedForward::Mixture(_)) {
        return Ok(ExpertLayout::default());
    }
    if let Some(only) = names.only_expert_layout() {
        return Ok(only);
    }
    match ExpertLayout::found(found.keys().copied()).as_slice() {
        [] => Ok(ExpertLayout::default()),
        [(layout, _)] => Ok(*layout),
        [(_, one), (_, other), ..] => {
            let (one, other) = (tensor(one), tensor(other));
            let message = format!("experts are stored in two ways, as {one} and as {other}; keep one of them");
            Err(Error::checkpoint(whole, message))
        }
    }
}

/// A tensor that is there.
struct Found<'a> {
    shard: usize,
    stored: &'a Stored,
    /// How it is rounded, by its name.
    kind: Option<StoredType>,
}

/// One tensor against the shape it must have.
fn entry(name: &str, shape: &[usize], found: &Found<'_>, file: &str) -> Result<Entry, String> {
    let Found { shard, stored, kind } = *found;
    if let Some(kind) = kind {
        return rounded_entry(name, shape, shard, stored, kind, file);
    }
    if stored.shape != shape {
        return Err(format!("{name} in {file} has the shape {}, but must be {shape:?}", dims(&stored.shape)));
    }
    let dtype = stored.dtype.as_ref().map_err(|problem| format!("{name} in {file} is stored as {problem}"))?;
    Ok(Entry { shard, dtype: *dtype, stored: stored.clone(), paired: None })
}

/// A rounded matrix, whose rows are bytes.
fn rounded_entry(name: &str, shape: &[usize], shard: usize, stored: &Stored, kind: StoredType, file: &str) -> Result<Entry, String> {
    let (Some((&k, outer)), Some(rounded)) = (shape.split_last().filter(|_| shape.len() > 1), kind.rounded()) else {
        return Err(format!("{name} in {file} is stored as {}, but only matrices are", kind.name()));
    };
    let wanted = [outer, &[rounded::row_bytes(rounded, k)]].concat();
    if stored.shape != wanted || stored.range.len() != wanted.iter().product::<usize>() {
        let found = dims(&stored.shape);
        return Err(format!("{name} in {file}, as {} of {shape:?}, has the shape {found}, but must be bytes {wanted:?}", kind.name()));
    }
    let stored = Stored { shape: shape.to_vec(), dtype: Ok(kind), range: stored.range.clone() };
    Ok(Entry { shard, dtype: kind, stored, paired: None })
}

fn report(whole: &str, problems: &Problems) -> Error {
    let mut message = format!("the weights do not fit the config ({} problems): ", problems.all);
    if problems.all == 1 {
        message = "the weights do not fit the config: ".to_string();
    }
    message += &problems.said.join("; ");
    if problems.all > problems.said.len() {
        message += &format!("; and {} more", problems.all - problems.said.len());
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
