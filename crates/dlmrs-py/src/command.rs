//! The command line, run by Python.

use std::cell::RefCell;
use std::ffi::OsString;

use pyo3::prelude::*;

use crate::generate::Signals;

/// Runs the command `dlmrs` with these arguments, the first of which is the program's name, and gives its exit status.
#[pyfunction]
#[pyo3(signature = (args, /))]
pub(crate) fn run_cli(py: Python<'_>, args: Vec<OsString>) -> i32 {
    // A handler that raises means to stop; what it raised is answered by the exit status, as in the standalone binary.
    py.detach(|| {
        let signals = RefCell::new(Signals::default());
        dlmrs_cli::run(args, &|| !signals.borrow_mut().go_on())
    })
}
