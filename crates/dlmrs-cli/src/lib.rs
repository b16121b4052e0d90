//! The command line of dlmrs, as a function, so that the binary and the Python package offer the same command.

mod args;
mod batch;
mod bench;
mod canvas_view;
mod chat;
mod console;
mod demo;
mod eval;
mod failure;
mod generate;
mod inspect;
mod screen;

use std::ffi::OsString;

use args::{Cli, Command};
use clap::Parser;
use console::Console;
use failure::Failure;

/// Runs a command line, the program's own name first, on the process's standard streams, and returns the exit code: 0, 1 for a
/// failure, 2 for wrong usage, 130 once `interrupt` has said that the user asked to stop. It is asked between passes.
pub fn run(args: impl IntoIterator<Item = OsString>, interrupt: &dyn Fn() -> bool) -> i32 {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // Help that nobody reads is no failure.
            let _ = error.print();
            return error.exit_code();
        }
    };
    let mut out = std::io::stdout().lock();
    let mut err = std::io::stderr(); // not locked: a panic of another thread must be able to say so
    let mut console = Console::new(&mut out, &mut err);
    let result = match cli.command {
        Command::Generate(args) => generate::run(&args, &mut console, interrupt),
        Command::Chat(args) => chat::run(&args, &mut console, interrupt),
        Command::Eval(args) => eval::run(&args, &mut console, interrupt),
        Command::Bench(args) => bench::run(&args, &mut console, interrupt),
        Command::Inspect(args) => inspect::run(&args, &mut console),
        Command::Demo(args) => demo::run(&args, &mut console, interrupt),
    };
    let result = result.and_then(|()| console.out.flush().map_err(Failure::from));
    match result {
        Ok(()) => 0,
        Err(failure) => {
            if let Some(message) = failure.message() {
                console.say("error", &message);
            }
            failure.exit_code()
        }
    }
}
