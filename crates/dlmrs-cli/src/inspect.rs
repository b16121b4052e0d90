//! `dlmrs inspect`: what a checkpoint is, without loading a weight.

use dlmrs::Folder;
use dlmrs::checkpoint::inspect;
use dlmrs::tokenizer::Tokenizer;

use crate::args::InspectArgs;
use crate::console::Console;
use crate::failure::Failure;

/// Prints the report.
pub(crate) fn run(args: &InspectArgs, console: &mut Console<'_>) -> Result<(), Failure> {
    let folder = Folder::open(&args.model)?;
    let tokenizer = Tokenizer::from_files(&folder)?;
    let mask = tokenizer.as_ref().and_then(Tokenizer::mask_token_id);
    let eos = tokenizer.as_ref().and_then(Tokenizer::eos_token_id);
    let report = inspect(&folder, &args.overrides.overrides(), mask, eos)?;
    let text = match args.json {
        true => serde_json::to_string_pretty(&report).map_err(|error| Failure::Said(error.to_string()))?,
        false => report.to_string(),
    };
    Ok(console.print(&format!("{text}\n"))?)
}
