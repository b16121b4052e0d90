//! Records that a task cannot use are named before anything runs.
#![allow(clippy::unwrap_used, clippy::expect_used)] // tests

use dlmrs_tasks::{Record, data, task};

/// The message about the second of two records.
fn refused(name: &str, good: &str, bad: &str) -> String {
    let record = |(index, text): (usize, &str)| Record {
        place: format!("line {} of test.jsonl", index + 1),
        fields: serde_json::from_str(text).unwrap(),
    };
    let records: Vec<_> = [good, bad].into_iter().enumerate().map(record).collect();
    let found = data::problems(task(name).unwrap(), &records);
    found.err().expect("the second record is wrong").to_string()
}

#[test]
fn unknown_tasks_are_listed() {
    let message = task("gsm9k").err().unwrap().to_string();
    assert!(message.contains("\"gsm9k\" is not known") && message.contains("gsm8k"), "{message}");
}

#[test]
fn word_problems_and_gsm8k() {
    let good = r#"{"question": "1 + 1?", "answer": "2 #### 2"}"#;
    for name in ["word_problems", "gsm8k"] {
        let missing = refused(name, good, r#"{"prompt": "1 + 1?", "answer": "2 #### 2"}"#);
        assert_eq!(missing, "line 2 of test.jsonl: the field \"question\" is missing (a string); the fields here are: prompt, answer");
        let kind = refused(name, good, r#"{"question": "1 + 1?", "answer": 2}"#);
        assert_eq!(kind, "line 2 of test.jsonl: the field \"answer\" is a number, it should be a string");
        assert!(refused(name, good, r#"{"question": " ", "answer": "2 #### 2"}"#).contains("\"question\" is empty"));
        assert!(refused(name, good, r#"{"question": "1 + 1?", "answer": "2"}"#).contains("####"));
    }
}
