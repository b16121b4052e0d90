//! `dlmrs chat` in a pipe: messages and commands in, answers out.

use serde_json::Value;

use crate::common::{ANSWER, PROBLEM, Run, golden, objects, run, run_with_input, sdar_with_template};

/// A chat with `tiny-sdar` that ends well.
pub(crate) fn chat(options: &[&str], lines: &str) -> Run {
    let run = run_with_input(&[&["chat", "tiny-sdar"], options].concat(), lines.as_bytes());
    assert_eq!(run.code, Some(0), "{options:?}: {}", run.err);
    run
}

/// What a chat with `--json` answers.
fn answers(options: &[&str], lines: &str) -> Vec<Value> {
    objects(&chat(&[&["--json", "--max-tokens", "48"], options].concat(), lines).out)
}

fn prompt(answer: &Value) -> usize {
    answer["prompt_token_ids"].as_array().unwrap().len()
}

#[test]
fn each_line_is_answered() {
    let run = chat(&[], &format!("{PROBLEM}\n\n  \n/reset\n{PROBLEM}\r\n"));
    assert_eq!(run.out, format!("{ANSWER}\n{ANSWER}\n"));
    assert_eq!(run.err, "The conversation is forgotten.\n");
    for input in ["", "\n", "/quit\nnobody reads this"] {
        let run = chat(&[], input);
        assert_eq!((run.out.as_str(), run.err.as_str()), ("", ""), "{input:?}");
    }
}

#[test]
fn the_conversation_grows_and_is_forgotten() {
    let input = format!("{PROBLEM}\n{PROBLEM}\n/reset\n{PROBLEM}\n");
    let [first, second, third] = answers(&[], &input).try_into().unwrap();
    assert_eq!(first["text"], ANSWER);
    assert_eq!((first["index"].as_u64(), second["index"].as_u64(), third["index"].as_u64()), (Some(0), Some(1), Some(2)));
    // Both messages, and the answer between them with its end.
    let tokens = |answer: &Value| answer["token_ids"].as_array().unwrap().len();
    assert!(prompt(&second) > 2 * prompt(&first) + tokens(&first) - 8, "{second}");
    assert_eq!(third["prompt_token_ids"], first["prompt_token_ids"]);
    assert_eq!(third["token_ids"], first["token_ids"]);
}

#[test]
fn system_messages() {
    let generate =
        |system: &str| objects(&crate::common::good(&["generate", "tiny-sdar", "beads", "--system", system, "--json"])).remove(0);
    let [set] = answers(&["--system", "Be short."], "beads\n").try_into().unwrap();
    assert_eq!(set["prompt_token_ids"], generate("Be short.")["prompt_token_ids"]);
    let [first, second, third] = answers(&[], "/system Be long.\nbeads\n/reset\nbeads\n/system\n/reset\nbeads\n").try_into().unwrap();
    assert_eq!(first["prompt_token_ids"], generate("Be long.")["prompt_token_ids"]);
    assert_eq!(second["prompt_token_ids"], first["prompt_token_ids"]);
    assert!(prompt(&third) < prompt(&first));
    let said = chat(&["--system", "Be short."], "/system\n").err;
    assert_eq!(said, "There is no system message now; before, it was \"Be short.\".\n");
}

#[test]
fn lines_that_continue_and_lines_that_begin_with_slashes() {
    let with_text = |text: &str| answers(&[], text)[0]["prompt_token_ids"].clone();
    assert_eq!(
        with_text("//reset\n"),
        objects(&crate::common::good(&["generate", "tiny-sdar", "/reset", "--json"]))[0]["prompt_token_ids"]
    );
    let both = objects(&crate::common::good(&["generate", "tiny-sdar", "one\ntwo", "--json"]))[0]["prompt_token_ids"].clone();
    assert_eq!(with_text("one\\\ntwo\n"), both);
    assert_eq!(with_text("one\\\ntwo"), both);
    let run = chat(&[], "/nonsense\n/reset now\n/save\n/help\n");
    assert_eq!(run.out, "");
    let lines: Vec<&str> = run.err.lines().collect();
    assert_eq!(lines[0], "dlmrs: error: /nonsense is no command; /help lists them, and //nonsense is a message that begins with /nonsense");
    assert!(lines[1].contains("/reset: stands alone") && lines[2].contains("no file is named"), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("/retry ")), "{lines:?}");
}

#[test]
fn a_message_that_does_not_fit_ends_nothing() {
    let long = "beads and marbles ".repeat(1000);
    let run = chat(&[], &format!("{long}\n{PROBLEM}\n"));
    assert_eq!(run.out, format!("{ANSWER}\n"));
    assert!(
        run.err.starts_with("dlmrs: error: the conversation no longer fits the model: it has ") && run.err.contains("/reset"),
        "{}",
        run.err
    );
    assert_eq!(run.err.lines().count(), 1);
    let told = answers(&[], &format!("{long}\n{PROBLEM}\n"));
    assert!(told[0]["error"].as_str().unwrap().contains("at most 2048"), "{}", told[0]);
    assert_eq!((told[1]["index"].as_u64(), told[1]["text"].as_str()), (Some(1), Some(ANSWER)));
}

