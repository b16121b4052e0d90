//! Where a command writes: results to `out`, everything else to `err`.

use std::io::{self, Write};
use std::sync::Arc;

use dlmrs::{Llm, Overrides};

use crate::args::LoadArgs;
use crate::failure::Failure;
use crate::screen::{self, Screen};

/// The streams of a command.
pub(crate) struct Console<'a> {
    /// Results.
    pub(crate) out: &'a mut dyn Write,
    /// Errors, warnings and statistics.
    err: &'a mut dyn Write,
    /// The terminal at `out`; None in a pipe.
    pub(crate) screen: Option<Screen>,
    /// Whether progress is shown: `err` is a terminal, and `out` is not the same one.
    shows_progress: bool,
    /// Whether `err` is a terminal, for what happens before there are results.
    draws: bool,
    progress: bool,
    warned: Vec<String>,
}

impl<'a> Console<'a> {
    /// The process's own streams.
    pub(crate) fn new(out: &'a mut dyn Write, err: &'a mut dyn Write) -> Self {
        let screen = Screen::of_stdout();
        let draws = screen::stderr_can_draw();
        Self { out, err, screen, shows_progress: screen.is_none() && draws, draws, progress: false, warned: Vec::new() }
    }

    /// Writes `dlmrs: KIND: MESSAGE`. If that cannot be written, there is nobody to tell.
    pub(crate) fn say(&mut self, kind: &str, message: &str) {
        self.note(&format!("dlmrs: {kind}: {message}"));
    }

    /// Writes a line beside the results.
    pub(crate) fn note(&mut self, line: &str) {
        self.clear_progress();
        let _ = writeln!(self.err, "{line}").and_then(|()| self.err.flush());
    }

    /// Says what the caller should know, each thing once.
    pub(crate) fn warn(&mut self, warnings: &[String]) {
        for warning in warnings {
            if !self.warned.contains(warning) {
                self.say("warning", warning);
                self.warned.push(warning.clone());
            }
        }
    }

    /// Shows how far a long command is.
    pub(crate) fn show_progress(&mut self, line: &str) {
        if self.shows_progress {
            self.draw(line);
        }
    }

    /// Shows that something is being worked on, also on the terminal of the results. What is printed next takes its place.
    pub(crate) fn show_wait(&mut self, line: &str) {
        if self.draws {
            self.draw(line);
        }
    }

    /// Loads a model, showing how far that is, and stops if the user asks for it.
    pub(crate) fn load(
        &mut self,
        model: &str,
        load: &LoadArgs,
        overrides: &Overrides,
        interrupt: &dyn Fn() -> bool,
    ) -> Result<Arc<Llm>, Failure> {
        let (options, draft) = (load.options()?, load.draft(model)?);
        let mut progress = |done: usize, parts: usize| {
            if self.draws {
                self.draw(&format!("loading: {} % of {model}", 100 * done / parts));
            }
            !interrupt()
        };
        let llm = match &draft {
            Some(draft) => Llm::load_pair(model, draft, &options, overrides, &mut progress),
            None => Llm::load_with(model, &options, overrides, &mut progress),
        };
        self.clear_progress();
        Ok(llm?)
    }

    fn draw(&mut self, line: &str) {
        self.progress = true;
        let line = screen::cut(line, screen::stderr_width());
        let _ = write!(self.err, "\r\x1b[K{line}").and_then(|()| self.err.flush());
    }

    /// Takes the progress away.
    pub(crate) fn clear_progress(&mut self) {
        if std::mem::take(&mut self.progress) {
            let _ = write!(self.err, "\r\x1b[K");
        }
    }

    /// Writes results and makes them visible at once.
    pub(crate) fn print(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}
