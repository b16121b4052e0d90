//! Answers, scores and sums.

use serde_json::{Value, json};

use super::{file, json, lines, near, records, text, timeless};
use crate::common::{good, objects, run};

#[test]
fn the_same_answers_as_generate_gives() {
    let out = tempfile::tempdir().unwrap();
    good(&["eval", "tiny-sdar", "--limit", "6", "--out", text(out.path())]);
    let prompts = file(records(6).iter().map(|record| json!({"prompt": record["question"]})));
    let answers = good(&["generate", "tiny-sdar", "--jsonl", "--prompt-file", text(prompts.path()), "--json", "--max-tokens", "96"]);
    let lines = lines(out.path());
    assert_eq!(lines.len(), 6);
    let number = |text: &Value| text.as_str().unwrap().split_once("####").map(|(_, number)| number.trim().to_string());
    for (index, ((line, answer), record)) in lines.iter().zip(objects(&answers)).zip(records(6)).enumerate() {
        assert_eq!(line["index"], index);
        assert_eq!(line["answer"], answer["text"]);
        assert_eq!(line["scores"]["exact_match"], number(&answer["text"]) == number(&record["answer"]));
        assert_eq!(line["tokens"], answer["stats"]["tokens"]);
        assert_eq!(line["passes"]["denoise"], answer["stats"]["passes"]["denoise"]);
        assert_eq!(line["rows"]["denoise"], answer["stats"]["rows"]["denoise"]);
        assert_eq!(line["finish_reason"], "stop");
        assert!(line["place"].as_str().unwrap().contains(&format!("{}", index + 1)), "{line}");
    }
    assert!(lines.iter().any(|line| line["scores"]["exact_match"] == true));
}

#[test]
fn sums_are_those_of_the_lines() {
    let out = tempfile::tempdir().unwrap();
    let said = good(&["eval", "tiny-sdar", "--limit", "9", "--offset", "3", "--json", "--out", text(out.path())]);
    let summary: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(summary, json(&out.path().join("summary.json")));
    let lines = lines(out.path());
    assert_eq!(lines.iter().map(|line| line["index"].as_u64().unwrap()).collect::<Vec<_>>(), (3..12).collect::<Vec<_>>());
    let sum = |of: &dyn Fn(&Value) -> u64| lines.iter().map(of).sum::<u64>();
    let right = sum(&|line| line["scores"]["exact_match"].as_bool().unwrap().into());
    let accuracy = &summary["accuracy"]["exact_match"];
    assert_eq!((summary["problems"].as_u64(), accuracy["right"].as_u64()), (Some(9), Some(right)));
    let [low, share, high] = ["low", "share", "high"].map(|name| accuracy[name].as_f64().unwrap());
    assert!(low < share && share <= high, "{accuracy}");
    near(&accuracy["share"], right as f64 / 9.0);
    let (tokens, passes) = (sum(&|line| line["tokens"].as_u64().unwrap()), sum(&|line| line["passes"]["denoise"].as_u64().unwrap()));
    assert_eq!((summary["tokens"].as_u64(), summary["passes"]["total"].as_u64()), (Some(tokens), Some(passes)));
    near(&summary["tokens_per_pass"], tokens as f64 / passes as f64);
    let mut seconds: Vec<f64> = lines.iter().map(|line| line["seconds"].as_f64().unwrap()).collect();
    seconds.sort_by(f64::total_cmp);
    assert_eq!((summary["seconds"]["p50"].as_f64(), summary["seconds"]["p95"].as_f64()), (Some(seconds[4]), Some(seconds[8])));
}

#[test]
fn the_text_says_what_the_json_says() {
    let said = good(&["eval", "tiny-sdar", "--limit", "4"]);
    let rows: Vec<&str> = said.lines().collect();
    assert_eq!(rows[0], "tiny-sdar on word_problems, 4 problems");
    assert!(rows[1].starts_with("exact_match     ") && rows[1].contains(" right; with 95 %"), "{said}");
    for (row, name) in rows[2..].iter().zip(["seconds", "tokens", "passes", "rows"]) {
        assert!(row.starts_with(name), "{said}");
    }
    assert_eq!(rows.len(), 6);
}

