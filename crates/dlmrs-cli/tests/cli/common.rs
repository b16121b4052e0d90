//! Running the binary.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// A problem that the bundled models solve.
pub(crate) const PROBLEM: &str = "Hugo buys 6 beads for 2 dollars each and 7 marbles for 5 dollars each. How much does Hugo spend?";

/// What `tiny-sdar` answers.
pub(crate) const ANSWER: &str = "The beads cost 6 * 2 = 12. The marbles cost 7 * 5 = 35. Together that is 12 + 35 = 47. #### 47";

/// The golden checkpoints: random weights and no tokenizer.
pub(crate) fn golden(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name);
    path.display().to_string()
}

/// The binary, away from the user's settings.
pub(crate) fn dlmrs(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dlmrs"));
    command.args(args).env_remove("NO_COLOR").env("TERM", "xterm").stdin(Stdio::null());
    command
}

/// What a run left behind.
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

pub(crate) fn run(args: &[&str]) -> Run {
    dlmrs(args).output().unwrap().into()
}

pub(crate) fn run_with_input(args: &[&str], input: &[u8]) -> Run {
    let mut child = dlmrs(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A command that fails early does not read it.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap().into()
}

/// A run that ends well and has nothing to say but its results.
pub(crate) fn good(args: &[&str]) -> String {
    let run = run(args);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{args:?}");
    run.out
}

/// The JSON objects, one a line.
pub(crate) fn objects(out: &str) -> Vec<Value> {
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A folder with the model `tiny-sdar` and this chat template, or none.
pub(crate) fn sdar_with_template(template: Option<&str>) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let bundled = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../dlmrs/bundled/tiny-sdar");
    for file in ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(bundled.join(file), folder.path().join(file)).unwrap();
    }
    let path = folder.path().join("tokenizer_config.json");
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    config["chat_template"] = template.map_or(Value::Null, Value::from);
    std::fs::write(&path, config.to_string()).unwrap();
    folder
}
