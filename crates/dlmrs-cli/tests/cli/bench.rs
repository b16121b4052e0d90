//! `dlmrs bench`: what it counts, in which order, and what it refuses.

use std::io::Read;
use std::time::Duration;

use serde_json::Value;

use crate::common::{PROBLEM, golden, good, objects, run};
use crate::stop::{end, interrupt, spawn};

/// The report of a quick run with these options.
fn quick(options: &[&str]) -> Value {
    let args = [&["bench", "tiny-sdar", "--quick", "--json"], options].concat();
    serde_json::from_str(&good(&args)).unwrap()
}

/// The two settings of most tests.
const TWO: [&str; 4] = ["--setting", "careful: --threshold 0.95", "--setting", "bold: --threshold 0.1"];

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

#[test]
fn json_has_the_documented_keys() {
    let report = quick(&TWO);
    let top = ["model", "version", "build", "machine", "prompt_tokens", "batch", "rounds", "complete", "settings", "differing_prompts"];
    assert_eq!(keys(&report), top);
    assert_eq!(keys(&report["machine"]), ["cpu", "system", "device", "threads", "isa", "dtype", "backend"]);
    assert_eq!((report["model"].as_str(), report["version"].as_str()), (Some("tiny-sdar"), Some(env!("CARGO_PKG_VERSION"))));
    assert_eq!((&report["rounds"], &report["complete"], &report["batch"]), (&2.into(), &true.into(), &1.into()));
    assert_eq!((&report["machine"]["dtype"], &report["machine"]["backend"]), (&"bf16".into(), &"kernels".into()));
    let [careful, bold] = report["settings"].as_array().unwrap().as_slice() else { panic!("{report}") };
    let documented = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/bench.md")).unwrap();
    for key in keys(careful).into_iter().chain(top).chain(keys(&careful["rounds"][0])).chain(keys(&careful["ratios"])) {
        assert!(documented.contains(&format!("`{key}`")), "docs/bench.md does not explain {key}");
    }
    assert_eq!((&careful["name"], &careful["options"]), (&"careful".into(), &"--threshold 0.95".into()));
    for setting in [careful, bold] {
        assert_eq!(setting["rounds"].as_array().unwrap().len(), 2);
        for round in setting["rounds"].as_array().unwrap() {
            assert_eq!(round["latency_seconds"].as_array().unwrap().len(), 2);
            // What is counted is the same every time.
            for counter in ["tokens", "passes", "rows", "scanned_rows", "revealed"] {
                assert_eq!(round["stats"][counter], setting["counters"][counter], "{counter}");
            }
            let seconds = |part: &str| round["stats"]["seconds"][part].as_f64().unwrap();
            assert!(seconds("forward") > 0.0 && seconds("scan") > 0.0 && seconds("forward") + seconds("scan") <= seconds("total"));
        }
    }
}

#[test]
fn counters_are_those_of_generate() {
    let problems = include_str!("../../../dlmrs-tasks/data/word_problems.jsonl").lines().take(3);
    let prompts = problems.map(|line| serde_json::from_str::<Value>(line).unwrap()["question"].to_string());
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), prompts.map(|question| format!("{{\"prompt\": {question}}}\n")).collect::<String>()).unwrap();
    let file = file.path().to_str().unwrap();
    for model in ["tiny-sdar", "tiny-llada"] {
        let settings = ["--max-tokens", "24", "--threshold", "0.8", "--block-length", "4"];
        let outputs = objects(&good(&[&["generate", model, "--jsonl", "--prompt-file", file, "--json"], &settings[..]].concat()));
        let setting = format!("a: {}", settings[2..].join(" "));
        let common = ["bench", model, "--quick", "--max-tokens", "24", "--json", "--setting", &setting];
        for prompts in [&["--prompts", "3"][..], &["--prompt-file", file, "--jsonl"]] {
            let report: Value = serde_json::from_str(&good(&[&common, prompts].concat())).unwrap();
            let counters = &report["settings"][0]["counters"];
            for path in [
                "/tokens",
                "/revealed",
                "/scanned_rows",
                "/passes/total",
                "/passes/denoise",
                "/rows/prefill",
                "/rows/denoise",
                "/rows/commit",
            ] {
                let sum: u64 = outputs.iter().map(|output| number(output["stats"].pointer(path).unwrap())).sum();
                assert_eq!(number(counters.pointer(path).unwrap()), sum, "{model} {prompts:?} {path}");
            }
            // Alone, every forward is one request's pass; guidance would make two of them.
            assert_eq!(report["settings"][0]["forwards"], counters["passes"]["total"]);
        }
    }
}

