//! `dlmrs demo`: the main job on the models inside the binary, with no argument and no network.

mod play;
pub(crate) mod problems;
mod tally;

use std::sync::Arc;
use std::time::Duration;

use dlmrs::{BlockDiffusion, Canvas, Decoding, Llm, LoadOptions, Overrides};

use crate::args::DemoArgs;
use crate::console::Console;
use crate::failure::Failure;
use tally::Tally;

/// The bundled models that are shown: one for each way of decoding.
const MODELS: [&str; 2] = ["tiny-sdar", "tiny-llada"];

/// Enough for the longest worked answer.
const MAX_TOKENS: usize = 96;

/// How long a state of the canvas stays, so that it can be seen.
const PAUSE: Duration = Duration::from_millis(40);

/// What an animation means.
const ANIMATED: &str = "\n(dots: undecided; reversed: just decided; underlined: not final yet; slowed down to be seen, --plain is not)";

/// Solves the problems with each model.
pub(crate) fn run(args: &DemoArgs, console: &mut Console<'_>, interrupt: &dyn Fn() -> bool) -> Result<(), Failure> {
    let models = match &args.model {
        Some(model) => vec![model.as_str()],
        None if cfg!(feature = "bundled") => MODELS.to_vec(),
        None => {
            let message = "this build has no bundled models; build with `cargo build --release -p dlmrs-cli --features bundled`, \
                           or give a model folder with --model";
            return Err(Failure::Said(message.into()));
        }
    };
    let problems = problems::first(args.problems.into())?;
    let mut tallies = Vec::new();
    for model in models {
        let llm = Llm::load(model, &LoadOptions::default(), &Overrides::default())?;
        let decoding = settings(&llm);
        let screen = console.screen.filter(|_| !args.plain);
        console.print(&format!("{}\n\n", introduction(&llm, &decoding, screen.is_some())))?;
        let mut tally = Tally::new(llm.name(), decoding.clone());
        play::run(&llm, &decoding, &problems, screen, console, interrupt, &mut tally)?;
        tallies.push(tally);
    }
    for tally in &tallies {
        console.print(&format!("{tally}\n"))?;
    }
    Ok(())
}

/// The method of the model, with settings that show it well.
fn settings(llm: &Arc<Llm>) -> Decoding {
    match llm.own_decoding() {
        own @ Decoding::SubBlock(_) => own,
        Decoding::Canvas(_) => Decoding::Canvas(Canvas { block_length: Some(8), threshold: Some(0.9), ..Canvas::default() }),
        _ => Decoding::Block(BlockDiffusion::default()),
    }
}

fn introduction(llm: &Llm, decoding: &Decoding, animated: bool) -> String {
    let method = match decoding {
        Decoding::Canvas(canvas) => {
            let length = canvas.block_length.unwrap_or(MAX_TOKENS);
            format!("canvas diffusion, every pass sees all {MAX_TOKENS} slots and decides those it is sure of, {length} at a time")
        }
        Decoding::SubBlock(_) => {
            let length = llm.facts().block_length.unwrap_or(1);
            format!("block diffusion in sub-blocks, blocks of {length} from left to right; finished blocks are cached, exactly")
        }
        _ => {
            let length = llm.facts().block_length.unwrap_or(1);
            format!("block diffusion, blocks of {length} from left to right; finished blocks are cached, exactly")
        }
    };
    let note = if animated { ANIMATED } else { "" };
    format!("{}: {method}{note}", llm.name())
}
