//! Whether what a model wrote may be run, and by what.

use std::path::PathBuf;

use dlmrs_tasks::Task;

use crate::args::EvalArgs;
use crate::failure::Failure;

const PYTHON: &str = "python3";

/// The Python for a task that runs code; None for one that does not.
pub(super) fn for_task(args: &EvalArgs, task: &dyn Task) -> Result<Option<PathBuf>, Failure> {
    if !task.runs_code() {
        return Ok(None);
    }
    if !args.allow_code_execution {
        let message = "is judged by running the programs that the model writes; allow that with --allow-code-execution, \
                       on a machine where nothing can be lost";
        return Err(Failure::Said(format!("{} {message}", task.name())));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let python = std::env::split_paths(&path).map(|folder| folder.join(PYTHON).with_extension(std::env::consts::EXE_EXTENSION));
    match python.into_iter().find(|python| python.is_file()) {
        Some(python) => Ok(Some(python)),
        None => Err(Failure::Said(format!("{} needs {PYTHON} to judge answers, but there is none on PATH; install it", task.name()))),
    }
}
