//! Running programs that a model wrote: in a process of their own, with limits, locked into a new folder.
//!
//! docs/code_execution.md says what is held back and what is not. The limits are set by a small Python program of ours
//! (`guard.py`, `bootstrap.py`) before the model's program runs in the same process.

#[cfg(unix)]
mod folder;
mod guard;
#[cfg(unix)]
mod process;
mod python;
#[cfg(unix)]
mod run;
#[cfg(all(test, unix))]
mod tests;

use std::time::Duration;

pub use guard::Guard;
pub use python::Python;

/// What a program may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From start to end, that of Python included.
    pub time: Duration,
    /// Of all processors together, in whole seconds.
    pub cpu_seconds: u64,
    /// Bytes of address space.
    pub memory: u64,
    /// Bytes of a file.
    pub file_size: u64,
    /// Files, pipes and the like that are open at a time.
    pub open_files: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { time: Duration::from_secs(10), cpu_seconds: 10, memory: 1 << 30, file_size: 16 << 20, open_files: 64 }
    }
}

/// What is run: a program in one of several readings, then tests that raise if it is wrong.
#[derive(Clone, Debug)]
pub struct Program {
    /// Ways to read the answer. The one of which most lines make a valid program counts, the first of equals.
    pub readings: Vec<Reading>,
    /// The function that is asked for. A reading that defines it goes before all others, and of the program only definitions, imports
    /// and assignments run.
    pub entry_point: Option<String>,
    /// What runs afterwards, with the program's names.
    pub tests: String,
}

impl Program {
    /// A program that is read in one way.
    pub fn new(source: impl Into<String>, tests: impl Into<String>) -> Self {
        Self { readings: vec![Reading { given: String::new(), answer: source.into() }], entry_point: None, tests: tests.into() }
    }
}

/// A way to read an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Goes before the answer's text and is kept whole.
    pub given: String,
    /// Is cut from the end, line by line, until both together are valid; lines after the first 100 do not count.
    pub answer: String,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The tests ran to their end.
    Passed,
    /// The program or its tests raised, or the process ended before they were over: the last line of the traceback, or how it ended.
    Failed(String),
    /// The time or the CPU time was over.
    TimedOut,
    /// The program wanted more memory than it may have.
    OutOfMemory,
    /// The process could not be locked in, or the tests are not valid Python, so the program did not run.
    Refused(String),
}

/// A run and what it left.
#[derive(Clone, Debug)]
pub struct Run {
    /// What came of it.
    pub outcome: Outcome,
    /// What kept it in; None if it was refused.
    pub guard: Option<Guard>,
    /// The beginning of what the program printed, to output and error output, with replacement characters for what is not UTF-8.
    pub output: String,
}
