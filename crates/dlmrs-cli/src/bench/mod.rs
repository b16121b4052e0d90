//! `dlmrs bench`: what generation costs, for several settings in one run.

mod json;
mod kernels;
mod machine;
mod memory;
mod prompts;
mod report;
mod rounds;
mod setting;
mod statistics;
mod table;
mod turn;

use crate::args::BenchArgs;
use crate::console::Console;
use crate::failure::Failure;
use machine::Machine;
use report::Report;
use rounds::Bench;
use setting::Choice;

/// Measures, and prints what was measured. After Ctrl-C these are the rounds that were complete.
pub(crate) fn run(args: &BenchArgs, console: &mut Console<'_>, interrupt: &dyn Fn() -> bool) -> Result<(), Failure> {
    if args.kernels {
        return kernels::run(args, console, interrupt);
    }
    let choices = setting::choices(args)?;
    let sources = prompts::sources(args)?;
    let options = args.load.options()?;
    let llm = console.load(&args.model, &args.load, &args.overrides.overrides(), interrupt)?;
    let prompts = prompts::encode(sources, &llm, args)?;
    let settings = choices.into_iter().map(|choice: Choice| choice.ready(&llm, &prompts)).collect::<Result<Vec<_>, _>>()?;
    let bench = Bench { llm: &llm, settings: &settings, prompts: &prompts, batch: args.batch, rounds: args.rounds() };
    let (rounds, ended) = bench.measure(console, interrupt);
    console.clear_progress();
    if !matches!(ended, Ok(()) | Err(Failure::Interrupted)) || rounds.is_empty() {
        return ended;
    }
    let report = Report::new(&bench, &rounds, Machine::of(&llm, options.backend));
    report.warnings().iter().for_each(|warning| console.say("warning", warning));
    let text = match args.json {
        true => format!("{:#}", json::object(&report)),
        false => table::text(&report),
    };
    console.print(&format!("{text}\n"))?;
    ended
}
