//! The project's own word problems.

use crate::{Context, Problem, Prompting, Record, Result, Task};

/// Arithmetic word problems, made for the bundled models.
pub(crate) struct WordProblems;

impl Task for WordProblems {
    fn name(&self) -> &'static str {
        "word_problems"
    }

    fn about(&self) -> &'static str {
        "1,000 arithmetic word problems, for the bundled models; built in, and in the sources crates/dlmrs-tasks/data/word_problems.jsonl"
    }

    fn prompting(&self) -> Prompting {
        Prompting { shots: 0, max_tokens: 96, stop: &[] }
    }

    fn metrics(&self) -> &'static [&'static str] {
        &["exact_match"]
    }

    fn read(&self, record: &Record) -> Result<Box<dyn Problem>> {
        let answer = record.text("answer")?;
        if number(answer).is_none() {
            return Err(record.error("the field \"answer\" has no number after ####"));
        }
        Ok(Box::new(WordProblem { question: record.text("question")?.into(), answer: answer.into() }))
    }

    fn bundled(&self) -> Option<&'static str> {
        Some(include_str!("../data/word_problems.jsonl"))
    }
}

struct WordProblem {
    question: String,
    answer: String,
}

impl Problem for WordProblem {
    fn question(&self) -> String {
        self.question.clone()
    }

    fn worked(&self) -> String {
        format!("{}\n{}", self.question, self.answer)
    }

    fn score(&self, answer: &str, _: Context<'_>) -> Result<Vec<bool>> {
        Ok(vec![number(answer).is_some_and(|found| Some(found) == number(&self.answer))])
    }
}

/// The word after the first `####`.
fn number(answer: &str) -> Option<&str> {
    answer.split_once("####")?.1.split_whitespace().next()
}
