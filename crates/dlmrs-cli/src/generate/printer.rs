//! Outputs as they come, as text or JSON.

use dlmrs::{Event, Llm, Output};

use super::prompts::Prompt;
use super::{cost, json};
use crate::args::GenerateArgs;
use crate::batch::Sink;
use crate::canvas_view::CanvasView;
use crate::console::Console;
use crate::failure::Failure;

/// What is shown of an output before it is complete.
pub(super) enum Watching {
    Nothing,
    /// Text that is final, as it comes.
    Text,
    /// The canvas of each prompt.
    Canvas(Vec<CanvasView>),
}

/// Prints to the console.
pub(super) struct Printer<'a, 'c> {
    json: bool,
    stats: bool,
    llm: &'a Llm,
    prompts: &'a [Prompt],
    watching: Watching,
    console: &'a mut Console<'c>,
    /// Whether a text has begun that is not complete.
    begun: bool,
}

impl<'a, 'c> Printer<'a, 'c> {
    pub(super) fn new(args: &GenerateArgs, llm: &'a Llm, prompts: &'a [Prompt], watching: Watching, console: &'a mut Console<'c>) -> Self {
        Self { json: args.json, stats: args.stats, llm, prompts, watching, console, begun: false }
    }

    /// Leaves the screen in order, whatever ended the work.
    pub(super) fn close(self, complete: bool) -> Result<(), Failure> {
        self.console.clear_progress();
        if self.begun && !complete {
            self.console.print("\n")?;
        }
        Ok(())
    }

    /// What is printed of an output.
    fn text(&self, number: usize, output: &Output) -> String {
        let prompt = &self.prompts[number];
        if self.json {
            return json::object(number, prompt.id.as_ref(), prompt.has_masks, output, self.llm).to_string();
        }
        if self.llm.tokenizer().is_none() {
            let ids = if prompt.has_masks { &output.canvas_token_ids } else { &output.token_ids };
            return ids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
        }
        match json::filled_prompt(output, self.llm).filter(|_| prompt.has_masks) {
            Some(filled) => filled + &output.text,
            None => output.text.clone(),
        }
    }
}

impl Sink for Printer<'_, '_> {
    fn event(&mut self, number: usize, event: &Event) -> Result<(), Failure> {
        match (&mut self.watching, event) {
            (Watching::Canvas(views), event) => views[number].event(event, self.console.out)?,
            (Watching::Text, Event::Committed { text, .. }) if !text.is_empty() => {
                self.console.print(text)?;
                self.begun = true;
            }
            _ => {}
        }
        Ok(())
    }

    fn output(&mut self, number: usize, output: Output) -> Result<(), Failure> {
        if let Watching::Canvas(views) = &mut self.watching {
            views[number].erase(self.console.out)?;
        }
        self.console.clear_progress();
        let before = if number > 0 && !self.json { "\n" } else { "" };
        let text = self.text(number, &output);
        let rest = if std::mem::take(&mut self.begun) { "" } else { &text };
        self.console.print(&format!("{before}{rest}\n"))?;
        self.console.warn(&output.warnings);
        if self.stats {
            self.console.note(&cost(&output));
        }
        if number + 1 < self.prompts.len() {
            self.console.show_progress(&format!("{} of {} prompts done", number + 1, self.prompts.len()));
        }
        Ok(())
    }
}
