//! `dlmrs generate`: prompts in, texts out.

mod cost;
mod json;
mod printer;
mod prompts;
mod source;

use std::time::Duration;

use dlmrs::Request;

use crate::args::GenerateArgs;
use crate::batch;
use crate::canvas_view::CanvasView;
use crate::console::Console;
use crate::failure::Failure;
use printer::{Printer, Watching};

pub(crate) use cost::sentence as cost;
pub(crate) use json::{object as output_json, stats};
pub(crate) use prompts::{Framing, Prompt, encode};
pub(crate) use source::{Content, Source, files};

/// Reads the prompts, loads the model, checks everything, and prints each output as soon as it and those before it are done.
pub(crate) fn run(args: &GenerateArgs, console: &mut Console<'_>, interrupt: &dyn Fn() -> bool) -> Result<(), Failure> {
    let sources = source::read(args)?;
    let llm = console.load(&args.model, &args.load, &args.overrides.overrides(), interrupt)?;
    let options = args.template.options()?;
    let framing = Framing {
        args: Some(&args.framing),
        parse_specials: args.parse_specials,
        options: Some(&options),
        template_option: args.template.given(),
    };
    let prompts = sources.into_iter().map(|source| encode(source, &llm, &framing)).collect::<Result<Vec<_>, _>>()?;
    if let Some(tokenizer) = llm.tokenizer() {
        console.warn(&args.template.warnings(tokenizer)?);
    }
    let decoding = args.decoding.decoding(&llm)?;
    let params = args.sampling.params();
    prompts.iter().try_for_each(|prompt| prompt.check(params.max_tokens))?;
    let request = |ids: &Vec<u32>| Request { prompt: ids.clone(), params: params.clone(), decoding: Some(decoding.clone()) };
    let requests: Vec<Request> = prompts.iter().map(|prompt| request(&prompt.ids)).collect();
    let places: Vec<&str> = prompts.iter().map(|prompt| prompt.place.as_str()).collect();
    batch::check(&llm, &requests, &places)?;

    // One canvas at a time can be watched.
    let (watching, together) = match (args.watch, console.screen) {
        (true, Some(screen)) => {
            let view = |prompt: &prompts::Prompt| CanvasView::new(screen, &llm, prompt.ids.len(), params.max_tokens, Duration::ZERO);
            (Watching::Canvas(prompts.iter().map(view).collect::<dlmrs::Result<_>>()?), 1)
        }
        _ if prompts.len() == 1 && !args.json && !prompts[0].has_masks => (Watching::Text, 1),
        _ => (Watching::Nothing, args.batch),
    };
    let mut printer = Printer::new(args, &llm, &prompts, watching, console);
    let result = batch::run(&llm, requests, &places, together, interrupt, &mut printer);
    printer.close(result.is_ok())?;
    result
}
