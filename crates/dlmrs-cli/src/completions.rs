//! `dlmrs completions`: scripts for shells.

use clap::CommandFactory;

use crate::args::{Cli, CompletionsArgs};
use crate::console::Console;
use crate::failure::Failure;

/// Prints the script of a shell.
pub(crate) fn run(args: &CompletionsArgs, console: &mut Console<'_>) -> Result<(), Failure> {
    let mut script = Vec::new();
    // Not into the console: clap panics where it cannot write.
    clap_complete::generate(args.shell, &mut Cli::command(), "dlmrs", &mut script);
    Ok(console.print(&String::from_utf8_lossy(&script))?)
}
