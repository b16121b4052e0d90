//! `dlmrs generate`: where prompts come from.

use serde_json::json;

use crate::common::{ANSWER, PROBLEM, good, objects, run_with_input};

fn file(content: impl AsRef<[u8]>) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), content).unwrap();
    file
}

#[test]
fn standard_input_and_files() {
    for input in [PROBLEM.to_string(), format!("{PROBLEM}\n"), format!("\u{FEFF}{PROBLEM}\r\n")] {
        let run = run_with_input(&["generate", "tiny-sdar", "--prompt-file", "-"], input.as_bytes());
        assert_eq!((run.code, run.out), (Some(0), format!("{ANSWER}\n")), "{input:?}");
    }
    let (first, second) = (file(PROBLEM), file(format!("{PROBLEM}\n")));
    let paths = [first.path().to_str().unwrap(), second.path().to_str().unwrap()];
    let out = good(&["generate", "tiny-sdar", "--prompt-file", paths[0], "--prompt-file", paths[1]]);
    assert_eq!(out, format!("{ANSWER}\n\n{ANSWER}\n"));
}

#[test]
fn lines_of_json_in_order_whatever_the_batch() {
    let lines = [
        json!({"prompt": PROBLEM, "id": "a"}),
        json!({"messages": [{"role": "user", "content": PROBLEM}], "id": 2}),
        json!({"prompt": "Mia has 63 beads. Mia gives 54 to Dan. How many beads does Mia have now?"}),
        json!({"prompt": [1, 290, 202]}),
    ];
    let text = lines.map(|line| format!("{line}\n\n")).concat();
    let file = file(text);
    let path = file.path().to_str().unwrap();
    let with = |batch: &str| {
        objects(&good(&["generate", "tiny-sdar", "--jsonl", "--prompt-file", path, "--json", "--max-tokens", "64", "--batch", batch]))
    };
    let (one, three) = (with("1"), with("3"));
    assert_eq!(one.len(), 4);
    for (index, (a, b)) in one.iter().zip(&three).enumerate() {
        assert_eq!(a["index"], index);
        assert_eq!(a["token_ids"], b["token_ids"]);
    }
    assert_eq!((one[0]["id"].as_str(), one[1]["id"].as_u64()), (Some("a"), Some(2)));
    assert_eq!(one[0]["text"], ANSWER);
    assert_eq!(one[1]["text"], ANSWER);
    assert_eq!(one[2]["text"], "That leaves 63 - 54 = 9. #### 9");
    assert!(one[2].get("id").is_none());
}

#[test]
fn chat_is_the_default_and_raw_is_not() {
    let ids = |options: &[&str]| {
        let args = [&["generate", "tiny-sdar", "beads", "--json", "--max-tokens", "4"], options].concat();
        objects(&good(&args))[0]["prompt_token_ids"].as_array().unwrap().len()
    };
    let (chat, raw, system) = (ids(&[]), ids(&["--raw"]), ids(&["--system", "beads"]));
    assert!(raw < chat && chat < system, "{raw} {chat} {system}");
    assert_eq!(chat, ids(&["--chat"]));
}
