//! `dlmrs chat`: conversations in files.

use std::path::Path;

use crate::chat::chat;
use crate::common::{ANSWER, PROBLEM, objects};

fn lines(path: &Path) -> Vec<serde_json::Value> {
    objects(&std::fs::read_to_string(path).unwrap())
}

#[test]
fn a_conversation_is_saved_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a chat.jsonl");
    let name = path.to_str().unwrap();
    let run = chat(&["--system", "Be \"short\"."], &format!("{PROBLEM}\n/save {name}\n"));
    assert_eq!(run.err, format!("Saved 3 messages in {name}.\n"));
    let saved = lines(&path);
    assert_eq!(saved.iter().map(|message| message["role"].as_str().unwrap()).collect::<Vec<_>>(), ["system", "user", "assistant"]);
    assert_eq!((saved[0]["content"].as_str(), saved[1]["content"].as_str()), (Some("Be \"short\"."), Some(PROBLEM)));

    // By the option, by the command, and in one go: the same prompt.
    let ids = |options: &[&str], input: &str| {
        let out = chat(&[&["--json", "--max-tokens", "8"], options].concat(), input).out;
        objects(&out).pop().unwrap()["prompt_token_ids"].clone()
    };
    let loaded = ids(&["--load", name], "beads\n");
    assert_eq!(ids(&[], &format!("marbles\n/load {name}\nbeads\n")), loaded);
    let whole = chat(&["--system", "Be \"short\".", "--json"], &format!("{PROBLEM}\nbeads\n")).out;
    assert_eq!(objects(&whole)[1]["prompt_token_ids"], loaded);
    assert_ne!(ids(&["--load", name, "--system", "Be long."], "beads\n"), loaded);
}

#[test]
fn files_are_overwritten_on_request_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chat.jsonl");
    let name = path.to_str().unwrap();
    std::fs::write(&path, "precious").unwrap();
    let run = chat(&[], &format!("{PROBLEM}\n/save {name}\n"));
    assert_eq!(run.out, format!("{ANSWER}\n"));
    assert_eq!(run.err, format!("dlmrs: error: {name} is there already; choose another name, or replace it with /save! {name}\n"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    chat(&[], &format!("{PROBLEM}\n/save! {name}\n"));
    assert_eq!(lines(&path).len(), 2);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    let lost = folder.path().join("no/such/folder/chat.jsonl");
    let run = chat(&[], &format!("/save {}\n", lost.display()));
    assert!(run.err.starts_with("dlmrs: error: cannot write ") && run.err.contains("no/such/folder"), "{}", run.err);
}

#[test]
fn a_question_that_was_loaded_is_answered_by_retry() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let name = file.path().to_str().unwrap();
    std::fs::write(file.path(), format!("{}\n", serde_json::json!({"role": "user", "content": PROBLEM}))).unwrap();
    let run = chat(&[], &format!("/load {name}\n/retry\n"));
    assert_eq!((run.out, run.err), (format!("{ANSWER}\n"), "Loaded 1 message; /retry answers the last one.\n".to_string()));
    assert_eq!(chat(&["--load", name], "/retry\n").out, format!("{ANSWER}\n"));
}

#[test]
fn files_that_are_none_leave_the_conversation_as_it_was() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let name = file.path().to_str().unwrap();
    for (content, wanted) in [
        ("", "holds no messages"),
        ("{\"role\": \"user\", \"content\": \"a\"}\nnonsense\n", "line 2 of "),
        ("{\"prompt\": \"a\"}\n", "has no \"role\""),
    ] {
        std::fs::write(file.path(), content).unwrap();
        let run = chat(&[], &format!("/load {name}\n{PROBLEM}\n"));
        assert_eq!(run.out, format!("{ANSWER}\n"));
        assert!(run.err.starts_with("dlmrs: error: ") && run.err.contains(wanted) && run.err.contains(name), "{}", run.err);
    }
}
