//! MMLU: multiple choice by a generated letter.

use serde_json::Value;

use crate::record::kind;
use crate::{Context, Problem, Prompting, Record, Result, Task};

const LETTERS: [char; 4] = ['A', 'B', 'C', 'D'];

/// MMLU (Hendrycks et al. 2021).
pub(crate) struct Mmlu;

impl Task for Mmlu {
    fn name(&self) -> &'static str {
        "mmlu"
    }

    fn about(&self) -> &'static str {
        "14,042 questions with four choices in 57 subjects; MMLU, cais/mmlu on the hub (all/test-*.parquet, shots from all/dev-*.parquet)"
    }

    fn prompting(&self) -> Prompting {
        Prompting { shots: 5, max_tokens: 32, stop: &["</s>", "\n"] }
    }

    fn metrics(&self) -> &'static [&'static str] {
        &["exact_match"]
    }

    fn read(&self, record: &Record) -> Result<Box<dyn Problem>> {
        let choices = record.texts("choices")?;
        let choices: [&str; 4] = choices
            .try_into()
            .map_err(|found: Vec<_>| record.error(format!("the field \"choices\" has {} items, it should have 4", found.len())))?;
        Ok(Box::new(Choice {
            subject: record.text("subject")?.replace('_', " "),
            question: record.text("question")?.trim().into(),
            choices: choices.map(Into::into),
            answer: right_choice(record)?,
        }))
    }

    /// One line names the subject, for all questions.
    fn prompt(&self, shots: &[&dyn Problem], problem: &dyn Problem) -> String {
        let subject = problem.group().unwrap_or_default();
        let header = format!("The following are multiple choice questions (with answers) about {subject}.\n\n");
        let worked = shots.iter().map(|shot| shot.worked() + "\n\n");
        [header].into_iter().chain(worked).chain([problem.question()]).collect()
    }
}

/// The answer, published as a number from 0 or as a letter.
fn right_choice(record: &Record) -> Result<usize> {
    let wanted = "0 to 3, or A to D";
    let value = record.field("answer", wanted)?;
    let found = match value {
        Value::Number(number) => number.as_u64().and_then(|number| usize::try_from(number).ok()).filter(|&number| number < 4),
        Value::String(letter) => LETTERS.iter().position(|known| letter.trim() == known.to_string()),
        _ => None,
    };
    let text = if matches!(value, Value::Number(_) | Value::String(_)) { value.to_string() } else { kind(value).into() };
    found.ok_or_else(|| record.error(format!("the field \"answer\" is {text}, it should be {wanted}")))
}

struct Choice {
    subject: String,
    question: String,
    choices: [String; 4],
    answer: usize,
}

impl Problem for Choice {
    fn question(&self) -> String {
        let choices = LETTERS.iter().zip(&self.choices).map(|(letter, choice)| format!("{letter}. {choice}\n"));
        [format!("{}\n", self.question)].into_iter().chain(choices).chain(["Answer:".into()]).collect()
    }

    fn worked(&self) -> String {
        format!("{} {}", self.question(), LETTERS[self.answer])
    }

    fn group(&self) -> Option<&str> {
        Some(&self.subject)
    }

    fn score(&self, answer: &str, _: Context<'_>) -> Result<Vec<bool>> {
        Ok(vec![letter(answer) == Some(LETTERS[self.answer])])
    }
}

/// The first of A to D that is no part of a word.
fn letter(answer: &str) -> Option<char> {
    let mut words = answer.split(|c: char| !(c.is_alphanumeric() || matches!(c, '\'' | '\u{2019}')));
    words.find_map(|word| LETTERS.into_iter().find(|letter| word.chars().eq([*letter])))
}
