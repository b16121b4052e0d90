//! Two runs side by side.

use serde_json::{Value, json};

use super::{file, lines, near, records, text};
use crate::common::{good, run};

/// Six problems with hand-made outcomes: the other run is right where `right` says so, takes twice the seconds and the passes.
fn other(run: &std::path::Path, right: [bool; 6]) -> Vec<Value> {
    let mut lines = lines(run);
    for (line, right) in lines.iter_mut().zip(right) {
        line["scores"]["exact_match"] = json!(right);
        line["seconds"] = json!(2.0 * line["seconds"].as_f64().unwrap());
        line["passes"]["denoise"] = json!(2 * line["passes"]["denoise"].as_u64().unwrap());
    }
    lines
}

const RUN: [&str; 4] = ["eval", "tiny-sdar", "--limit", "6"];

#[test]
fn counts_ratios_and_how_sure_they_are() {
    let base = tempfile::tempdir().unwrap();
    let first: Value = serde_json::from_str(&good(&[&RUN[..], &["--out", text(base.path()), "--json"]].concat())).unwrap();
    let own: Vec<bool> = lines(base.path()).iter().map(|line| line["scores"]["exact_match"].as_bool().unwrap()).collect();
    // Wrong everywhere: then all that is right here is right only here.
    let wrong = file(other(base.path(), [false; 6]));
    let said = good(&[&RUN[..], &["--json", "--against", text(wrong.path())]].concat());
    let against = serde_json::from_str::<Value>(&said).unwrap()["against"].clone();
    let accuracy = &against["accuracy"]["exact_match"];
    let right = own.iter().filter(|right| **right).count() as u64;
    assert!(right > 1);
    assert_eq!(against["problems"], 6);
    assert_eq!(accuracy["here"], first["accuracy"]["exact_match"]["share"]);
    assert_eq!((accuracy["there"].as_f64(), accuracy["here_only"].as_u64()), (Some(0.0), Some(right)));
    assert_eq!([&accuracy["both"], &accuracy["there_only"]], [0, 0]);
    assert_eq!(accuracy["neither"], 6 - right);
    // Twice the chance of as many heads in a row.
    near(&accuracy["p"], 2.0 * 0.5f64.powi(right as i32));
    near(&against["tokens_per_pass"]["ratio"], 2.0);
    let seconds = &against["seconds"];
    near(&seconds["ratio"], seconds["here"].as_f64().unwrap() / seconds["there"].as_f64().unwrap());
}

#[test]
fn the_same_run_does_not_differ() {
    let base = tempfile::tempdir().unwrap();
    good(&[&RUN[..], &["--out", text(base.path())]].concat());
    let said = good(&["eval", "tiny-sdar", "--limit", "8", "--against", text(base.path())]);
    let (own, comparison) = said.split_once("\n\nagainst ").unwrap();
    assert!(own.starts_with("tiny-sdar on word_problems, 8 problems\n"), "{said}");
    assert!(comparison.contains(", 6 problems in both\n"), "{said}");
    assert!(comparison.contains("2 that only this run has, 0 that only the other has"), "{said}");
    assert!(comparison.contains("only here 0, only there 0") && comparison.contains("McNemar's p 1.000"), "{said}");
    assert!(comparison.lines().any(|line| line.starts_with("tokens a pass") && line.ends_with(", 1.00 times")), "{said}");
}

#[test]
fn other_problems_are_refused() {
    let base = tempfile::tempdir().unwrap();
    good(&[&RUN[..], &["--out", text(base.path())]].concat());
    let refused = |options: &[&str], wanted: &str| {
        let run = run(&[&["eval", "tiny-sdar"], options].concat());
        assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{options:?}");
        assert!(run.err.contains(wanted) && run.err.lines().count() == 1, "{}", run.err);
    };
    let data = file(records(7));
    let base_path = text(base.path());
    refused(&["--data", text(data.path()), "--against", base_path], "was run on other data (sha256 ");
    refused(&["--offset", "6", "--limit", "2", "--against", base_path], "has none of the problems that are asked here");
    refused(&["--limit", "1", "--against", "no/such/run"], "cannot read no/such/run");
    // Results alone are known by their prompts.
    let alone = tempfile::tempdir().unwrap();
    let copy = alone.path().join("results.jsonl");
    std::fs::copy(base.path().join("results.jsonl"), &copy).unwrap();
    let turned = file(records(7).into_iter().rev());
    refused(&["--data", text(turned.path()), "--against", text(&copy)], "has another prompt, and there is no manifest.json");
    good(&["eval", "tiny-sdar", "--data", text(data.path()), "--against", text(&copy)]);
    refused(&["--task", "gsm8k", "--shots", "0", "--data", text(data.path()), "--against", text(&copy)], "has another prompt");
}
