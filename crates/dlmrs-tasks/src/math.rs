//! MATH: problems of competitions, whose answers are mathematical expressions.

mod equal;
mod extract;
mod normal;
mod value;

use crate::{Context, Problem, Prompting, Record, Result, Task};

/// MATH (Hendrycks et al. 2021), asked as in Minerva (Lewkowycz et al. 2022).
pub(crate) struct Math;

impl Task for Math {
    fn name(&self) -> &'static str {
        "math"
    }

    fn about(&self) -> &'static str {
        "5,000 problems of competitions; MATH, EleutherAI/hendrycks_math on the hub (test-*.parquet of each subject, shots from \
         train-*.parquet), or HuggingFaceH4/MATH-500 (test.jsonl)"
    }

    fn prompting(&self) -> Prompting {
        Prompting { shots: 4, max_tokens: 256, stop: &["Problem:"] }
    }

    /// The flexible score goes first: it counts what was solved, the strict one also how it was written.
    fn metrics(&self) -> &'static [&'static str] {
        &["flexible", "strict"]
    }

    fn read(&self, record: &Record) -> Result<Box<dyn Problem>> {
        let solution = record.text("solution")?;
        let answer = match extract::boxed(solution) {
            Some(answer) => answer,
            // MATH-500 has it apart.
            None if record.fields.contains_key("answer") => record.text("answer")?,
            None => return Err(record.error("the field \"solution\" has no \\boxed{answer}")),
        };
        Ok(Box::new(Exercise { problem: record.text("problem")?.into(), solution: solution.into(), answer: answer.into() }))
    }
}

struct Exercise {
    problem: String,
    solution: String,
    answer: String,
}

impl Problem for Exercise {
    fn question(&self) -> String {
        format!("Problem:\n{}\n\nSolution:", self.problem)
    }

    /// The sentence at the end is what the strict score looks for; the data set's solutions have none.
    fn worked(&self) -> String {
        let Self { solution, answer, .. } = self;
        format!("{} {solution}\n{} ${answer}$. {}", self.question(), extract::SENTENCE, extract::SENTENCE_END)
    }

    fn score(&self, answer: &str, _: Context<'_>) -> Result<Vec<bool>> {
        let right = |found: Option<&str>| found.is_some_and(|found| equal::equal(found, &self.answer));
        let strict = extract::sentence(answer);
        Ok(vec![right(strict.or_else(|| extract::boxed(answer))), right(strict)])
    }
}