#[test]
fn every_setting_comes_first_in_turn() {
    let report = quick(&["--rounds", "4", "--prompts", "1", "--setting", "a:", "--setting", "b:", "--setting", "c:"]);
    let places = |setting: usize| {
        let rounds = report["settings"][setting]["rounds"].as_array().unwrap();
        rounds.iter().map(|round| number(&round["place"])).collect::<Vec<_>>()
    };
    assert_eq!([places(0), places(1), places(2)], [[0, 2, 1, 0], [1, 0, 2, 1], [2, 1, 0, 2]]);
}

#[test]
fn the_baseline_is_as_fast_as_itself() {
    let report = quick(&TWO);
    for ratio in ["tokens_per_second", "revealed_per_second", "ms_per_pass", "seconds"] {
        let own = &report["settings"][0]["ratios"][ratio];
        assert_eq!((own["median"].as_f64(), own["lowest"].as_f64(), own["highest"].as_f64()), (Some(1.0), Some(1.0), Some(1.0)), "{ratio}");
        let other = &report["settings"][1]["ratios"][ratio];
        let value = |key: &str| other[key].as_f64().unwrap();
        assert!(0.0 < value("lowest") && value("lowest") <= value("median") && value("median") <= value("highest"), "{other}");
    }
    // The ratio is taken round by round.
    let per_second = |setting: usize, round: usize| {
        let stats = &report["settings"][setting]["rounds"][round]["stats"];
        stats["tokens"].as_f64().unwrap() / stats["seconds"]["total"].as_f64().unwrap()
    };
    let quotients = [0, 1].map(|round| per_second(1, round) / per_second(0, round));
    let median = report["settings"][1]["ratios"]["tokens_per_second"]["median"].as_f64().unwrap();
    assert!((median - (quotients[0] + quotients[1]) / 2.0).abs() < 1e-9 * median, "{median} {quotients:?}");
}

#[test]
fn equal_outputs_are_told() {
    let same = "same: --strategy low_confidence_dynamic";
    let drawn = "drawn: --temperature 2";
    let report =
        quick(&["--setting", "own:", "--setting", drawn, "--setting", same, "--setting", "again: --temperature 2.0", "--rounds", "1"]);
    let same_as: Vec<_> = report["settings"].as_array().unwrap().iter().map(|setting| setting["same_outputs_as"].as_str()).collect();
    assert_eq!(same_as, [None, None, Some("own"), Some("drawn")]);
    assert_eq!(report["differing_prompts"].as_array().unwrap().len(), 6);
    for pair in report["differing_prompts"].as_array().unwrap() {
        let names = [&pair["settings"][0], &pair["settings"][1]];
        let equal = names == ["own", "same"] || names == ["drawn", "again"];
        assert_eq!(number(&pair["prompts"]) == 0, equal, "{pair}");
    }
    let text = good(&["bench", "tiny-sdar", "--quick", "--setting", "own:", "--setting", drawn, "--setting", same]);
    assert!(text.contains("\ndrawn: 2 of 2 prompts differ from own\nsame: token-identical to own\n"), "{text}");
}

#[test]
fn requests_together_give_the_same_in_fewer_forwards() {
    let options = ["--prompts", "4", "--rounds", "1"];
    let (alone, together) = (quick(&options), quick(&[&options[..], &["--batch", "4"]].concat()));
    let (alone, together) = (&alone["settings"][0], &together["settings"][0]);
    assert_eq!(alone["counters"], together["counters"]);
    assert!(number(&together["forwards"]) < number(&alone["forwards"]), "{together}");
    // Requests that share forwards share their time, and the turn has it once.
    let seconds = |part: &str| together["rounds"][0]["stats"]["seconds"][part].as_f64().unwrap();
    assert!(seconds("forward") + seconds("scan") <= seconds("total"));
}

