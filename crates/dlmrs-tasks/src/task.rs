//! What a task is: records become problems, problems become prompts, and answers are scored.

use crate::{Record, Result};

/// How a task is run unless the user says otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Prompting {
    /// Worked examples before the question, as in the common harness.
    pub shots: usize,
    /// The most tokens of an answer.
    pub max_tokens: usize,
    /// Strings before which an answer ends.
    pub stop: &'static [&'static str],
}

/// What judging may need.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    /// The Python that runs programs which a model wrote; None where that was not allowed.
    pub python: Option<&'a std::path::Path>,
}

/// A data set's way of asking and judging.
pub trait Task: Sync {
    /// As the user types it, e.g. "gsm8k".
    fn name(&self) -> &'static str;

    /// What it is, in a line: the data, where it is published, which files.
    fn about(&self) -> &'static str;

    /// Its settings.
    fn prompting(&self) -> Prompting;

    /// The names of the scores, the main one first.
    fn metrics(&self) -> &'static [&'static str];

    /// Whether scoring runs what the model wrote.
    fn runs_code(&self) -> bool {
        false
    }

    /// Reads a record; an error names its place, the field and what would be right.
    fn read(&self, record: &Record) -> Result<Box<dyn Problem>>;

    /// The data that comes with the task, as JSON lines; most tasks bring none.
    fn bundled(&self) -> Option<&'static str> {
        None
    }

    /// The prompt: worked examples (all of the same [`Problem::group`]), then the question.
    fn prompt(&self, shots: &[&dyn Problem], problem: &dyn Problem) -> String {
        let worked = shots.iter().map(|shot| shot.worked() + "\n\n");
        worked.chain([problem.question()]).collect()
    }
}

/// One problem of a data set.
pub trait Problem: Send + Sync {
    /// The question, as it ends a prompt.
    fn question(&self) -> String;

    /// The question with its answer, as a worked example.
    fn worked(&self) -> String;

    /// Problems with other groups make no worked examples for it (MMLU's subject).
    fn group(&self) -> Option<&str> {
        None
    }

    /// Whether the answer is right, by each of the task's metrics. An error means that it could not be judged (no Python, no
    /// permission), never that the answer is bad.
    fn score(&self, answer: &str, context: Context<'_>) -> Result<Vec<bool>>;
}
