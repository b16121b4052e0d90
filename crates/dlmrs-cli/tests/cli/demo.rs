//! `dlmrs demo`.

use crate::common::{ANSWER, PROBLEM, good, run};

#[test]
fn two_problems_with_both_models() {
    let out = good(&["demo", "--problems", "2"]);
    assert!(!out.contains('\x1b'), "{out}");
    assert_eq!(out.matches(&format!("1. {PROBLEM}\n   {ANSWER}\n   right (45 tokens in ")).count(), 2, "{out}");
    assert!(!out.contains("3. "));
    let last: Vec<&str> = out.lines().rev().take(2).collect();
    assert!(last[1].starts_with("tiny-sdar (BlockDiffusion): 2 of 2 right, 90 tokens in "), "{out}");
    assert!(last[0].starts_with("tiny-llada (Canvas): 2 of 2 right, 90 tokens in ") && last[0].ends_with(" tokens a pass"), "{out}");
}

#[test]
fn one_model_and_wrong_answers() {
    let out = good(&["demo", "--problems", "3", "--model", "tiny-sdar", "--plain"]);
    assert!(out.contains("   wrong, it is 90 ("), "{out}");
    assert!(out.contains("2 of 3 right") && !out.contains("tiny-llada"), "{out}");
}

#[test]
fn wrong_usage() {
    for args in [["demo", "--problems", "0"], ["demo", "--problems", "21"], ["demo", "--problems", "x"]] {
        assert_eq!(run(&args).code, Some(2), "{args:?}");
    }
    let run = run(&["demo", "--model", "tiny-gpt"]);
    assert_eq!(run.code, Some(1));
    assert!(run.err.contains("tiny-gpt"), "{}", run.err);
}
