//! One model at the problems.

use std::sync::Arc;

use dlmrs::tokenizer::{ChatOptions, Message, Specials};
use dlmrs::{Decoding, Event, Llm, Output, Request, SamplingParams};

use super::problems::Problem;
use super::tally::Tally;
use super::{MAX_TOKENS, PAUSE};
use crate::batch::{self, Sink};
use crate::canvas_view::CanvasView;
use crate::console::Console;
use crate::failure::Failure;
use crate::screen::Screen;

/// Solves one problem after the other and prints each as soon as it is solved.
pub(super) fn run(
    llm: &Arc<Llm>,
    decoding: &Decoding,
    problems: &[Problem],
    screen: Option<Screen>,
    console: &mut Console<'_>,
    interrupt: &dyn Fn() -> bool,
    tally: &mut Tally,
) -> Result<(), Failure> {
    for (index, problem) in problems.iter().enumerate() {
        console.print(&format!("{}. {}\n", index + 1, problem.question))?;
        let prompt =
            llm.require_tokenizer()?.encode_chat(&[Message::new("user", &problem.question)], &ChatOptions::default(), Specials::AsText)?;
        let view = screen.map(|screen| CanvasView::new(screen, llm, prompt.len(), MAX_TOKENS, PAUSE)).transpose()?;
        let params = SamplingParams { max_tokens: MAX_TOKENS, ..SamplingParams::default() };
        let request = Request { prompt, params, decoding: Some(decoding.clone()) };
        let colour = screen.is_some_and(|screen| screen.colour);
        let mut solver = Solver { problem, view, colour, console, tally };
        batch::run(llm, vec![request], &[], 1, interrupt, &mut solver)?;
    }
    Ok(())
}

/// Shows how one problem is solved, and whether the result is right.
struct Solver<'a, 'c> {
    problem: &'a Problem,
    view: Option<CanvasView>,
    colour: bool,
    console: &'a mut Console<'c>,
    tally: &'a mut Tally,
}

impl Sink for Solver<'_, '_> {
    fn event(&mut self, _number: usize, event: &Event) -> Result<(), Failure> {
        match &mut self.view {
            Some(view) => Ok(view.event(event, self.console.out)?),
            None => Ok(()),
        }
    }

    fn output(&mut self, _number: usize, output: Output) -> Result<(), Failure> {
        if let Some(view) = &mut self.view {
            view.erase(self.console.out)?;
        }
        let right = self.problem.is_right(&output.text)?;
        self.tally.count(right, &output.stats);
        let verdict = match (right, self.colour) {
            (true, false) => "right".to_string(),
            (true, true) => "\x1b[32mright\x1b[0m".to_string(),
            (false, false) => format!("wrong, it is {}", self.problem.answer),
            (false, true) => format!("\x1b[31mwrong\x1b[0m, it is {}", self.problem.answer),
        };
        let (tokens, passes) = (output.stats.tokens, output.stats.total_passes());
        self.console.warn(&output.warnings);
        Ok(self.console.print(&format!("   {}\n   {verdict} ({tokens} tokens in {passes} passes)\n\n", output.text.trim()))?)
    }
}
