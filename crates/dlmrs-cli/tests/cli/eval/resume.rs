//! Runs that end early, and go on.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::{json, lines, near, text, timeless};
use crate::common::{dlmrs, good, run};

/// Far more than anything here takes on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Slow enough to be caught in the middle: every token of a canvas costs a pass.
const SLOW: [&str; 4] = ["eval", "tiny-llada", "--limit", "10"];

fn to<'a>(out: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    [&SLOW[..], &["--out", text(out)], more].concat()
}

/// A run that is in the middle: some lines are there, others are to come.
fn in_the_middle(out: &Path) -> Child {
    let mut child = dlmrs(&to(out, &["--batch", "2"])).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let results = out.join("results.jsonl");
    let started = Instant::now();
    while std::fs::read(&results).map_or(0, |bytes| bytes.iter().filter(|byte| **byte == b'\n').count()) < 2 {
        assert!(child.try_wait().unwrap().is_none(), "the run ended before it could be caught");
        assert!(started.elapsed() < PATIENCE, "no line came");
        std::thread::sleep(Duration::from_millis(2));
    }
    child
}

fn whole() -> tempfile::TempDir {
    let out = tempfile::tempdir().unwrap();
    good(&to(out.path(), &[]));
    out
}

#[test]
fn a_killed_run_goes_on_and_nobody_else_writes_meanwhile() {
    let out = tempfile::tempdir().unwrap();
    let mut child = in_the_middle(out.path());
    for more in [&[][..], &["--resume"]] {
        let second = run(&to(out.path(), more));
        assert_eq!((second.code, second.out.as_str()), (Some(1), ""));
        assert!(second.err.contains("another process is writing its results there"), "{}", second.err);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let before = std::fs::read_to_string(out.path().join("results.jsonl")).unwrap();
    assert!(before.lines().count() < 10, "the run was complete");
    assert!(!out.path().join("summary.json").exists());

    let refused = run(&to(out.path(), &[]));
    assert!(refused.err.contains("is not empty; --resume goes on"), "{}", refused.err);
    good(&to(out.path(), &["--resume", "--batch", "3", "--threads", "1"]));
    let after = std::fs::read_to_string(out.path().join("results.jsonl")).unwrap();
    let kept = before.rsplit_once('\n').unwrap().0;
    assert!(after.starts_with(kept), "lines that were there were written anew");
    assert_eq!(timeless(out.path()), timeless(whole().path()));
}

#[cfg(unix)]
#[test]
fn ctrl_c_says_how_far_it_is() {
    let out = tempfile::tempdir().unwrap();
    let child = in_the_middle(out.path());
    assert!(std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let end = child.wait_with_output().unwrap();
    let said = String::from_utf8(end.stderr).unwrap();
    assert_eq!(end.status.code(), Some(130));
    assert_eq!(said, format!("dlmrs: {} of 10 problems are done; --resume goes on\n", lines(out.path()).len()));
}

#[test]
fn a_torn_line_is_done_again() {
    let out = tempfile::tempdir().unwrap();
    let args = ["eval", "tiny-sdar", "--limit", "5", "--out", text(out.path())];
    good(&args);
    let (wanted, summary) = (timeless(out.path()), json(&out.path().join("summary.json")));
    let path = out.path().join("results.jsonl");
    let whole = std::fs::read(&path).unwrap();
    for cut in [1, 100, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&path, &whole[..whole.len() - cut]).unwrap();
        good(&[&args[..], &["--resume"]].concat());
        assert_eq!(timeless(out.path()), wanted, "{cut} bytes cut off");
    }
    // Nothing is left to do: the same sums again.
    std::fs::write(&path, &whole).unwrap();
    std::fs::remove_file(out.path().join("summary.json")).unwrap();
    good(&[&args[..], &["--resume"]].concat());
    let again = json(&out.path().join("summary.json"));
    assert_eq!((&again["passes"], &again["accuracy"]), (&summary["passes"], &summary["accuracy"]));
    near(&again["wall_seconds"], summary["wall_seconds"].as_f64().unwrap());
}

#[test]
fn a_line_in_the_middle_that_is_none_is_not_passed_over() {
    let out = tempfile::tempdir().unwrap();
    let args = ["eval", "tiny-sdar", "--limit", "3", "--out", text(out.path()), "--resume"];
    good(&args);
    let path = out.path().join("results.jsonl");
    let lines = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = lines.lines().collect();
    std::fs::write(&path, [lines[0], "{}", lines[2], ""].join("\n")).unwrap();
    assert!(run(&args).err.contains("line 2 of "), "a line that is none");
    std::fs::write(&path, [lines[1], lines[2], ""].join("\n")).unwrap();
    let swapped = run(&args);
    assert!(swapped.err.contains("line 1 of results.jsonl is of another problem"), "{}", swapped.err);
}

#[test]
fn a_larger_limit_extends_a_run_and_nothing_else_may_differ() {
    let out = tempfile::tempdir().unwrap();
    let with = |options: &[&str]| run(&[&["eval", "tiny-sdar", "--out", text(out.path()), "--resume"], options].concat());
    assert_eq!(with(&["--limit", "3"]).code, Some(0));
    assert_eq!(with(&["--limit", "5", "--batch", "1"]).code, Some(0));
    assert_eq!(lines(out.path()).len(), 5);
    assert_eq!(json(&out.path().join("manifest.json"))["problems"]["count"], 5);
    assert_eq!(json(&out.path().join("summary.json"))["problems"], 5);
    let before = std::fs::read(out.path().join("results.jsonl")).unwrap();
    for (options, wanted) in [
        (&["--limit", "4"][..], "has 5 problems, but this one would ask 4"),
        (&["--limit", "5", "--temperature", "0.5"], "sampling.temperature 0.0, but now it is 0.5"),
        (&["--limit", "5", "--seed", "1"], "sampling.seed 0, but now it is 1"),
        (&["--limit", "5", "--strategy", "sequential"], "decoding.strategy \"low_confidence_dynamic\", but now it is \"sequential\""),
        (&["--limit", "5", "--raw"], "prompt.chat true, but now it is false"),
        (&["--limit", "5", "--offset", "1"], "problems.offset 0, but now it is 1"),
    ] {
        let refused = with(options);
        assert_eq!((refused.code, refused.out.as_str()), (Some(1), ""), "{options:?}");
        assert!(refused.err.contains(wanted), "{}", refused.err);
        assert_eq!(std::fs::read(out.path().join("results.jsonl")).unwrap(), before);
    }
    let other = run(&["eval", "tiny-sdar-draft", "--limit", "5", "--out", text(out.path()), "--resume"]);
    assert!(other.err.contains("model.name \"tiny-sdar\", but now it is \"tiny-sdar-draft\""), "{}", other.err);
}

/// A disk that is full in the middle of a line. The limit is in blocks of 512 or 1,024 bytes, as the shell has it.
#[cfg(unix)]
#[test]
fn a_full_disk_is_an_error_and_then_the_run_goes_on() {
    let out = tempfile::tempdir().unwrap();
    let args = ["eval", "tiny-sdar", "--limit", "40", "--out", text(out.path())];
    let limited = format!("trap '' XFSZ; ulimit -f 8; exec \"$0\" {}", args.join(" "));
    let full = std::process::Command::new("sh").args(["-c", &limited, env!("CARGO_BIN_EXE_dlmrs")]).output().unwrap();
    let said = String::from_utf8(full.stderr).unwrap();
    assert_eq!((full.status.code(), full.stdout.as_slice()), (Some(1), &[][..]), "{said}");
    assert!(said.contains("cannot write ") && said.contains("results.jsonl: File too large"), "{said}");
    assert!(said.contains("--resume goes on") && said.lines().count() == 1, "{said}");
    // What is there is whole.
    let done = lines(out.path()).len();
    assert!(0 < done && done < 40, "{done} lines");
    good(&[&args[..], &["--resume"]].concat());
    let whole = tempfile::tempdir().unwrap();
    good(&["eval", "tiny-sdar", "--limit", "40", "--out", text(whole.path())]);
    assert_eq!(timeless(out.path()), timeless(whole.path()));
}

#[test]
fn a_reader_that_goes_away_loses_no_result() {
    let out = tempfile::tempdir().unwrap();
    let mut child = dlmrs(&["eval", "tiny-sdar", "--limit", "3", "--out", text(out.path())]);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let end = child.wait_with_output().unwrap();
    assert_eq!((end.status.code(), end.stderr.as_slice()), (Some(0), &[][..]));
    assert_eq!((lines(out.path()).len(), json(&out.path().join("summary.json"))["problems"].as_u64()), (3, Some(3)));
}
