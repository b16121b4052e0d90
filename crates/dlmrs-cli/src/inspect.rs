//! `dlmrs inspect`: what a checkpoint is, without loading a weight.

use dlmrs::Llm;

use crate::args::InspectArgs;
use crate::console::Console;
use crate::failure::Failure;

/// Prints the report.
pub(crate) fn run(args: &InspectArgs, console: &mut Console<'_>) -> Result<(), Failure> {
    let report = Llm::inspect(&args.model, &args.overrides.overrides())?;
    let text = match args.json {
        true => serde_json::to_string_pretty(&report).map_err(|error| Failure::Said(error.to_string()))?,
        false => report.to_string(),
    };
    Ok(console.print(&format!("{text}\n"))?)
}