#[test]
fn answering_again_takes_another_seed() {
    let run = chat(&[], &format!("/retry\n{PROBLEM}\n/retry\n"));
    assert_eq!(run.out, format!("{ANSWER}\n{ANSWER}\n"));
    let lines: Vec<&str> = run.err.lines().collect();
    assert!(lines[0].contains("/retry: there is no message") && lines[1].contains("The answer is the same"), "{lines:?}");
    let warm = answers(&["--temperature", "1.5", "--seed", "5"], &format!("{PROBLEM}\n/retry\n/retry\n{PROBLEM}\n"));
    assert_eq!(warm.iter().map(|answer| answer["seed"].as_u64().unwrap()).collect::<Vec<_>>(), [5, 6, 7, 5]);
    assert_eq!(warm[0]["prompt_token_ids"], warm[2]["prompt_token_ids"]);
    assert!(warm[0]["token_ids"] != warm[1]["token_ids"] || warm[1]["token_ids"] != warm[2]["token_ids"]);
}

#[test]
fn costs_are_told() {
    let run = chat(&["--stats"], &format!("/stats\n{PROBLEM}\n/stats\n"));
    let lines: Vec<&str> = run.err.lines().collect();
    assert_eq!(lines[..2], ["Last answer: no answer yet", "Conversation: 0 messages, 0 of 2048 tokens"]);
    assert!(lines[2].starts_with("45 tokens in "), "{lines:?}");
    assert_eq!(lines[3], format!("Last answer: {}", lines[2]));
    assert!(lines[4].starts_with("Conversation: 2 messages, "), "{lines:?}");
}

#[test]
fn what_is_wrong_from_the_start_is_told_before_anything_is_read() {
    let template = sdar_with_template(None);
    let folder = template.path().to_str().unwrap();
    for (args, wanted) in [
        (&["chat", folder][..], "has no chat template, so one cannot chat with it; `dlmrs generate --raw`"),
        (&["chat", &golden("sdar"), "--mask-token-id", "317"], "has no tokenizer"),
        (&["chat", "no/such/folder"], "model folder not found"),
        (&["chat", "tiny-sdar", "--temperature", "-1"], "temperature: is -1"),
        (&["chat", "tiny-sdar", "--max-tokens", "0"], "max_tokens: is 0"),
        (&["chat", "tiny-sdar", "--max-tokens", "5000"], "lower max_tokens"),
        (&["chat", "tiny-sdar", "--cfg-scale", "1"], "--cfg-scale belongs to canvas diffusion"),
        (&["chat", "tiny-sdar", "--load", "no/such/file"], "cannot read no/such/file"),
    ] {
        let run = run(args);
        assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{args:?}");
        assert!(run.err.starts_with("dlmrs: error: ") && run.err.contains(wanted), "{args:?}: {}", run.err);
        assert_eq!(run.err.lines().count(), 1, "{}", run.err);
    }
}

#[test]
fn a_line_that_is_no_text_does_not_end_the_chat() {
    let message = "line 2 of standard input: is not UTF-8: byte 0xE9 at offset 3; convert it to UTF-8";
    let input = [PROBLEM.as_bytes(), b"\ncaf\xE9\n/reset\n", PROBLEM.as_bytes(), b"\n"].concat();
    let run = run_with_input(&["chat", "tiny-sdar"], &input);
    assert_eq!((run.code, run.out), (Some(0), format!("{ANSWER}\n{ANSWER}\n")), "{}", run.err);
    assert!(run.err.contains(&format!("dlmrs: error: {message}\n")), "{}", run.err);
    let objects = objects(&run_with_input(&["chat", "tiny-sdar", "--json"], &input).out);
    assert_eq!(objects[1], serde_json::json!({"index": 1, "error": message}));
    assert_eq!((objects.len(), objects[2]["text"].as_str()), (3, Some(ANSWER)));
}

#[cfg(unix)]
#[test]
fn standard_input_may_be_closed() {
    let script = "exec \"$0\" chat tiny-sdar <&-";
    let output = std::process::Command::new("sh").args(["-c", script, env!("CARGO_BIN_EXE_dlmrs")]).output().unwrap();
    let run = Run::from(output);
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (Some(0), "", ""));
}

#[test]
fn canvas_models_chat_too() {
    let args = ["chat", "tiny-llada", "--threshold", "0.9", "--max-tokens", "64", "--watch"];
    let run = run_with_input(&args, format!("{PROBLEM}\n").as_bytes());
    assert_eq!((run.code, run.out, run.err.as_str()), (Some(0), format!("{ANSWER}\n"), ""));
}
