//! Options of the chat template itself.

use crate::common::{PROBLEM, objects, run, run_with_input, sdar_with_template};

/// What a template that looks at a variable makes of it, as `generate` and as `chat` give it to the model.
fn prompts(folder: &str, options: &[&str]) -> [serde_json::Value; 2] {
    let generate = run(&[&["generate", folder, "beads", "--json", "--max-tokens", "4"], options].concat());
    let chat = run_with_input(&[&["chat", folder, "--json", "--max-tokens", "4"], options].concat(), b"beads\n");
    [generate, chat].map(|run| {
        assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{options:?}");
        objects(&run.out)[0]["prompt_token_ids"].clone()
    })
}

#[test]
fn variables_reach_the_template() {
    let source = "{% for m in messages %}{{ m.content }}{% endfor %}{% if enable_thinking is false %} no{% elif shape is defined %}{{ shape.n }}{% endif %}";
    let model = sdar_with_template(Some(source));
    let folder = model.path().to_str().unwrap();
    let plain = prompts(folder, &[]);
    let quiet = prompts(folder, &["--no-think"]);
    assert_eq!(plain[0], plain[1]);
    assert_eq!(quiet[0], quiet[1]);
    assert_ne!(plain, quiet);
    assert_eq!(prompts(folder, &["--template-option", "enable_thinking=false"]), quiet);
    assert_eq!(prompts(folder, &["--template-option", "enable_thinking=true"]), plain);
    assert_ne!(prompts(folder, &["--template-option", "shape={\"n\": 7}"]), plain);
}

#[test]
fn options_without_effect_are_told() {
    let run = run_with_input(&["chat", "tiny-sdar", "--no-think"], b"");
    assert_eq!(run.code, Some(0));
    assert_eq!(run.err, "dlmrs: warning: the chat template has no variable enable_thinking, so that setting it has no effect\n");
    let raw = crate::common::run(&["generate", "tiny-sdar", PROBLEM, "--raw", "--template-option", "a=1"]);
    assert_eq!(raw.code, Some(1));
    assert!(raw.err.contains("--template-option has no effect on a prompt without the chat template"), "{}", raw.err);
}

#[test]
fn wrong_options() {
    for (option, wanted) in [
        ("enable_thinking", "KEY=JSON is needed, as in enable_thinking=false"),
        ("=1", "KEY=JSON is needed"),
        ("shape=round", "\"round\" is not JSON"),
        ("messages=[]", "messages is set by the command itself"),
    ] {
        let run = run(&["generate", "tiny-sdar", "a", "--template-option", option]);
        assert_eq!(run.code, Some(2), "{option}");
        assert!(run.err.contains(wanted), "{option}: {}", run.err);
    }
    let twice = run(&["chat", "tiny-sdar", "--no-think", "--template-option", "enable_thinking=true"]);
    assert_eq!(twice.code, Some(1));
    assert!(twice.err.contains("enable_thinking: is set twice"), "{}", twice.err);
}