#[test]
fn a_forced_length_is_exact() {
    let report =
        quick(&["--ignore-eos", "--max-tokens", "70", "--prompts", "3", "--setting", "own:", "--setting", "short: --max-tokens 33"]);
    assert_eq!(report["settings"][0]["counters"]["tokens"], 3 * 70);
    assert_eq!(report["settings"][1]["counters"]["tokens"], 3 * 33);
}

#[test]
fn random_prompts_need_no_tokenizer() {
    let model = golden("sdar");
    let args = ["bench", &model, "--mask-token-id", "317", "--quick", "--json"];
    let refused = run(&args);
    assert!(refused.err.contains("sdar has no tokenizer; give --prompt-tokens N"), "{}", refused.err);
    let report: Value = serde_json::from_str(&good(&[&args[..], &["--prompt-tokens", "9", "--prompts", "3"]].concat())).unwrap();
    assert_eq!(report["prompt_tokens"], serde_json::json!([9, 9, 9]));
    assert_eq!(quick(&["--prompt-tokens", "6"])["prompt_tokens"], serde_json::json!([6, 6]));
}

/// A stop id that comes at once: passes without tokens.
#[test]
fn no_tokens_are_no_division_by_zero() {
    let output = objects(&good(&["generate", "tiny-sdar", PROBLEM, "--json"])).remove(0);
    let first = output["token_ids"][0].to_string();
    let report = quick(&["--stop-token-id", &first, "--prompts", "1"]);
    let setting = &report["settings"][0];
    assert_eq!((&setting["counters"]["tokens"], &setting["tokens_per_second"]), (&0.into(), &0.0.into()));
    assert_eq!(setting["ratios"]["tokens_per_second"], Value::Null);
    assert_eq!(setting["ratios"]["seconds"]["median"], 1.0);
    let text = good(&["bench", "tiny-sdar", "--quick", "--stop-token-id", &first, "--prompts", "1"]);
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
}

#[test]
fn a_quick_run_prints_a_table() {
    let text = good(&[&["bench", "tiny-sdar", "--quick"], &TWO[..]].concat());
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("tiny-sdar: 2 prompts of ") && lines[0].ends_with("1 together, 2 rounds after a warm-up"), "{text}");
    let widths = |from: usize| lines[from..from + 3].iter().map(|line| line.len()).collect::<Vec<_>>();
    assert!(lines[4].starts_with("medians ") && lines[5].starts_with("careful ") && lines[6].starts_with("bold "), "{text}");
    assert!(lines[8].starts_with("counted ") && widths(4).iter().all(|width| *width == widths(4)[0]), "{text}");
    // A narrow terminal's width changes nothing.
    assert_eq!(good(&["bench", "tiny-sdar", "--quick"]).lines().count(), 3 + 1 + 2 + 1 + 2);
}

fn refused(options: &[&str], wanted: &str) {
    let args = [&["bench", "tiny-sdar", "--quick"], options].concat();
    let run = run(&args);
    assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{args:?}: {}", run.err);
    assert!(run.err.starts_with("dlmrs: error: ") && run.err.lines().count() == 1, "{args:?}: {}", run.err);
    assert!(run.err.contains(wanted), "{args:?}: {}", run.err);
}

#[test]
fn wrong_settings_are_named() {
    let setting = |text: &str, wanted: &str| refused(&["--setting", "good:", "--setting", text], wanted);
    setting(
        "fast: --treshold 0.5",
        "setting \"fast\": unexpected argument '--treshold' found; tip: a similar argument exists: '--threshold'",
    );
    setting("fast: --threshold high", "setting \"fast\": invalid value 'high' for '--threshold <P>'");
    setting("fast: --threshold", "setting \"fast\": a value is required for '--threshold <P>'");
    setting("fast: 8", "setting \"fast\": unexpected argument '8'");
    setting("fast: --help", "setting \"fast\": unexpected argument '--help'");
    setting("fast: --stop \"a", "setting \"fast\": missing closing quote");
    setting("fast: --cfg-scale 1", "setting \"fast\": --cfg-scale belongs to canvas diffusion");
    setting("fast: --temperature -1", "setting \"fast\": temperature: is -1");
    setting("fast: --max-tokens 0", "setting \"fast\": max_tokens: is 0");
    setting("fast: --max-tokens 4000", "setting \"fast\": prompt: has ");
    setting("--threshold 0.5", "--setting: \"--threshold 0.5\" has no name");
    setting(": --threshold 0.5", "has no name");
    setting("good: --threshold 0.5", "--setting: two are named \"good\"");
    setting("a\u{1b}[31m:", "has a control character");
}

