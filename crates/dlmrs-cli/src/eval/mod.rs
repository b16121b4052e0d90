//! `dlmrs eval`.

use crate::args::EvalArgs;
use crate::console::Console;
use crate::failure::Failure;

/// Runs the command.
pub(crate) fn run(args: &EvalArgs, console: &mut Console<'_>, interrupt: &dyn Fn() -> bool) -> Result<(), Failure> {
    let _ = (console, interrupt);
    Err(Failure::Said(format!("{}: not built yet", args.model)))
}
