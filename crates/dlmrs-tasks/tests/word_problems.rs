//! The project's own word problems.
#![allow(clippy::unwrap_used, clippy::expect_used)] // tests

use std::path::Path;

use dlmrs_tasks::{Context, data, task};

#[test]
fn every_answer_scores_its_own_problem() {
    let task = task("word_problems").unwrap();
    let records = data::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("data/word_problems.jsonl")).unwrap();
    let problems = data::problems(task, &records).unwrap();
    assert_eq!((problems.len(), task.prompting().shots, task.prompting().max_tokens), (1000, 0, 96));
    for (problem, record) in problems.iter().zip(&records) {
        assert_eq!(task.prompt(&[], problem.as_ref()), record.text("question").unwrap());
        assert_eq!(problem.score(record.text("answer").unwrap(), Context::default()).unwrap(), [true]);
        for wrong in ["", "47", "####", "#### ", "#### 47x", "#### -1 #### 47"] {
            assert_eq!(problem.score(wrong, Context::default()).unwrap(), [false], "{wrong}");
        }
    }
}

#[test]
fn they_are_built_in() {
    let bundled = data::bundled(task("word_problems").unwrap()).unwrap();
    assert_eq!(bundled.len(), 1000);
    assert_eq!(bundled[2].place, "line 3 of the bundled word_problems");
}

#[test]
fn other_tasks_ask_for_a_file() {
    let message = data::bundled(task("gsm8k").unwrap()).err().unwrap().to_string();
    assert!(message.contains("give a file") && message.contains("openai/gsm8k"), "{message}");
}