#[test]
fn wrong_prompts_are_refused() {
    refused(&["--prompts", "21"], "--prompts: is 21, but the word problems that come with dlmrs are 20");
    refused(&["--prompt-tokens", "2100"], "--prompt-tokens: is 2100, but the model takes at most 2048");
    refused(&["--prompt-tokens", "2040"], "together 2056, but the model takes at most 2048");
    refused(&["--prompt-tokens", "2", "--prompts", "10001"], "--prompts: is 10001, but random prompts are at most 10000");
    refused(&["--prompt-file", "no/such/file"], "cannot read no/such/file");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "{\"prompt\": [640]}\n").unwrap();
    let path = file.path().to_str().unwrap();
    refused(&["--prompt-file", path, "--jsonl", "--prompts", "2"], "--prompts: is 2, but the prompts in the files are 1");
    refused(&["--prompt-file", path, "--jsonl"], &format!("setting \"default\": line 1 of {path}: prompt: holds the id 640"));
    for wrong in [&["--rounds", "0"][..], &["--jsonl"], &["--prompt-tokens", "3", "--prompt-file", path]] {
        assert_eq!(run(&[&["bench", "tiny-sdar"], wrong].concat()).code, Some(2), "{wrong:?}");
    }
    assert!(good(&["bench", "--help"]).contains("Examples:\n  dlmrs bench "));
}

/// What is complete is printed. How long a round takes nobody knows, so the patience grows.
#[cfg(unix)]
#[test]
fn ctrl_c_prints_what_is_complete() {
    for patience in [1, 5, 20, 60] {
        let mut child = spawn(&["bench", "tiny-sdar", "--rounds", "1000000000", "--json"]);
        let mut out = child.stdout.take().unwrap();
        // A thread of its own, for there may be more than a pipe holds.
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            out.read_to_string(&mut text).unwrap();
            text
        });
        std::thread::sleep(Duration::from_secs(patience));
        interrupt(&child);
        assert_eq!(end(child), (Some(130), String::new()));
        if let Ok(report) = serde_json::from_str::<Value>(&reader.join().unwrap()) {
            assert_eq!(report["complete"], false);
            let rounds = report["settings"][0]["rounds"].as_array().unwrap().len();
            assert!(rounds > 0 && report["rounds"] == rounds, "{}", report["rounds"]);
            return;
        }
    }
    panic!("not one round was complete");
}

#[test]
fn kernels_are_measured_without_a_model() {
    let report: Value = serde_json::from_str(&good(&["bench", "--kernels", "--quick", "--json", "--threads", "1"])).unwrap();
    let levels = report["levels"].as_array().unwrap();
    assert_eq!((&report["threads"], &levels[0]), (&1.into(), &"scalar".into()));
    let cells = report["cells"].as_array().unwrap();
    // Six types of weights by two numbers of rows at every level.
    assert_eq!(cells.len(), 6 * 2 * levels.len());
    for cell in cells {
        assert!(cell["ms"].as_f64().unwrap() > 0.0 && cell["over_floor"].as_f64().unwrap() > 0.0, "{cell}");
    }
    let table = good(&["bench", "--kernels", "--quick"]);
    assert!(table.contains("int4-128") && table.lines().count() == 2 + 6 * levels.len(), "{table}");
}

#[test]
fn kernels_have_no_model_and_no_settings() {
    for args in [
        &["bench"][..],
        &["bench", "tiny-sdar", "--kernels"],
        &["bench", "--kernels", "--batch", "2"],
        &["bench", "--kernels", "--dtype", "f32"],
    ] {
        let refused = run(args);
        assert_eq!((refused.code, refused.out.as_str()), (Some(2), ""), "{args:?}: {}", refused.err);
    }
}
