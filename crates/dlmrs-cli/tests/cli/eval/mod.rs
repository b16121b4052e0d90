//! `dlmrs eval`.

mod against;
mod folder;
mod refused;
mod resume;
mod scores;

use std::path::Path;

use serde_json::Value;

use crate::common::objects;

/// The records of the built-in word problems, in order.
fn records(count: usize) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dlmrs-tasks/data/word_problems.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().take(count).map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A file of these lines.
fn file(lines: impl IntoIterator<Item = impl std::fmt::Display>) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new().suffix(".jsonl").tempfile().unwrap();
    let text: String = lines.into_iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(file.path(), text).unwrap();
    file
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The lines of a run.
fn lines(folder: &Path) -> Vec<Value> {
    objects(&std::fs::read_to_string(folder.join("results.jsonl")).unwrap())
}

/// The lines of a run without what no two runs share.
fn timeless(folder: &Path) -> Vec<Value> {
    let mut lines = lines(folder);
    for line in &mut lines {
        for field in ["seconds", "wall_seconds"] {
            assert!(line.as_object_mut().unwrap().remove(field).unwrap().as_f64().unwrap() >= 0.0);
        }
    }
    lines
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Numbers that went through JSON may differ in the last bit.
#[track_caller]
fn near(found: &Value, wanted: f64) {
    let found = found.as_f64().unwrap();
    assert!((found - wanted).abs() <= 1e-12 * wanted.abs(), "{found} is not {wanted}");
}
