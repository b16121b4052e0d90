//! What goes wrong is said in one line, and told by the exit code.

use crate::common::{PROBLEM, run, run_with_input};

/// Runs into a failure and checks that it is told once, on standard error.
pub(crate) fn fails(args: &[&str], wanted: &str) {
    let run = run(args);
    assert_eq!(run.code, Some(1), "{args:?}: {}", run.err);
    assert_eq!(run.out, "", "{args:?}");
    assert!(run.err.starts_with("dlmrs: error: ") && run.err.lines().count() == 1, "{args:?}: {}", run.err);
    assert!(run.err.contains(wanted), "{args:?}: {}", run.err);
}

fn sdar(options: &[&str], wanted: &str) {
    fails(&[&["generate", "tiny-sdar", PROBLEM], options].concat(), wanted);
}

fn llada(options: &[&str], wanted: &str) {
    fails(&[&["generate", "tiny-llada", PROBLEM], options].concat(), wanted);
}

#[test]
fn models_and_devices() {
    fails(&["generate", "no/such/folder", "a"], "model folder not found at no/such/folder");
    fails(&["generate", "bundled:tiny-gpt", "a"], "no bundled model");
    fails(&["inspect", "no/such/folder"], "model folder not found");
    sdar(&["--device", "gpu"], "device 'gpu': is unknown");
    if !cfg!(feature = "cuda") {
        sdar(&["--device", "cuda"], "no CUDA support");
    }
    sdar(&["--device", "cpu", "--dtype", "f16"], "f16 is not available on a CPU; use auto, f32, bf16, int8 or int4");
    sdar(&["--threads", "0"], "threads");
    sdar(&["--mask-token-id", "640"], "mask_token_id");
    sdar(&["--max-model-len", "4096"], "max_model_len");
}

#[test]
fn sampling() {
    sdar(&["--temperature", "-1"], "temperature: is -1");
    sdar(&["--temperature", "nan"], "temperature");
    sdar(&["--top-p", "0"], "top_p");
    sdar(&["--repetition-penalty", "-2"], "repetition_penalty");
    sdar(&["--max-tokens", "0"], "max_tokens: is 0");
    sdar(&["--min-tokens", "300"], "min_tokens");
    sdar(&["--stop", ""], "stop: holds an empty string");
    sdar(&["--max-tokens", "2040"], "shorten the prompt or lower max_tokens");
    sdar(&["--max-tokens", "18446744073709551615"], "lower max_tokens");
}

#[test]
fn settings_of_the_other_method() {
    for option in [["--cfg-scale", "1"], ["--alg", "entropy"], ["--eps", "0.1"], ["--alg-temp", "1"]] {
        sdar(&option, &format!("{} belongs to canvas diffusion, but tiny-sdar decodes by block diffusion", option[0]));
    }
    for option in ["--logits-eos-inf", "--confidence-eos-eot-inf"] {
        sdar(&[option], &format!("{option} belongs to canvas diffusion"));
    }
    llada(&["--entropy-bound", "1"], "--entropy-bound belongs to block diffusion, but tiny-llada decodes by canvas diffusion");
    sdar(&["--strategy", "low_confidence"], "'low_confidence' is unknown for block diffusion");
    sdar(&["--strategy", "nonsense"], "'nonsense' is unknown for block diffusion");
    llada(&["--strategy", "margin"], "'margin' is unknown for a canvas");
}

#[test]
fn settings_of_a_canvas() {
    for option in [["--cache", "dual"], ["--refresh", "2"]] {
        let wanted =
            format!("{} is for bidirectional models (LLaDA, Dream), but tiny-sdar decodes by block diffusion, which caches", option[0]);
        sdar(&option, &wanted);
    }
    for option in [["--factor", "1"], ["--max-reveals", "2"], ["--suffix", "gaussian"], ["--early-stop", "off"]] {
        sdar(&option, &format!("{} belongs to canvas diffusion", option[0]));
    }
    sdar(&["--factor-compat"], "--factor-compat belongs to canvas diffusion");
    llada(&["--suffix", "normal"], "suffix: 'normal' is unknown; use off, keep_all");
    llada(&["--suffix", "gaussian:window=-1"], "window: is '-1'");
    llada(&["--suffix", "gaussian:window=0"], "window: is 0");
    llada(&["--suffix", "gaussian:k=0"], "k: is 0; a number above 0");
    llada(&["--suffix", "gaussian:a=-1"], "a: is -1; a finite number");
    llada(&["--suffix", "gaussian:a=inf"], "a: is inf; a finite number");
    llada(&["--suffix", "uniform:window=8,budget=9"], "budget: is 9, more than the window of 8");
    llada(&["--suffix", "kept:40 41"], "suffix: has 1 lists");
    llada(&["--cache", "dual", "--refresh", "0"], "refresh: is 0");
    llada(&["--cache", "dual", "--refresh", "often"], "refresh: 'often' is unknown");
    llada(&["--refresh", "2"], "refresh: has an effect with a cache only");
    llada(&["--factor", "1", "--threshold", "0.9"], "factor: stands in place of a threshold");
    llada(&["--factor", "1", "--steps", "4"], "--steps has no effect with --factor");
    llada(&["--factor", "1", "--alg", "entropy"], "--factor and --alg are two ways to choose slots");
    llada(&["--factor-compat"], "factor_compat: has an effect with a factor only");
    llada(&["--max-reveals", "2"], "max_reveals: has an effect with a threshold or a factor only");
}

