//! GSM8K: prompts and scores.
#![allow(clippy::unwrap_used, clippy::expect_used)] // tests

use std::path::Path;

use dlmrs_tasks::{Context, Problem, Record, data, task};

fn problems() -> Vec<Box<dyn Problem>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/gsm8k_test_100.jsonl");
    data::problems(task("gsm8k").unwrap(), &data::read(&path).unwrap()).unwrap()
}

/// (flexible, strict) of an answer where the right one is `wanted`.
fn scores(wanted: &str, answer: &str) -> (bool, bool) {
    let fields = serde_json::json!({"question": "?", "answer": format!("Steps of 7.\n#### {wanted}")});
    let record = Record { place: "here".into(), fields: fields.as_object().unwrap().clone() };
    let found = task("gsm8k").unwrap().read(&record).unwrap().score(answer, Context::default()).unwrap();
    assert_eq!(task("gsm8k").unwrap().metrics(), ["flexible", "strict"]);
    (found[0], found[1])
}

#[test]
fn every_published_answer_is_right() {
    let problems = problems();
    assert_eq!(problems.len(), 100);
    for (index, problem) in problems.iter().enumerate() {
        let worked = problem.worked();
        let answer = worked.strip_prefix(&problem.question()).unwrap();
        assert_eq!(problem.score(answer, Context::default()).unwrap(), [true, true], "problem {index}: {answer}");
        let other = problems[(index + 1) % 100].worked();
        let other = problem.score(&other, Context::default()).unwrap();
        assert_eq!(other[0], other[1], "problem {index}");
        assert_eq!(problem.score("", Context::default()).unwrap(), [false, false]);
    }
    let swapped = |i: usize| problems[i].score(&problems[(i + 1) % 100].worked(), Context::default()).unwrap()[0];
    let chance = (0..100).filter(|&i| swapped(i)).count();
    assert!(chance < 10, "{chance} of 100 answers to the next problem are right");
}

#[test]
fn the_prompt() {
    let problems = problems();
    let shots: Vec<&dyn Problem> = problems[1..3].iter().map(AsRef::as_ref).collect();
    let prompt = task("gsm8k").unwrap().prompt(&shots, problems[0].as_ref());
    assert!(prompt.starts_with("Question: A robe takes 2 bolts of blue fiber"), "{prompt}");
    assert!(prompt.contains("Answer: It takes 2/2=<<2/2=1>>1 bolt of white fiber\nSo the total"), "{prompt}");
    assert!(prompt.contains("#### 3\n\nQuestion: Josh decides"), "{prompt}");
    assert!(prompt.contains("#### 70000\n\nQuestion: Janet"), "{prompt}");
    assert!(prompt.ends_with("at the farmers' market?\nAnswer:"), "{prompt}");
    assert_eq!(task("gsm8k").unwrap().prompt(&[], problems[0].as_ref()), problems[0].question());
}

#[test]
fn numbers_as_the_harness_takes_them() {
    // The right number, the answer, flexible, strict.
    let cases = [
        ("18", "#### 18", true, true),
        ("18", "So 18.", true, false),
        ("18", "#### 18.", true, true),
        ("18", "#### $18", true, false), // strict asks for a digit, a full stop or a comma behind the space
        ("18", "####18", true, false),
        ("18", "#### 18\n\n#### 19", false, true), // strict takes the first, flexible the last
        ("18", "#### 17 or 18", true, false),
        ("18", "18 eggs and then nothing", true, false),
        ("18", "18.0", false, false),   // text is compared, not values
        ("18", "18 ...", false, false), // the last thing that looks like a number is "..."
        ("1,234", "#### 1234", true, true),
        ("1234", "#### 1,234", true, true),
        ("70000", "a profit of $70,000.", true, false),
        ("-5", "#### -5", true, true),
        ("-5", "it falls to -5", true, false),
        ("5", "10-5", false, false), // the last is -5
        ("5", "", false, false),
        ("5", "#### five", false, false),
        ("0.5", "#### 0.5", true, true),
    ];
    for (wanted, answer, flexible, strict) in cases {
        assert_eq!(scores(wanted, answer), (flexible, strict), "{wanted}: {answer:?}");
    }
}
