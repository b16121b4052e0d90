//! GSM8K: word problems of primary school.

use std::sync::LazyLock;

use regex::Regex;

use crate::{Context, Problem, Prompting, Record, Result, Task};

/// GSM8K (Cobbe et al. 2021).
pub(crate) struct Gsm8k;

impl Task for Gsm8k {
    fn name(&self) -> &'static str {
        "gsm8k"
    }

    fn about(&self) -> &'static str {
        "1,319 word problems of primary school; GSM8K, github.com/openai/grade-school-math (test.jsonl) or openai/gsm8k on the hub (main)"
    }

    fn prompting(&self) -> Prompting {
        Prompting { shots: 4, max_tokens: 256, stop: &["Question:", "</s>", "<|im_end|>"] }
    }

    /// The flexible score goes first: it counts what was solved, the strict one also how it was written.
    fn metrics(&self) -> &'static [&'static str] {
        &["flexible", "strict"]
    }

    fn read(&self, record: &Record) -> Result<Box<dyn Problem>> {
        let answer = record.text("answer")?;
        if strict(answer).is_none() {
            return Err(record.error("the field \"answer\" does not end in #### and a number"));
        }
        Ok(Box::new(WordProblem { question: record.text("question")?.into(), answer: answer.into() }))
    }
}

struct WordProblem {
    question: String,
    answer: String,
}

impl Problem for WordProblem {
    fn question(&self) -> String {
        format!("Question: {}\nAnswer:", self.question)
    }

    fn worked(&self) -> String {
        format!("{} {}", self.question(), self.answer)
    }

    fn score(&self, answer: &str, _: Context<'_>) -> Result<Vec<bool>> {
        let wanted = comparable(&self.answer);
        let right = |found: Option<&str>| found.is_some_and(|found| comparable(found) == wanted);
        Ok(vec![right(flexible(answer)), right(strict(answer))])
    }
}

/// The first number written as in the data set.
fn strict(answer: &str) -> Option<&str> {
    static PATTERN: LazyLock<Regex> = LazyLock::new(|| pattern(r"#### (-?[0-9.,]+)"));
    Some(PATTERN.captures(answer)?.get(1)?.as_str())
}

/// The last thing that looks like a number.
fn flexible(answer: &str) -> Option<&str> {
    static PATTERN: LazyLock<Regex> = LazyLock::new(|| pattern(r"-?[$0-9.,]{2,}|-?[0-9]+"));
    PATTERN.find_iter(answer).last().map(|found| found.as_str())
}

#[expect(clippy::expect_used, reason = "the patterns are constants, and each is used by a test")]
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a constant pattern")
}

/// What is compared: nothing up to the last `#### `, no comma, no dollar sign, no full stop at the end, lower case.
fn comparable(text: &str) -> String {
    let number = text.rsplit_once("#### ").map_or(text, |(_, number)| number).trim();
    let number = number.replace([',', '$'], "");
    number.strip_suffix('.').unwrap_or(&number).to_lowercase()
}