#[test]
fn speculation() {
    sdar(&["--method", "simsd"], "was loaded without a draft model");
    sdar(&["--draft", "tiny-llada"], "draft: tiny-llada has no block mode");
    sdar(&["--draft", "no/such/folder"], "model folder not found");
    llada(&["--draft", "tiny-sdar"], "needs a block-causal target");
    llada(&["--method", "s2d2"], "--method belongs to block diffusion, but tiny-llada decodes by canvas diffusion");
    llada(&["--method", "lookahead"], "--method lookahead needs --cache dual on a canvas");
    llada(&["--method", "lookahead", "--cache", "prefix"], "--method lookahead needs --cache dual on a canvas");
    llada(&["--method", "lookahead", "--cache", "dual", "--refresh", "step"], "refresh: is \"step\"");
    llada(&["--method", "lookahead", "--cache", "dual", "--blocks", "2"], "--blocks has no meaning for --method lookahead on a canvas");
    sdar(&["--gamma", "2"], "--gamma belongs to speculation; add --method");
    sdar(&["--method", "block", "--probes", "2"], "--probes belongs to speculation");
    sdar(&["--method", "lookahead", "--gamma", "2"], "--gamma has no meaning for --method lookahead");
    sdar(&["--method", "lookahead", "--blocks", "0"], "blocks: is 0");
    sdar(&["--method", "s2d2", "--blocks", "2"], "--blocks has no meaning for --method s2d2");
    sdar(&["--method", "s2d2", "--penalty", "2"], "--penalty has an effect with a score only");
    sdar(&["--method", "s2d2", "--hysteresis", "0", "1"], "on must be larger than off");
    sdar(&["--method", "s2d2", "--score-threshold", "0", "--estimator", "luck"], "'luck' is unknown");
    let simsd = |options: &[&str], wanted: &str| {
        sdar(&[&["--method", "simsd", "--draft", "tiny-sdar-draft"], options].concat(), wanted);
    };
    simsd(&["--probes", "1"], "--probes has no meaning for --method simsd");
    simsd(&["--gamma", "5"], "gamma: is 5, but a block has 4 slots");
    simsd(&["--layout", "paired"], "accept: identical needs the target's own rows");
    simsd(&["--layout", "pairs"], "layout: 'pairs' is unknown");
    simsd(&["--unaligned"], "align_positions");
}

#[test]
fn editing() {
    let reason = "rewrites tokens and cannot go with Lookahead: guesses are judged in states that only ever fill masks";
    sdar(&["--method", "lookahead", "--editing-threshold", "0.5"], &format!("--editing-threshold {reason}"));
    sdar(&["--method", "lookahead", "--preset", "llada2.1-quality"], &format!("this --preset {reason}"));
    sdar(&["--method", "s2d2", "--editing-threshold", "0.5"], "--editing-threshold rewrites tokens and cannot go with S2D2");
    let draft = ["--method", "simsd", "--draft", "tiny-sdar-draft", "--editing-threshold", "0.5"];
    sdar(&draft, "--editing-threshold rewrites tokens and cannot go with SimSD");
    sdar(&["--editing-threshold", "0.5"], "editing_threshold: is 0.5, but tiny-sdar was not trained to look at decided tokens again");
    for threshold in ["-0.1", "1", "nan"] {
        sdar(&["--editing-threshold", threshold], "a number from 0 to below 1 is needed");
    }
    sdar(&["--max-post-steps", "3"], "--max-post-steps has an effect with --editing-threshold only");
    sdar(&["--preset", "llada2.1", "--editing-threshold", "off", "--max-post-steps", "3"], "--max-post-steps has an effect");
    for option in [["--editing-threshold", "0.5"], ["--max-post-steps", "3"], ["--preset", "llada2.0"]] {
        llada(&option, &format!("{} belongs to block diffusion, but tiny-llada decodes by canvas diffusion", option[0]));
    }
    let wrong = run(&["generate", "tiny-sdar", PROBLEM, "--preset", "llada3"]);
    assert!(wrong.code == Some(2) && wrong.err.contains("llada2.1-quality"), "{}", wrong.err);
    let wrong = run(&["generate", "tiny-sdar", PROBLEM, "--editing-threshold", "often"]);
    assert!(wrong.code == Some(2) && wrong.err.contains("a number or 'off' is needed"), "{}", wrong.err);
}