#[test]
fn a_batch_and_threads_change_nothing() {
    let run = |options: &[&str]| {
        let out = tempfile::tempdir().unwrap();
        good(&[&["eval", "tiny-sdar", "--limit", "10", "--temperature", "0.8", "--out", text(out.path())], options].concat());
        timeless(out.path())
    };
    let one = run(&["--batch", "1", "--threads", "1"]);
    assert_eq!(one, run(&["--batch", "8"]));
    assert_ne!(one, run(&["--batch", "8", "--seed", "1"]));
}

/// Every problem has a seed of its own, with which `generate` gives the same.
#[test]
fn a_line_tells_its_seed() {
    let out = tempfile::tempdir().unwrap();
    good(&["eval", "tiny-sdar", "--limit", "2", "--offset", "1", "--temperature", "0.9", "--seed", "7", "--out", text(out.path())]);
    for (line, record) in lines(out.path()).iter().zip(&records(3)[1..]) {
        let seed = line["seed"].as_u64().unwrap();
        assert_eq!(seed, 7 + line["index"].as_u64().unwrap());
        let question = record["question"].as_str().unwrap();
        let args = ["generate", "tiny-sdar", question, "--temperature", "0.9", "--max-tokens", "96", "--seed", &seed.to_string()];
        assert_eq!(good(&args).trim_end_matches('\n'), line["answer"]);
    }
}

#[test]
fn data_of_ones_own_are_word_problems_if_they_look_so() {
    let out = tempfile::tempdir().unwrap();
    let data = file(records(3).into_iter().enumerate().map(|(index, mut record)| {
        record["id"] = json!(format!("p{index}"));
        record
    }));
    good(&["eval", "tiny-sdar", "--data", text(data.path()), "--out", text(out.path())]);
    let lines = lines(out.path());
    assert_eq!(lines.iter().map(|line| line["id"].as_str().unwrap()).collect::<Vec<_>>(), ["p0", "p1", "p2"]);
    assert!(lines[2]["place"].as_str().unwrap().contains("line 3"), "{}", lines[2]);
    let manifest = json(&out.path().join("manifest.json"));
    assert_eq!((manifest["task"].as_str(), manifest["data"]["records"].as_u64()), (Some("word_problems"), Some(3)));
}

#[test]
fn worked_examples_stand_before_the_question() {
    let (data, train) = (file(records(4)), file(records(8).split_off(4)));
    let hashes = |options: &[&str]| {
        let out = tempfile::tempdir().unwrap();
        let args = ["eval", "tiny-sdar", "--task", "gsm8k", "--data", text(data.path()), "--out", text(out.path()), "--max-tokens", "8"];
        good(&[&args[..], options].concat());
        let manifest = json(&out.path().join("manifest.json"));
        (lines(out.path()).iter().map(|line| line["prompt_sha256"].clone()).collect::<Vec<_>>(), manifest)
    };
    let (none, manifest) = hashes(&["--shots", "0"]);
    assert_eq!(manifest["shots"], json!({"count": 0}));
    assert_eq!(none.len(), 4);
    let (two, manifest) = hashes(&["--shots", "2", "--shots-data", text(train.path())]);
    assert_eq!((manifest["shots"]["count"].as_u64(), manifest["shots"]["records"].as_u64()), (Some(2), Some(4)));
    let (own, _) = hashes(&["--shots", "2", "--shots-data", text(data.path()), "--offset", "2"]);
    assert!(none.iter().zip(&two).all(|(a, b)| a != b));
    assert_eq!(own.len(), 2);
}

