//! TriviaQA: prompts and aliases.
#![allow(clippy::unwrap_used, clippy::expect_used)] // tests

use std::path::Path;

use dlmrs_tasks::{Context, Problem, data, task};

fn problems() -> Vec<Box<dyn Problem>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/triviaqa.parquet");
    data::problems(task("triviaqa").unwrap(), &data::read(&path).unwrap()).unwrap()
}

#[test]
fn the_prompt() {
    let problems = problems();
    let prompt = task("triviaqa").unwrap().prompt(&[problems[0].as_ref()], problems[1].as_ref());
    let wanted = "Question: Which river flows through Vienna??\nAnswer: Danube\n\nQuestion: Who wrote \"Faust\"?\nAnswer:";
    assert_eq!(prompt, wanted);
    assert_eq!(task("triviaqa").unwrap().prompting().stop, ["\n", ".", ","]);
}

#[test]
fn any_alias_counts_without_case_articles_and_punctuation() {
    let problems = problems();
    let right = |index: usize, answer: &str| problems[index].score(answer, Context::default()).unwrap() == [true];
    for answer in ["Danube", " the  DANUBE!", "The Danube", "donau", "a Donau", "\"Danube\"", "\u{2018}Danube\u{2019}"] {
        assert!(right(0, answer), "{answer:?}");
    }
    for answer in ["", "the", "Danube river", "Dan ube", "Goethe"] {
        assert!(!right(0, answer), "{answer:?}");
    }
    assert!(right(1, "J.W. von Goethe") && right(1, "J_W_von_Goethe") && !right(1, "JW von Goethe"));
    // No aliases: the value alone.
    assert!(right(2, "Au") && !right(2, "gold"));
}
