//! Where messages come from: a terminal with line editing, or lines of standard input.

use std::io::{self, BufRead, IsTerminal, Read};

use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{Behavior, Config, Editor};

use crate::console::Console;
use crate::ctrl_c;
use crate::failure::Failure;
use crate::files;

/// No line of standard input is longer; it keeps an endless one from filling the memory.
const MAX_BYTES: u64 = 1 << 24;

const PROMPT: &str = "> ";
const CONTINUED: &str = ". ";

/// Standard input.
pub(super) enum Input {
    Terminal(Box<Editor<(), MemHistory>>),
    /// The number of lines so far.
    Lines(usize),
}

/// What was read.
enum Got {
    Line(String),
    /// A line that is no text, and why.
    Garbled(String),
    /// Ctrl-C took the line away.
    Cleared,
    End,
}

impl Input {
    /// Line editing on a terminal, even if the answers go elsewhere.
    pub(super) fn new() -> Result<Self, Failure> {
        if !io::stdin().is_terminal() {
            return Ok(Self::Lines(0));
        }
        let behavior = if io::stdout().is_terminal() { Behavior::Stdio } else { Behavior::PreferTerm };
        let config = Config::builder().behavior(behavior).auto_add_history(true).build();
        let history = MemHistory::with_config(&config);
        let editor = Editor::with_history(config, history).map_err(|error| lost(&error))?;
        Ok(Self::Terminal(Box::new(editor)))
    }

    /// Whether a person is at the other end.
    pub(super) fn is_terminal(&self) -> bool {
        matches!(self, Self::Terminal(_))
    }

    /// The next message or command, with the lines that continue it; None at the end. Ctrl-C twice in a row is an end too. The inner
    /// error is about this message alone.
    pub(super) fn next(&mut self, console: &mut Console<'_>) -> Result<Option<Result<String, String>>, Failure> {
        let mut text = String::new();
        let mut cleared = false;
        loop {
            match self.read(if text.is_empty() { PROMPT } else { CONTINUED })? {
                Got::Line(line) => match line.strip_suffix('\\') {
                    Some(line) => text.extend([line, "\n"]),
                    None => return Ok(Some(Ok(text + &line))),
                },
                Got::Cleared if cleared => return Ok(None),
                Got::Cleared => {
                    console.note("Ctrl-C once more ends.");
                    (text, cleared) = (String::new(), true);
                    continue;
                }
                Got::End if text.is_empty() => return Ok(None),
                Got::End => return Ok(Some(Ok(text))),
                Got::Garbled(message) => return Ok(Some(Err(message))),
            }
            cleared = false;
        }
    }

    fn read(&mut self, prompt: &str) -> Result<Got, Failure> {
        match self {
            Self::Terminal(editor) => {
                let read = edited(editor, prompt);
                // A signal that came meanwhile has stopped nothing.
                ctrl_c::answered();
                read
            }
            Self::Lines(number) => {
                *number += 1;
                let place = |message| format!("line {number} of standard input: {message}");
                match line().map_err(|message| Failure::Said(place(message)))? {
                    Got::Garbled(message) => Ok(Got::Garbled(place(message))),
                    got => Ok(got),
                }
            }
        }
    }
}

fn edited(editor: &mut Editor<(), MemHistory>, prompt: &str) -> Result<Got, Failure> {
    loop {
        match editor.readline(prompt) {
            Ok(line) => return Ok(Got::Line(line)),
            Err(ReadlineError::Interrupted) => return Ok(Got::Cleared),
            Err(ReadlineError::Eof) => return Ok(Got::End),
            Err(ReadlineError::Signal(_)) => {}
            Err(error) => return Err(lost(&error)),
        }
    }
}

fn lost(error: &ReadlineError) -> Failure {
    Failure::Said(format!("cannot read from the terminal: {error}"))
}

fn line() -> Result<Got, String> {
    let mut bytes = Vec::new();
    let read = io::stdin().lock().take(MAX_BYTES + 1).read_until(b'\n', &mut bytes);
    read.map_err(|error| format!("cannot be read: {error}"))?;
    if bytes.is_empty() {
        return Ok(Got::End);
    }
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("has more than {MAX_BYTES} bytes; split it"));
    }
    let text = match files::utf8(bytes) {
        Ok(text) => text,
        Err(message) => return Ok(Got::Garbled(message)),
    };
    let text = text.strip_suffix('\n').map(|text| text.strip_suffix('\r').unwrap_or(text)).unwrap_or(&text);
    Ok(Got::Line(text.strip_prefix('\u{FEFF}').unwrap_or(text).to_string()))
}
