//! Data sets by which language models are compared: how their records are read, put as prompts and scored, and the statistics of a
//! comparison. Nothing here knows a model.

mod code_answer;
pub mod data;
mod error;
pub mod execute;
mod gsm8k;
mod humaneval;
mod mbpp;
mod mmlu;
mod record;
pub mod statistics;
mod task;
mod triviaqa;
mod word_problems;

pub use error::{Error, Result};
pub use record::Record;
pub use task::{Context, Problem, Prompting, Task};

/// All tasks.
pub fn tasks() -> &'static [&'static dyn Task] {
    &[
        &word_problems::WordProblems,
        &gsm8k::Gsm8k,
        &mmlu::Mmlu,
        &triviaqa::TriviaQa,
        &humaneval::HumanEval::BASE,
        &humaneval::HumanEval::INSTRUCT,
        &mbpp::Mbpp,
    ]
}

/// The task of this name; an error lists those there are.
pub fn task(name: &str) -> Result<&'static dyn Task> {
    let found = tasks().iter().find(|task| task.name() == name).copied();
    found.ok_or_else(|| {
        let names: Vec<_> = tasks().iter().map(|task| task.name()).collect();
        Error::at("task", format!("{name:?} is not known; there are {}", names.join(", ")))
    })
}