#[test]
fn the_manifest_names_the_draft_and_its_settings() {
    let manifest = |options: &[&str]| {
        let out = tempfile::tempdir().unwrap();
        good(&[&["eval", "tiny-sdar", "--limit", "2", "--max-tokens", "40", "--out", text(out.path())], options].concat());
        json(&out.path().join("manifest.json"))
    };
    let found =
        manifest(&["--draft", "tiny-sdar-draft", "--method", "simsd", "--gamma", "3", "--layout", "no_leak", "--accept", "rejection"]);
    assert_eq!(found["draft"]["name"], "tiny-sdar-draft");
    assert_eq!(found["draft"]["files"]["model.safetensors"].as_str().unwrap().len(), 64);
    let decoding = &found["decoding"];
    assert_eq!((decoding["method"].as_str(), decoding["strategy"].as_str()), (Some("SimSD"), Some("low_confidence_dynamic")));
    assert_eq!((decoding["gamma"].as_u64(), decoding["layout"].as_str()), (Some(3), Some("no_leak")));
    let found = manifest(&["--method", "lookahead", "--max-rows", "40"]);
    assert!(found.get("draft").is_none());
    assert_eq!((found["decoding"]["method"].as_str(), found["decoding"]["max_rows"].as_u64()), (Some("Lookahead"), Some(40)));
    let out = tempfile::tempdir().unwrap();
    let canvas =
        ["eval", "tiny-llada", "--limit", "1", "--max-tokens", "32", "--method", "lookahead", "--cache", "dual", "--max-rows", "off"];
    good(&[&canvas[..], &["--out", text(out.path())]].concat());
    let found = json(&out.path().join("manifest.json"));
    assert_eq!((found["decoding"]["method"].as_str(), found["decoding"]["cache"].as_str()), (Some("Lookahead"), Some("dual")));
    assert_eq!((found["decoding"]["max_rows"].as_str(), found["decoding"].get("blocks")), (Some("off"), None));
    let found = manifest(&["--method", "s2d2", "--hysteresis", "0.5", "-1"]);
    assert_eq!((found["decoding"]["policy"].as_str(), found["decoding"]["score_off"].as_f64()), (Some("hysteresis"), Some(-1.0)));
}

#[test]
fn the_manifest_says_how_it_was_done() {
    let out = tempfile::tempdir().unwrap();
    let options = ["--raw", "--threshold", "0.9", "--top-p", "0.95", "--stop", "\n", "--max-tokens", "40", "--threads", "1", "--seed", "3"];
    good(&[&["eval", "tiny-llada", "--limit", "1", "--out", text(out.path())], &options[..]].concat());
    let manifest = json(&out.path().join("manifest.json"));
    assert_eq!(manifest["model"]["name"], "tiny-llada");
    assert_eq!(manifest["model"]["files"]["model.safetensors"].as_str().unwrap().len(), 64);
    assert_eq!(manifest["decoding"]["method"], "Canvas");
    assert_eq!(manifest["decoding"]["threshold"], 0.9);
    let sampling = &manifest["sampling"];
    assert_eq!((sampling["top_p"].as_f64(), sampling["max_tokens"].as_u64(), sampling["seed"].as_u64()), (Some(0.95), Some(40), Some(3)));
    assert_eq!(sampling["stop"], json!(["\n"]));
    assert_eq!(manifest["prompt"], json!({"chat": false, "system": null}));
    assert_eq!((manifest["device"]["name"].as_str(), manifest["device"]["threads"].as_u64()), (Some("cpu"), Some(1)));
    assert_eq!((&manifest["decoding"]["cache"], &manifest["decoding"]["suffix"]), (&"none".into(), &"off".into()));
    assert_eq!((&manifest["decoding"]["refresh"], &manifest["decoding"]["early_stop"]), (&"block".into(), &"strict".into()));
    // A folder on disk has the same sums as the same model inside the binary.
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../dlmrs/bundled/tiny-llada");
    let disk = tempfile::tempdir().unwrap();
    good(&[&["eval", text(&folder), "--limit", "1", "--out", text(disk.path())], &options[..]].concat());
    assert_eq!(json(&disk.path().join("manifest.json"))["model"], manifest["model"]);
}

