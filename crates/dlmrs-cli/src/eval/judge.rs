//! Whether what a model wrote may be run, and by what.

use std::path::Path;

use dlmrs_tasks::Task;
use dlmrs_tasks::execute::{Guard, Python};
use serde_json::{Value, json};

use crate::args::EvalArgs;
use crate::console::Console;
use crate::failure::Failure;

/// In PATH.
const PYTHON: &str = "python3";

/// The Python that judges answers, and what keeps programs in.
pub(super) struct Judge {
    python: Python,
    guard: Guard,
}

impl Judge {
    /// For a task that runs code, if that is allowed; None for one that does not.
    pub(super) fn of_task(args: &EvalArgs, task: &dyn Task, console: &mut Console<'_>) -> Result<Option<Self>, Failure> {
        if !task.runs_code() {
            return Ok(None);
        }
        if !args.allow_code_execution {
            let message = "is judged by running what the model writes; allow that with --allow-code-execution, \
                           after reading docs/code_execution.md";
            return Err(Failure::Said(format!("{} {message}", task.name())));
        }
        let python = Python::find(Path::new(PYTHON))?;
        let guard = python.guard()?;
        if !guard.is_kernel() {
            console.say("warning", &format!("programs are held back by Python alone here, which one that means harm can escape ({guard})"));
        }
        Ok(Some(Self { python, guard }))
    }

    /// The interpreter.
    pub(super) fn path(&self) -> &Path {
        self.python.path()
    }

    /// For the manifest.
    pub(super) fn json(&self) -> Value {
        json!({"python": self.python.version(), "files": self.guard.files, "processes": self.guard.processes})
    }
}
