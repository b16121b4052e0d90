//! `dlmrs generate`: outputs.

use crate::common::{ANSWER, PROBLEM, golden, good, objects, run};

#[test]
fn solves_a_problem_the_same_way_every_time() {
    for _ in 0..2 {
        assert_eq!(good(&["generate", "tiny-sdar", PROBLEM]), format!("{ANSWER}\n"));
    }
    assert_eq!(good(&["generate", "tiny-llada", PROBLEM, "--threshold", "0.9", "--max-tokens", "64"]), format!("{ANSWER}\n"));
    assert_eq!(good(&["generate", "bundled:tiny-sdar", PROBLEM, "--chat"]), format!("{ANSWER}\n"));
}

#[test]
fn plain_candle_threads_and_batches_give_the_same() {
    for options in [["--backend", "plain"], ["--threads", "1"], ["--dtype", "f32"], ["--device", "cpu"], ["--batch", "1"]] {
        let args = [&["generate", "tiny-sdar", PROBLEM], &options[..]].concat();
        assert_eq!(good(&args), format!("{ANSWER}\n"), "{options:?}");
    }
}

#[test]
fn a_seed_fixes_what_is_drawn() {
    let with = |seed: &str| good(&["generate", "tiny-sdar", PROBLEM, "--temperature", "1.5", "--seed", seed]);
    assert_eq!(with("1"), with("1"));
    assert!((2..9).any(|seed| with(&seed.to_string()) != with("1")));
}

#[test]
fn speculation_gives_the_same_text_in_fewer_passes() {
    let passes = |options: &[&str]| {
        let found = objects(&good(&[&["generate", "tiny-sdar", PROBLEM, "--json"], options].concat())).remove(0);
        assert_eq!(found["text"], ANSWER, "{options:?}");
        (found["stats"]["passes"]["denoise"].as_u64().unwrap() + found["stats"]["passes"]["verify"].as_u64().unwrap(), found)
    };
    let canvas = |options: &[&str]| {
        let dual = ["generate", "tiny-llada", PROBLEM, "--json", "--cache", "dual", "--max-tokens", "64"];
        let found = objects(&good(&[&dual, options].concat())).remove(0);
        (
            found["text"].clone(),
            found["stats"]["passes"]["denoise"].as_u64().unwrap() + found["stats"]["passes"]["verify"].as_u64().unwrap(),
        )
    };
    let ((text, alone), (same, fewer)) = (canvas(&[]), canvas(&["--method", "lookahead", "--max-rows", "96"]));
    assert!(text == same && fewer < alone, "{alone} {fewer}");
    let (alone, plain) = passes(&[]);
    assert_eq!(plain["stats"]["speculation"]["drafted"], 0);
    let (lookahead, _) = passes(&["--method", "lookahead", "--blocks", "3"]);
    let (simsd, found) = passes(&["--method", "simsd", "--draft", "tiny-sdar-draft", "--blocks", "2", "--draft-steps", "1"]);
    assert!(lookahead < alone && simsd < alone, "{alone} {lookahead} {simsd}");
    let tally = &found["stats"]["speculation"];
    assert_eq!(tally["drafted"].as_u64().unwrap(), tally["accepted"].as_u64().unwrap() + tally["wasted"].as_u64().unwrap());
    assert!(found["stats"]["draft_passes"]["draft"].as_u64().unwrap() > 0);
    passes(&[
        "--method",
        "simsd",
        "--draft",
        "tiny-sdar",
        "--draft-device",
        "cpu",
        "--gamma",
        "2",
        "--no-own-guesses",
        "--no-alternatives",
    ]);
    passes(&["--method", "simsd", "--draft", "tiny-sdar", "--layout", "sequential", "--fallback", "target"]);
    let run = run(&["generate", "tiny-sdar", PROBLEM, "--stats", "--method", "simsd", "--draft", "tiny-sdar-draft"]);
    assert!(run.err.contains("by the draft model") && run.err.contains("guesses accepted"), "{}", run.err);
}