#[test]
fn settings_without_effect() {
    sdar(&["--threshold", "0.5", "--strategy", "margin"], "--threshold has an effect");
    sdar(&["--entropy-bound", "0.5"], "--entropy-bound has an effect");
    llada(&["--threshold", "0.5", "--steps", "4"], "--steps has no effect");
    llada(&["--eps", "0.5"], "--eps has an effect");
    llada(&["--alg-temp", "0.5", "--threshold", "0.5"], "--alg-temp has an effect");
    llada(&["--alg", "origin", "--threshold", "0.5"], "two ways to choose");
}

#[test]
fn settings_out_of_range() {
    sdar(&["--block-length", "0"], "block_length: is 0");
    sdar(&["--steps", "0"], "steps: is 0");
    sdar(&["--threshold", "nan"], "threshold: is NaN");
    sdar(&["--strategy", "entropy_bounded", "--entropy-bound", "-1"], "entropy_bound");
    llada(&["--cfg-scale", "-1"], "cfg_scale: is -1");
    llada(&["--alg", "origin", "--eps", "1"], "eps: is 1");
    llada(&["--alg", "even_entropy", "--eps", "0.5"], "eps: has no effect with alg=\"even_entropy\"");
}

#[test]
fn prompts() {
    fails(&["generate", "tiny-sdar", ""], "prompt: is empty");
    fails(&["generate", "tiny-sdar", "", "--raw"], "prompt: is empty");
    fails(&["generate", "tiny-sdar", "--prompt-file", "no/such/file"], "cannot read no/such/file: No such file");
    fails(&["generate", "tiny-sdar", &"beads and marbles ".repeat(1000)], "but the model takes at most 2048");
}

/// Standard input that cannot be used.
fn refused(options: &[&str], input: &[u8], wanted: &str) {
    let run = run_with_input(&[&["generate", "tiny-sdar", "--prompt-file", "-"], options].concat(), input);
    assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{}", run.err);
    assert!(run.err.starts_with("dlmrs: error: ") && run.err.contains(wanted), "{}", run.err);
}

#[test]
fn files_of_prompts() {
    refused(&[], b"", "standard input: prompt: is empty");
    refused(&[], b"caf\xE9 au lait", "standard input: is not UTF-8: byte 0xE9 at offset 3");
    refused(&["--jsonl"], b"", "standard input: holds no prompts");
    refused(&["--jsonl"], b"{\"prompt\": \"a\"}\n\n{\"prompt\": \"b\"\n", "line 3 of standard input: not valid JSON at column 14");
    refused(&["--jsonl"], b"{\"prompt\": \"a\"}\n{\"text\": \"b\"}\n", "line 2 of standard input: has no prompt");
    // The whole input is checked before the first prompt is answered.
    refused(&["--jsonl"], b"{\"prompt\": \"a\"}\n{\"prompt\": [640]}\n", "line 2 of standard input: prompt: holds the id 640");
    refused(&["--jsonl"], b"{\"messages\": []}\n", "line 1 of standard input: messages");
    refused(&["--jsonl", "--system", "s"], b"{\"messages\": []}\n", "--system is for prompts that are texts");
}

#[test]
fn wrong_usage_is_another_code() {
    for args in [
        &["generate", "tiny-sdar"][..],
        &["generate", "tiny-sdar", "a", "--no-such-option"],
        &["generate", "tiny-sdar", "a", "--prompt-file", "b"],
        &["generate", "tiny-sdar", "a", "--jsonl"],
        &["generate", "tiny-sdar", "a", "--raw", "--chat"],
        &["generate", "tiny-sdar", "a", "--raw", "--system", "s"],
        &["generate", "tiny-sdar", "a", "--backend", "torch"],
        &["generate", "tiny-sdar", "a", "--batch", "0"],
        &["generate", "tiny-sdar", "a", "--seed", "-1"],
        &["generate", "tiny-sdar", "a", "--max-tokens", "many"],
        &["answer"],
        &[],
    ] {
        let run = run(args);
        assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{args:?}");
        assert!(run.err.contains("Usage:") || run.err.contains("--help"), "{args:?}: {}", run.err);
    }
}

#[test]
fn help_and_version() {
    let version = run(&["--version"]);
    assert_eq!((version.code, version.out.as_str()), (Some(0), concat!("dlmrs ", env!("CARGO_PKG_VERSION"), "\n")));
    for args in [&["--help"][..], &["generate", "--help"], &["chat", "--help"], &["inspect", "--help"], &["demo", "--help"]] {
        let help = run(args);
        assert_eq!((help.code, help.err.as_str()), (Some(0), ""));
        assert!(help.out.contains("Examples:\n  dlmrs "), "{}", help.out);
    }
    let help = run(&["generate", "--help"]).out;
    assert!(help.contains("OF A BLOCK") && help.contains("OF THE WHOLE CANVAS"), "{help}");
}
