//! A terminal in which the command runs, and what a user sees on it.

use std::io::{Read, Write};
use std::process::Child;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use pty_process::Size;
use pty_process::blocking::{Command, Pty, open};

/// Far more than anything takes on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Columns of a narrow terminal.
pub(crate) const NARROW: u16 = 20;

pub(crate) struct Terminal {
    pty: Arc<Pty>,
    child: Child,
    output: Receiver<Vec<u8>>,
    screen: vt100::Parser,
    /// Everything that was written.
    pub(crate) written: Vec<u8>,
}

impl Terminal {
    /// Starts the command on a terminal with so many rows and columns.
    pub(crate) fn start(args: &[&str], rows: u16, columns: u16, environment: &[(&str, &str)]) -> Self {
        let (pty, pts) = open().unwrap();
        pty.resize(Size::new(rows, columns)).unwrap();
        let command = Command::new(env!("CARGO_BIN_EXE_dlmrs")).args(args).env_remove("NO_COLOR").env("TERM", "xterm");
        let child = command.envs(environment.iter().copied()).spawn(pts).unwrap();
        let pty = Arc::new(pty);
        let (sender, output) = channel();
        let reader = pty.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // At the end of the command a terminal gives an error.
            while let Ok(count @ 1..) = (&*reader).read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self {
            pty,
            child,
            output,
            screen: vt100::Parser::new(rows.try_into().unwrap(), columns.try_into().unwrap(), 0),
            written: Vec::new(),
        }
    }

    /// The text on the screen; lines that were wrapped are one again.
    pub(crate) fn text(&self) -> String {
        self.screen.screen().contents()
    }

    /// Waits until the screen is as wanted.
    pub(crate) fn wait(&mut self, wanted: impl Fn(&str) -> bool) {
        let started = Instant::now();
        while !wanted(&self.text()) {
            match self.output.recv_timeout(PATIENCE.saturating_sub(started.elapsed())) {
                Ok(bytes) => self.take(&bytes),
                Err(error) => {
                    let _ = self.child.kill();
                    panic!("{error}; on the screen is\n{}", self.text());
                }
            }
        }
    }

    /// Waits until this text is on the screen.
    pub(crate) fn wait_for(&mut self, text: &str) {
        self.wait(|screen| screen.contains(text));
    }

    /// Waits for the prompt, with nothing behind it.
    pub(crate) fn wait_for_prompt(&mut self) {
        self.wait(|screen| screen.lines().last().is_some_and(|line| line.trim_end() == ">"));
    }

    pub(crate) fn press(&mut self, keys: &str) {
        (&*self.pty).write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for the end, and gives the exit code and the screen.
    pub(crate) fn end(mut self) -> (Option<i32>, String, Vec<u8>) {
        loop {
            match self.output.recv_timeout(PATIENCE) {
                Ok(bytes) => self.take(&bytes),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let _ = self.child.kill();
                    panic!("the command did not end; on the screen is\n{}", self.text());
                }
            }
        }
        let code = self.child.wait().unwrap().code();
        (code, self.text(), self.written)
    }

    fn take(&mut self, bytes: &[u8]) {
        self.screen.process(bytes);
        self.written.extend_from_slice(bytes);
    }
}
