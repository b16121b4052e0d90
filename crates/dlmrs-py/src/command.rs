//! The command line, run by Python.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs the command `dlmrs` with these arguments, the first of which is the program's name, and gives its exit status. It takes over
/// Ctrl-C, as the standalone binary does.
#[pyfunction]
#[pyo3(signature = (args, /))]
pub(crate) fn run_cli(py: Python<'_>, args: Vec<OsString>) -> i32 {
    py.detach(|| dlmrs_cli::run(args))
}
