//! Data sets by which language models are compared: how their records are read, put as prompts and scored, and the statistics of a
//! comparison. Nothing here knows a model.

pub mod data;
mod error;
pub mod statistics;
mod task;

pub use error::{Error, Result};
pub use task::{Context, Problem, Prompting, Record, Task};

/// All tasks.
pub fn tasks() -> &'static [&'static dyn Task] {
    &[]
}

/// The task of this name; an error lists those there are.
pub fn task(name: &str) -> Result<&'static dyn Task> {
    let found = tasks().iter().find(|task| task.name() == name).copied();
    found.ok_or_else(|| Error::at("task", format!("{name:?} is not known")))
}
