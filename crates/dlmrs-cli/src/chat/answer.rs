//! One answer: a request through an engine, shown as it comes.

use std::sync::Arc;
use std::time::Duration;

use dlmrs::{Event, Llm, Output, Request};

use crate::canvas_view::CanvasView;
use crate::console::Console;
use crate::ctrl_c;
use crate::failure::Failure;
use crate::screen::{self, Screen};

/// What is shown of an answer.
pub(super) enum View {
    /// Nothing; the caller prints the output.
    Nothing,
    /// Text that is final, as it comes.
    Text,
    /// The canvas while it fills, and then the text.
    Canvas(Screen),
}

/// Shows answers, and how Ctrl-C ends them.
pub(super) struct Answers<'a> {
    pub(super) llm: &'a Arc<Llm>,
    pub(super) view: View,
    /// On a terminal, Ctrl-C ends the answer; elsewhere the command.
    pub(super) is_terminal: bool,
}

impl Answers<'_> {
    /// Runs a request to its end, or until the user has seen enough; then the output holds what was decided.
    pub(super) fn run(&self, request: Request, console: &mut Console<'_>, interrupt: &dyn Fn() -> bool) -> Result<Output, Failure> {
        let slots = request.params.max_tokens;
        let mut canvas = match self.view {
            View::Canvas(screen) => Some(CanvasView::new(screen, self.llm, request.prompt.len(), slots, Duration::ZERO)?),
            _ => None,
        };
        let mut engine = self.llm.engine();
        let id = engine.submit(request).map_err(too_long)?;
        let (mut decided, mut begun) = (0, false);
        let result = loop {
            if interrupt() {
                if !self.is_terminal {
                    break Err(Failure::Interrupted);
                }
                ctrl_c::answered();
                engine.cancel(id);
            }
            let events = match engine.step() {
                Ok(events) => events,
                Err(error) => break Err(error.into()),
            };
            let mut output = None;
            for event in events {
                match (&mut canvas, event) {
                    (_, Event::Finished { output: finished, .. }) => output = Some(Ok(*finished)),
                    (_, Event::Failed { error, .. }) => output = Some(Err(error.into())),
                    (Some(canvas), event) => canvas.event(&event, console.out)?,
                    (None, Event::Revealed { slots: revealed, .. }) if !begun => {
                        decided += revealed.iter().filter(|slot| !slot.is_edit()).count();
                        console.show_wait(&format!("{decided} of {slots} slots decided"));
                    }
                    (None, Event::Committed { text, .. }) if matches!(self.view, View::Text) && !text.is_empty() => {
                        console.clear_progress();
                        console.print(&self.shown(&text))?;
                        begun = true;
                    }
                    _ => {}
                }
            }
            if let Some(output) = output {
                break output;
            }
        };
        console.clear_progress();
        match (&mut canvas, &self.view, &result) {
            (Some(canvas), _, result) => {
                canvas.erase(console.out)?;
                if let Ok(output) = result {
                    console.print(&format!("{}\n", self.shown(&output.text)))?;
                }
            }
            // The line is ended, whatever ended the answer.
            (None, View::Text, result) if begun || result.is_ok() => console.print("\n")?,
            _ => {}
        }
        result
    }

    fn shown(&self, text: &str) -> String {
        match self.is_terminal {
            true => screen::printable(text).into_owned(),
            false => text.to_string(),
        }
    }
}

/// Says what to do about a conversation that the model cannot take any more.
pub(super) fn too_long(error: dlmrs::Error) -> Failure {
    match error {
        dlmrs::Error::Input { name, message } if name == "prompt" => Failure::Said(format!(
            "the conversation no longer fits the model: it {message}; a shorter message may fit, /reset begins a new \
             conversation, and /system changes a system message that is too long"
        )),
        error => error.into(),
    }
}
