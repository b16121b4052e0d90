//! Telling event loops that something has come, from a thread of its own: the engine's thread must never wait for the GIL.
//!
//! The thread is ended before the interpreter ends. A thread that is inside a call into Python when the interpreter ends is torn down by it
//! (CPython up to 3.13), which in a thread of Rust's ends the process with a signal.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use dlmrs::Error;
use pyo3::prelude::*;

use crate::errors::Result;

/// The thread of this process; a fork has none of its parent's.
static THREAD: Mutex<State> = Mutex::new(State::None);

enum State {
    None,
    Running {
        process: u32,
        inbox: Sender<Message>,
        thread: JoinHandle<()>,
    },
    /// The interpreter of this process is ending.
    Ended {
        process: u32,
    },
}

/// What the thread is told.
pub(crate) enum Message {
    /// To be called soon.
    Call(Py<PyAny>),
    /// Nothing comes any more.
    End,
}

/// Where callables go that are to be called soon. When the interpreter is ending, nobody listens there.
pub(crate) fn sender(py: Python<'_>) -> Result<Sender<Message>> {
    if let Some(sender) = lock().sender() {
        return Ok(sender);
    }
    // Python code may let another thread run, so the lock is not held meanwhile; to be registered twice does no harm.
    py.import("atexit")?.call_method1("register", (wrap_pyfunction!(end, py)?,))?;
    let mut state = lock();
    if let Some(sender) = state.sender() {
        return Ok(sender);
    }
    let (sender, inbox) = channel();
    let started = std::thread::Builder::new().name("dlmrs-notify".into()).spawn(move || call_all(inbox));
    let thread = started.map_err(|error| Error::Capacity { what: "thread", message: format!("cannot be started: {error}") })?;
    let running = State::Running { process: std::process::id(), inbox: sender.clone(), thread };
    if let State::Running { thread, .. } = std::mem::replace(&mut *state, running) {
        // The parent's: there is no such thread in this process.
        std::mem::forget(thread);
    }
    Ok(sender)
}

fn lock() -> MutexGuard<'static, State> {
    THREAD.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// None if this process has yet to start a thread.
    fn sender(&self) -> Option<Sender<Message>> {
        let own = std::process::id();
        match self {
            Self::Running { process, inbox, .. } if *process == own => Some(inbox.clone()),
            Self::Ended { process } if *process == own => Some(channel().0),
            _ => None,
        }
    }
}

fn call_all(inbox: Receiver<Message>) {
    for message in inbox {
        let Message::Call(callback) = message else { return };
        // None: the interpreter is ending. An exception: the event loop was closed, so nobody waits.
        if Python::try_attach(|py| drop(callback.call0(py))).is_none() {
            return;
        }
    }
}

/// Ends the thread, after what it was told before; at exit.
#[pyfunction]
#[pyo3(name = "_end_notify")]
fn end(py: Python<'_>) {
    let own = std::process::id();
    let mut state = lock();
    if !matches!(&*state, State::Running { process, .. } if *process == own) {
        return;
    }
    let State::Running { inbox, thread, .. } = std::mem::replace(&mut *state, State::Ended { process: own }) else { return };
    drop(state);
    // The thread may be waiting for the GIL. An error says that it has ended by itself.
    py.detach(|| {
        let _ = inbox.send(Message::End);
        let _ = thread.join();
    });
}
