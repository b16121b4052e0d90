//! The command line of dlmrs, as a function, so that the binary and the Python package offer the same command.

mod args;
mod batch;
mod bench;
mod canvas_view;
mod chat;
mod completions;
mod console;
mod ctrl_c;
mod demo;
mod eval;
mod failure;
mod files;
mod generate;
mod inspect;
mod messages;
mod quantize;
mod screen;

use std::ffi::OsString;
use std::io::Write;

use args::{Cli, Command};
use clap::Parser;
use console::Console;
use failure::Failure;

/// Runs a command line, the program's own name first, on the process's standard streams, and returns the exit code: 0, 1 for a
/// failure, 2 for wrong usage, 130 for Ctrl-C, which it takes over. A command that does not end soon after Ctrl-C, or at a second one, is
/// ended together with the process.
pub fn run(args: impl IntoIterator<Item = OsString>) -> i32 {
    ctrl_c::watch();
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            return match error.print().and_then(|()| std::io::stdout().flush()) {
                // Help that nobody reads is no failure.
                Err(failure) if failure.kind() != std::io::ErrorKind::BrokenPipe => 1,
                _ => error.exit_code(),
            };
        }
    };
    let interrupt = &ctrl_c::asked;
    let mut out = std::io::stdout().lock();
    let mut err = std::io::stderr(); // not locked: a panic of another thread must be able to say so
    let mut console = Console::new(&mut out, &mut err);
    let result = match cli.command {
        Command::Generate(args) => generate::run(&args, &mut console, interrupt),
        Command::Chat(args) => chat::run(&args, &mut console, interrupt),
        Command::Eval(args) => eval::run(&args, &mut console, interrupt),
        Command::Bench(args) => bench::run(&args, &mut console, interrupt),
        Command::Inspect(args) => inspect::run(&args, &mut console),
        Command::Quantize(args) => quantize::run(&args, &mut console, interrupt),
        Command::Demo(args) => demo::run(&args, &mut console, interrupt),
        Command::Completions(args) => completions::run(&args, &mut console),
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