#[test]
fn approximate_speculation_runs() {
    let draft = ["generate", "tiny-sdar", PROBLEM, "--seed", "1", "--method", "simsd", "--draft", "tiny-sdar-draft"];
    for options in [["--layout", "paired", "--accept", "greedy"], ["--layout", "no_leak", "--accept", "rejection"]] {
        assert!(!good(&[&draft[..], &options].concat()).is_empty());
    }
    assert!(!good(&[&draft[..], &["--layout", "paired", "--accept", "greedy", "--unaligned"]].concat()).is_empty());
    let own = ["generate", "tiny-sdar", PROBLEM, "--seed", "1", "--method", "s2d2"];
    let ways: [&[&str]; 4] = [
        &["--variant", "paper", "--min-span", "2"],
        &["--variant", "exact", "--block-cache"],
        &["--score-threshold", "0", "--estimator", "soft_renyi_2_entropy", "--penalty", "0.5", "--dynamic-score"],
        &["--hysteresis", "0.9", "0.5", "--estimator", "hard_margin_threshold", "--estimator-value", "0.1"],
    ];
    for options in ways {
        assert!(!good(&[&own[..], options].concat()).is_empty(), "{options:?}");
    }
}

#[test]
fn json_tells_everything() {
    let objects = objects(&good(&["generate", "tiny-sdar", PROBLEM, "--json", "--seed", "5"]));
    let [object] = objects.as_slice() else { panic!("{objects:?}") };
    assert_eq!(object["index"], 0);
    assert_eq!(object["text"], ANSWER);
    assert_eq!(object["finish_reason"], "stop");
    assert_eq!(object["stop_cause"]["token_id"], 2);
    assert_eq!(object["seed"], 5);
    assert_eq!(object["warnings"].as_array().unwrap().len(), 0);
    let stats = &object["stats"];
    let tokens = object["token_ids"].as_array().unwrap().len();
    assert_eq!(stats["tokens"], tokens);
    let passes = |kind: &str| stats["passes"][kind].as_u64().unwrap();
    assert_eq!(passes("prefill") + passes("denoise") + passes("commit"), passes("total"));
    assert_eq!(stats["tokens_per_pass"].as_f64().unwrap(), tokens as f64 / passes("total") as f64);
    assert!(stats["rows"]["denoise"].as_u64().unwrap() > 0 && stats["seconds"]["total"].as_f64().unwrap() > 0.0);
}

#[test]
fn stops_before_a_stop_string_and_at_the_largest_length() {
    let stopped = &objects(&good(&["generate", "tiny-sdar", PROBLEM, "--stop", " The marbles", "--json"]))[0];
    assert_eq!(stopped["text"], "The beads cost 6 * 2 = 12.");
    assert_eq!(stopped["stop_cause"]["text"], " The marbles");
    let full = &objects(&good(&["generate", "tiny-sdar", PROBLEM, "--max-tokens", "7", "--json"]))[0];
    assert_eq!(full["finish_reason"], "length");
    assert_eq!(full["stop_cause"], serde_json::Value::Null);
    assert_eq!(full["token_ids"].as_array().unwrap().len(), 7);
    let long = &objects(&good(&["generate", "tiny-sdar", PROBLEM, "--ignore-eos", "--max-tokens", "80", "--json"]))[0];
    assert_eq!(long["token_ids"].as_array().unwrap().len(), 80);
}

/// The stream holds back what may become a stop string, and never what came too early to be one.
#[test]
fn stop_strings_across_blocks_and_before_the_smallest_length() {
    for (stop, smallest, wanted) in [
        ("beads", "2", "The "),
        ("beads", "3", ANSWER),
        ("12. The marbles", "0", "The beads cost 6 * 2 = "),
        ("e", "15", "The beads cost 6 * 2 = 12. The marbl"),
    ] {
        let args = ["generate", "tiny-sdar", PROBLEM, "--stop", stop, "--min-tokens", smallest];
        assert_eq!(good(&args), format!("{wanted}\n"), "{stop} {smallest}");
        assert_eq!(objects(&good(&[&args[..], &["--json"]].concat()))[0]["text"], wanted, "{stop} {smallest}");
    }
}