#[test]
fn the_manifest_knows_caches_and_policies() {
    let out = tempfile::tempdir().unwrap();
    let options = ["--cache", "dual", "--refresh", "2", "--suffix", "gaussian:window=32,k=3,a=1.6", "--factor", "1", "--max-reveals", "4"];
    let ends = ["--early-stop", "compat", "--max-tokens", "64"];
    good(&[&["eval", "tiny-llada", "--limit", "1", "--out", text(out.path())], &options[..], &ends].concat());
    let decoding = &json(&out.path().join("manifest.json"))["decoding"];
    let wanted = [
        ("cache", json!("dual")),
        ("refresh", json!("2")),
        ("suffix", json!("gaussian:window=32,k=3,a=1.6")),
        ("factor", json!(1.0)),
        ("factor_compat", json!(false)),
        ("max_reveals", json!(4)),
        ("early_stop", json!("compat")),
    ];
    for (name, value) in wanted {
        assert_eq!(decoding[name], value, "{name}");
    }
}

#[test]
fn a_problem_without_an_answer_is_recorded_and_counts_as_wrong() {
    let out = tempfile::tempdir().unwrap();
    let args = ["eval", "tiny-llada", "--limit", "3", "--max-tokens", "4", "--cfg-scale", "3e38", "--json", "--out", text(out.path())];
    let run = run(&args);
    let lines = lines(out.path());
    assert_eq!(lines.len(), 3);
    for (index, line) in lines.iter().enumerate() {
        assert_eq!((line["index"].as_u64(), line["finish_reason"].as_str()), (Some(index as u64), Some("error")));
        assert_eq!(line["scores"], json!({"exact_match": false}));
        assert!(line["error"].as_str().unwrap().contains("cfg_scale"), "{line}");
    }
    let summary: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((summary["errors"].as_u64(), summary["accuracy"]["exact_match"]["right"].as_u64()), (Some(3), Some(0)));
    let said: Vec<&str> = run.err.lines().collect();
    assert!(said[2].starts_with("dlmrs: warning: line 3 of ") && said[2].contains("no answer, which counts as wrong"), "{said:?}");
    // A run with no answer at all is a failure.
    assert!(said[3].starts_with("dlmrs: error: no problem got an answer"), "{said:?}");
    assert_eq!((run.code, said.len()), (Some(1), 4));
}

/// The tiny models write no programs; what is tested is that an answer gets to the judge, and what the manifest says of it.
#[test]
fn programs_are_judged_where_that_is_allowed() {
    let out = tempfile::tempdir().unwrap();
    let record = json!({
        "task_id": "HumanEval/0",
        "prompt": "def one():\n",
        "canonical_solution": "    return 1\n",
        "test": "def check(one):\n    assert one() == 1\n",
        "entry_point": "one",
    });
    let data = file([record]);
    let args = ["eval", "tiny-sdar", "--task", "humaneval", "--data", text(data.path()), "--max-tokens", "8", "--allow-code-execution"];
    let run = run(&[&args[..], &["--out", text(out.path())]].concat());
    assert_eq!(run.code, Some(0), "{}", run.err);
    let line = &lines(out.path())[0];
    assert_eq!((line["id"].as_str(), &line["scores"]), (Some("HumanEval/0"), &json!({"pass@1": false})));
    let judge = &json(&out.path().join("manifest.json"))["code_execution"];
    assert!(["python", "files", "processes"].iter().all(|name| !judge[name].as_str().unwrap().is_empty()), "{judge}");
}

#[test]
fn tasks_are_listed() {
    let said = good(&["eval", "--list-tasks"]);
    assert!(said.starts_with("word_problems\n    ") && said.contains("\ngsm8k\n"), "{said}");
    assert!(run(&["eval", "--help"]).out.contains("Examples:\n  dlmrs eval "));
}
