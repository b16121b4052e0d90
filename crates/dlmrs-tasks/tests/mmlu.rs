//! MMLU: prompts and the letter that counts.
#![allow(clippy::unwrap_used, clippy::expect_used)] // tests

use std::path::Path;

use dlmrs_tasks::{Context, Problem, data, task};

fn problems() -> Vec<Box<dyn Problem>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/mmlu.parquet");
    data::problems(task("mmlu").unwrap(), &data::read(&path).unwrap()).unwrap()
}

#[test]
fn the_prompt_names_the_subject() {
    let problems = problems();
    assert_eq!(
        problems.iter().map(|problem| problem.group()).collect::<Vec<_>>(),
        [Some("abstract algebra"), Some("abstract algebra"), Some("anatomy")]
    );
    let prompt = task("mmlu").unwrap().prompt(&[problems[1].as_ref()], problems[0].as_ref());
    let wanted = "The following are multiple choice questions (with answers) about abstract algebra.\n\n\
                  What is the order of the trivial group?\nA. 0\nB. 1\nC. 2\nD. 3\nAnswer: B\n\n\
                  Which of these is a prime number?\nA. 9\nB. 15\nC. 17\nD. 21\nAnswer:";
    assert_eq!(prompt, wanted);
}

#[test]
fn the_first_letter_that_stands_alone() {
    let problems = problems();
    let right = |answer: &str| problems[0].score(answer, Context::default()).unwrap() == [true];
    for answer in [" C", "C", "C.", "(C)", "**C**", "C. 17", "\\boxed{C}", "The answer is C, not A", "Answer: C", "CD or C", "it's C"] {
        assert!(right(answer), "{answer:?}");
    }
    for answer in ["", "c", "A or C", "17", "Certainly", "D", "C17", "Can't say", "E", "C'est"] {
        assert!(!right(answer), "{answer:?}");
    }
}
