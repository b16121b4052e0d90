//! What a run is, so that it can be done again, and so that two are not mixed up.

use std::path::Path;

use dlmrs::{Backend, Decoding, Llm, SamplingParams};
use serde_json::{Map, Value, json};

use super::judge::Judge;
use super::problems::{Problems, Source};
use super::settings;
use crate::args::EvalArgs;
use crate::failure::Failure;

/// What may differ when a run is resumed, for it changes no answer.
const FREE: [&str; 6] = ["data.file", "shots.file", "batch", "device.threads", "host.cpu", "host.cores"];

/// How many problems are asked. A run may be resumed to ask more.
const COUNT: &str = "problems.count";

/// What a manifest is made of.
pub(super) struct Facts<'a> {
    pub(super) args: &'a EvalArgs,
    pub(super) llm: &'a Llm,
    /// Digests by name.
    pub(super) model_files: Value,
    /// Those of a draft model; null without one.
    pub(super) draft_files: Value,
    pub(super) problems: &'a Problems,
    pub(super) params: &'a SamplingParams,
    pub(super) decoding: &'a Decoding,
    /// Whether prompts are turns of a chat.
    pub(super) chat: bool,
    /// That runs what the model wrote.
    pub(super) judge: Option<&'a Judge>,
}

/// The manifest of a run.
pub(super) fn manifest(facts: &Facts<'_>) -> Result<Value, Failure> {
    let Facts { args, llm, problems, .. } = facts;
    let (model, own) = (llm.model(), llm.facts());
    let options = args.load.options()?;
    let backend = match (options.backend, model.device().is_cpu()) {
        (Backend::Plain, _) | (Backend::Auto, false) => "plain",
        (Backend::Kernels, _) | (Backend::Auto, true) => "kernels",
    };
    let source = |source: &Source| json!({"file": source.name, "sha256": source.sha256, "records": source.records});
    let mut shots = Map::from_iter([("count".to_string(), json!(problems.shots.wanted))]);
    if let Some(Value::Object(source)) = problems.shots.source.as_ref().map(source) {
        shots.extend(source);
    }
    let mut manifest = json!({
        "dlmrs": env!("CARGO_PKG_VERSION"),
        "model": {
            "name": llm.name(),
            "files": facts.model_files,
            "mask_token_id": own.mask_token_id,
            "block_length": own.block_length,
            "stop_token_ids": own.stop_token_ids,
            "max_model_len": own.max_model_len,
        },
        "task": problems.task.name(),
        "data": source(&problems.source),
        "shots": shots,
        "problems": {"offset": args.offset, "count": problems.asked.len()},
        "prompt": {"chat": facts.chat, "system": args.framing.system},
        "sampling": settings::sampling(facts.params),
        "decoding": settings::decoding(facts.decoding),
        "batch": args.batch,
        "code_execution": facts.judge.map(Judge::json),
        "device": {
            "name": dlmrs::device::name(model.device()),
            "dtype": model.weights(),
            "backend": backend,
            "isa": model.team().isa().name(),
            "threads": model.team().threads(),
        },
        "host": {
            "os": std::env::consts::OS,
            "arch": std::env::consts::ARCH,
            "cpu": cpu(),
            "cores": std::thread::available_parallelism().map(usize::from).ok(),
        },
    });
    if let (Some(name), Value::Object(manifest)) = (llm.draft_name(), &mut manifest) {
        manifest.insert("draft".into(), json!({"name": name, "files": facts.draft_files}));
    }
    // As it will be read back, so that numbers compare equal.
    serde_json::from_str(&manifest.to_string()).map_err(|error| Failure::Said(format!("the manifest cannot be written: {error}")))
}

/// The processor's name, where the system tells it.
fn cpu() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

/// Refuses to go on with a run that was made otherwise.
pub(super) fn check_same(folder: &Path, old: &Value, new: &Value) -> Result<(), Failure> {
    let Some((name, was, is)) = difference("", old, new) else { return Ok(()) };
    let (was, is) = (shown(was), shown(is));
    let message = match name.as_str() {
        COUNT => format!("has {was} problems, but this one would ask {is}; --resume can only ask more"),
        _ => format!("was made with {name} {was}, but now it is {is}; --resume needs the same, or give another folder"),
    };
    Err(Failure::Said(format!("--out {}: the run there {message}", folder.display())))
}

fn shown(value: Option<&Value>) -> String {
    value.map_or("absent".into(), Value::to_string)
}

/// The first thing that differs and may not: its name, and what it was and is.
fn difference<'a>(name: &str, old: &'a Value, new: &'a Value) -> Option<(String, Option<&'a Value>, Option<&'a Value>)> {
    if old == new || FREE.contains(&name) || name == COUNT && old.as_u64() <= new.as_u64() {
        return None;
    }
    let (Value::Object(old_fields), Value::Object(new_fields)) = (old, new) else {
        return Some((name.to_string(), Some(old), Some(new)));
    };
    let inner = |key: &str| if name.is_empty() { key.to_string() } else { format!("{name}.{key}") };
    let changed = old_fields.iter().find_map(|(key, old)| match new_fields.get(key) {
        Some(new) => difference(&inner(key), old, new),
        None if FREE.contains(&inner(key).as_str()) => None,
        None => Some((inner(key), Some(old), None)),
    });
    let added = || new_fields.iter().find(|(key, _)| !old_fields.contains_key(*key) && !FREE.contains(&inner(key).as_str()));
    changed.or_else(|| added().map(|(key, new)| (inner(key), None, Some(new))))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn refused(old: Value, new: Value) -> Option<String> {
        check_same(Path::new("runs"), &old, &new).err().map(|failure| failure.message().unwrap())
    }

    #[test]
    fn what_changes_no_answer_may_differ() {
        let old = json!({"task": "a", "batch": 8, "device": {"threads": 1}, "host": {"cpu": "x"}, "problems": {"count": 5}});
        let new = json!({"task": "a", "batch": 1, "device": {"threads": 2}, "host": {"cpu": "y"}, "problems": {"count": 9}});
        assert_eq!(refused(old, new), None);
    }

    #[test]
    fn the_first_difference_is_named() {
        let message = refused(json!({"a": {"b": 1, "c": [1]}, "d": 1}), json!({"a": {"b": 1, "c": [2]}, "d": 2})).unwrap();
        assert!(message.contains("was made with a.c [1], but now it is [2]"), "{message}");
        let message = refused(json!({"a": 1}), json!({"a": 1, "b": "x"})).unwrap();
        assert!(message.contains("b absent, but now it is \"x\""), "{message}");
        let message = refused(json!({"problems": {"count": 5}}), json!({"problems": {"count": 4}})).unwrap();
        assert!(message.contains("has 5 problems, but this one would ask 4"), "{message}");
    }
}
