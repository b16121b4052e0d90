//! What cannot be asked is said before the first problem is.

use serde_json::json;

use super::{file, records, text};
use crate::common::run;

/// Runs into a failure that is told once, and leaves no folder behind.
fn fails(options: &[&str], wanted: &[&str]) {
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("out");
    let run = run(&[&["eval", "tiny-sdar", "--out", text(&out)], options].concat());
    assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{options:?}: {}", run.err);
    assert!(run.err.starts_with("dlmrs: error: ") && run.err.lines().count() == 1, "{options:?}: {}", run.err);
    for part in wanted {
        assert!(run.err.contains(part), "{part:?} for {options:?}: {}", run.err);
    }
    assert!(!out.exists(), "{options:?} left a folder");
}

#[test]
fn tasks_and_their_data() {
    fails(&["--task", "gms8k"], &["\"gms8k\" is not known", "gsm8k"]);
    fails(&["--task", "gsm8k", "--shots", "0"], &["gsm8k", "--data", "grade-school-math"]);
    fails(&["--data", "no/such/file"], &["no/such/file", "No such file"]);
    fails(&["--data", text(&std::env::temp_dir())], &["not a regular file"]);
    if cfg!(not(feature = "hub")) {
        fails(&["--data", "hub:openai/gsm8k/main/test.parquet"], &["hub:openai/gsm8k/main/test.parquet", "feature 'hub'"]);
    }
    let other = file([json!({"prompt": "a"})]);
    fails(&["--data", text(other.path())], &["line 1", "\"question\" and \"answer\"", "--task"]);
}

#[test]
fn wrong_records() {
    fails(&["--data", text(file([""; 0]).path())], &["has no records"]);
    let whole = records(1).remove(0).to_string();
    let missing = file([whole.as_str(), r#"{"question": "a"}"#]);
    fails(&["--task", "word_problems", "--data", text(missing.path())], &["line 2", "\"answer\""]);
    let torn = file([whole.as_str(), "{"]);
    fails(&["--task", "word_problems", "--data", text(torn.path())], &["line 2"]);
    fails(&["--offset", "1000"], &["--offset is 1000", "1000 records"]);
    // The last prompt is checked before the first is answered.
    let mut long = records(2);
    long[1]["question"] = json!("beads and marbles ".repeat(1000));
    fails(&["--data", text(file(long).path())], &["line 2", "the model takes at most 2048"]);
}

#[test]
fn worked_examples() {
    let data = file(records(5));
    let data = text(data.path());
    fails(&["--shots", "2"], &["--shots 2 needs worked examples", "--shots-data"]);
    fails(&["--task", "gsm8k", "--data", data], &["gsm8k is asked with", &format!("--shots-data {data} --offset"), "--shots 0"]);
    fails(&["--shots", "0", "--shots-data", data], &["--shots-data has no effect"]);
    fails(&["--data", data, "--shots", "2", "--shots-data", data], &["line 1", "both a worked example and a problem", "--offset"]);
    fails(&["--shots", "6", "--shots-data", data], &["6 worked examples", "has 5 of them"]);
}

#[test]
fn programs_are_not_run_unless_that_is_allowed() {
    // Said before anything is read: the file is not there.
    fails(&["--task", "humaneval", "--data", "no/such/file"], &["humaneval", "--allow-code-execution"]);
}

#[test]
fn models_and_settings() {
    fails(&["--threshold", "nan"], &["error: threshold: is NaN"]);
    fails(&["--max-tokens", "0"], &["error: max_tokens: is 0"]);
    fails(&["--max-tokens", "5000"], &["lower max_tokens"]);
    fails(&["--top-p", "0"], &["error: top_p: is 0"]);
    fails(&["--alg", "entropy"], &["--alg belongs to canvas diffusion"]);
    fails(&["--device", "gpu"], &["device 'gpu': is unknown"]);
    let run = run(&["eval", "no/such/model"]);
    assert_eq!(run.code, Some(1));
    assert!(run.err.contains("model folder not found at no/such/model"), "{}", run.err);
}

#[test]
fn wrong_usage_is_another_code() {
    for args in [
        &["eval"][..],
        &["eval", "tiny-sdar", "--limit", "0"],
        &["eval", "tiny-sdar", "--batch", "0"],
        &["eval", "tiny-sdar", "--offset", "-1"],
        &["eval", "tiny-sdar", "--resume"],
        &["eval", "tiny-sdar", "--raw", "--chat"],
        &["eval", "tiny-sdar", "--raw", "--system", "s"],
    ] {
        let run = run(args);
        assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{args:?}");
        assert!(run.err.contains("Usage:") || run.err.contains("--help"), "{args:?}: {}", run.err);
    }
}

#[test]
fn no_file_is_left_where_nothing_is_to_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let data = file(records(1));
    let mut command = crate::common::dlmrs(&["eval", "tiny-sdar", "--data", text(data.path())]);
    assert!(command.current_dir(folder.path()).output().unwrap().status.success());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