#[test]
fn stats_and_warnings_go_beside_the_text() {
    let run = run(&["generate", "tiny-sdar", PROBLEM, "--stats", "--block-length", "8", "--seed", "3"]);
    assert_eq!(run.code, Some(0));
    assert!(run.out.ends_with("#### 47\n"));
    let lines: Vec<_> = run.err.lines().collect();
    assert!(lines[0].starts_with("dlmrs: warning: block_length 8 differs from 4"), "{lines:?}");
    assert!(lines[1].contains(" tokens a pass, ") && lines[1].contains("seed 3, ended by token 2"), "{lines:?}");
    assert_eq!(lines.len(), 2);
}

#[test]
fn watching_changes_nothing_in_a_pipe() {
    assert_eq!(good(&["generate", "tiny-sdar", PROBLEM, "--watch"]), format!("{ANSWER}\n"));
    assert_eq!(good(&["generate", "tiny-llada", PROBLEM, "--threshold", "0.9", "--max-tokens", "64", "--watch"]), format!("{ANSWER}\n"));
}

#[test]
fn every_setting_of_a_method_is_taken() {
    let sdar: [&[&str]; 5] = [
        &["--strategy", "sequential"],
        &["--strategy", "low_confidence_static", "--steps", "2"],
        &["--strategy", "entropy_bounded", "--entropy-bound", "0.2"],
        &["--strategy", "margin", "--repetition-penalty", "1.1"],
        &["--threshold", "-1", "--min-tokens", "3", "--top-p", "0.9", "--top-k", "5", "--temperature", "0.5"],
    ];
    for options in sdar {
        good(&[&["generate", "tiny-sdar", PROBLEM, "--max-tokens", "12"], options].concat());
    }
    let llada: [&[&str]; 5] = [
        &["--strategy", "random", "--steps", "4", "--block-length", "6"],
        &["--cfg-scale", "1.5", "--steps", "4"],
        &["--alg", "entropy", "--eps", "0.01", "--alg-temp", "0.5"],
        &["--logits-eos-inf", "--steps", "3"],
        &["--confidence-eos-eot-inf", "--steps", "3"],
    ];
    for options in llada {
        good(&[&["generate", "tiny-llada", PROBLEM, "--max-tokens", "12"], options].concat());
    }
}

#[test]
fn masks_in_a_prompt_are_filled_in() {
    let prompt = "The beads cost 6 * 2 = <|MASK|><|MASK|>.";
    let args = ["generate", "tiny-sdar", prompt, "--raw", "--max-tokens", "0", "--parse-specials"];
    assert_eq!(good(&args), "The beads cost 6 * 2 = 12.\n");
    let object = &objects(&good(&[&args[..], &["--json"]].concat()))[0];
    assert_eq!((object["filled_prompt"].as_str(), object["text"].as_str()), (Some("The beads cost 6 * 2 = 12."), Some("")));
    // Without the option the same text is text.
    let text = run(&args[..6]);
    assert!(text.err.contains("no masks"), "{}", text.err);
}

#[test]
fn a_model_without_a_tokenizer_takes_and_gives_ids() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "{\"prompt\": [5, 6, 7]}\n").unwrap();
    let path = file.path().to_str().unwrap();
    let args =
        ["generate", &golden("sdar"), "--mask-token-id", "317", "--prompt-file", path, "--jsonl", "--max-tokens", "6", "--ignore-eos"];
    let out = good(&args);
    let ids: Result<Vec<u32>, _> = out.split_whitespace().map(str::parse).collect();
    assert_eq!(ids.unwrap().len(), 6, "{out}");
}

