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

#[test]
fn mmlu() {
    let good = r#"{"question": "?", "choices": ["1", "2", "3", "4"], "answer": "B", "subject": "anatomy"}"#;
    let with = |choices: &str, answer: &str| {
        let record = format!(r#"{{"question": "?", "choices": {choices}, "answer": {answer}, "subject": "anatomy"}}"#);
        refused("mmlu", good, &record)
    };
    let four = r#"["1", "2", "3", "4"]"#;
    assert!(with(r#"["1", "2"]"#, "0").ends_with("the field \"choices\" has 2 items, it should have 4"));
    assert!(with(r#"["1", "2", "3", 4]"#, "0").ends_with("the field \"choices\" holds a number, it should be a list of strings"));
    assert!(with("\"1234\"", "0").ends_with("the field \"choices\" holds a string, it should be a list of strings"));
    assert!(with(four, "4").ends_with("the field \"answer\" is 4, it should be 0 to 3, or A to D"));
    assert!(with(four, "-1").contains("the field \"answer\" is -1"));
    assert!(with(four, "\"E\"").contains("the field \"answer\" is \"E\""));
    assert!(with(four, "[]").contains("the field \"answer\" is a list"));
    assert!(with(four, "null").contains("the field \"answer\" is missing (0 to 3, or A to D)"));
    assert!(refused("mmlu", good, r#"{"question": "?", "choices": ["1", "2", "3", "4"], "answer": 1}"#).contains("\"subject\" is missing"));
}

#[test]
fn triviaqa() {
    let good = r#"{"question": "?", "answer": {"value": "Danube"}}"#;
    let with = |answer: &str| refused("triviaqa", good, &format!(r#"{{"question": "?", "answer": {answer}}}"#));
    assert!(with("\"Danube\"").contains("the field \"answer\" is a string, it should be an object with value"));
    let missing = with(r#"{"aliases": ["Danube"]}"#);
    assert!(missing.starts_with("line 2 of test.jsonl, field \"answer\": the field \"value\" is missing"), "{missing}");
    assert!(with(r#"{"value": "Danube", "aliases": [1]}"#).contains("the field \"aliases\" holds a number"));
    assert!(with(r#"{"value": "The."}"#).contains("nothing is left"));
}