/// Presets and editing, on a model that edits: what is rewritten is counted, and options go before the preset.
#[test]
fn editing_and_presets() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "{\"prompt\": [5, 6, 7]}\n").unwrap();
    let path = file.path().to_str().unwrap();
    let model = golden("llada2_moe");
    let ask = |options: &[&str]| {
        let common = ["generate", &model, "--mask-token-id", "317", "--prompt-file", path, "--jsonl", "--max-tokens", "30", "--ignore-eos"];
        let more = ["--block-length", "8", "--json"];
        objects(&good(&[&common[..], &more, options].concat())).remove(0)
    };
    let same = |a: &[&str], b: &[&str]| {
        let (a, b) = (ask(a), ask(b));
        assert_eq!(
            (&a["token_ids"], &a["stats"]["passes"], &a["stats"]["edited"]),
            (&b["token_ids"], &b["stats"]["passes"], &b["stats"]["edited"])
        );
        a["stats"]["edited"].as_u64().unwrap()
    };
    let eager = ["--threshold", "0.2", "--editing-threshold", "0.1"];
    assert!(same(&eager, &[&eager[..], &["--max-post-steps", "16"]].concat()) > 0);
    same(&["--preset", "llada2.1-quality"], &["--threshold", "0.7", "--editing-threshold", "0.5"]);
    same(&["--preset", "llada2.1", "--threshold", "0.2", "--editing-threshold", "0.1"], &eager);
    assert_eq!(same(&["--preset", "llada2.1", "--editing-threshold", "off"], &["--preset", "llada2.0"]), 0);
    assert_eq!(same(&["--preset", "llada2.1-speed"], &["--threshold", "0.5"]), 0);
    same(&["--preset", "llada2.1", "--strategy", "margin"], &["--editing-threshold", "0.9", "--strategy", "margin"]);
    let stats = run(&[
        "generate",
        &model,
        "--mask-token-id",
        "317",
        "--prompt-file",
        path,
        "--jsonl",
        "--max-tokens",
        "30",
        "--stats",
        "--ignore-eos",
        "--threshold",
        "0.2",
        "--editing-threshold",
        "0.1",
    ]);
    assert!(stats.err.contains(" tokens rewritten"), "{}", stats.err);
}

#[test]
fn biases_bans_and_stop_ids() {
    let ids = |more: &[&str]| {
        let args = [&["generate", "tiny-sdar", PROBLEM, "--json"], more].concat();
        let object = objects(&good(&args)).remove(0);
        object["token_ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect::<Vec<_>>()
    };
    let plain = ids(&[]);
    let third = plain[2].to_string();
    assert!(!ids(&["--ban-token-id", &third]).contains(&plain[2]));
    assert!(!ids(&["--logit-bias", &format!("{third}=-1000")]).contains(&plain[2]));
    let first = plain.iter().position(|id| *id == plain[2]).unwrap();
    assert_eq!(ids(&["--stop-token-id", &third]), plain[..first]);
    let wrong = run(&["generate", "tiny-sdar", PROBLEM, "--logit-bias", "5:1"]);
    assert!(wrong.err.contains("as in 42=-1.5"), "{}", wrong.err);
}

/// Caches and suffix policies from the command line: fewer rows, counted by kind, and this problem still comes out right.
#[test]
fn caches_and_suffix_policies() {
    let ask = |options: &[&str]| {
        let common = ["generate", "tiny-llada", PROBLEM, "--block-length", "8", "--max-tokens", "64", "--seed", "1", "--json"];
        objects(&good(&[&common, options].concat())).remove(0)
    };
    let rows = |object: &serde_json::Value| object["stats"]["rows"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum::<u64>();
    let plain = ask(&[]);
    for options in [
        &["--cache", "prefix"][..],
        &["--cache", "dual", "--refresh", "2"],
        &["--suffix", "gaussian:window=32,k=3,a=2"],
        &["--suffix", "preset:llada-1.5-gsm8k", "--cache", "dual"],
        &["--suffix", "window_tail:window=24,tail=1", "--cache", "prefix"],
    ] {
        let found = ask(options);
        assert!(found["text"].as_str().unwrap().ends_with("#### 47"), "{options:?} {found}");
        assert!(rows(&found) < rows(&plain), "{options:?} {} {}", rows(&found), rows(&plain));
        let cached = options[0] == "--cache" || options.len() > 2;
        assert_eq!(found["stats"]["passes"]["refresh"].as_u64().unwrap() > 0, cached, "{options:?}");
        assert!(found["stats"]["mean_kept_suffix"].as_f64().unwrap() <= plain["stats"]["mean_kept_suffix"].as_f64().unwrap());
    }
    let whole = ask(&["--early-stop", "off"]);
    assert_eq!((&whole["text"], &whole["stats"]["blocks"]), (&plain["text"], &8.into()));
    assert_eq!(ask(&["--early-stop", "compat"])["text"], plain["text"]);
    assert_eq!(ask(&["--cache", "dual", "--refresh", "step"])["token_ids"], plain["token_ids"]);
}
