//! Telling event loops that something has come, from a thread of its own: the engine's thread must never wait for the GIL.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};

use dlmrs::Error;
use pyo3::prelude::*;

/// The thread of this process; a fork has none of its parent's.
static THREAD: Mutex<Option<(u32, Sender<Py<PyAny>>)>> = Mutex::new(None);

/// Where callables go that are to be called soon.
pub(crate) fn sender() -> Result<Sender<Py<PyAny>>, Error> {
    let mut thread = THREAD.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if let Some((_, sender)) = thread.as_ref().filter(|(of, _)| *of == process) {
        return Ok(sender.clone());
    }
    let (sender, inbox) = channel::<Py<PyAny>>();
    let call_all = move || {
        for callback in inbox {
            // None: the interpreter is ending. An exception: the event loop was closed, so nobody waits.
            let called = Python::try_attach(|py| drop(callback.call0(py)));
            if called.is_none() {
                return;
            }
        }
    };
    let started = std::thread::Builder::new().name("dlmrs-notify".into()).spawn(call_all);
    started.map_err(|error| Error::Capacity { what: "thread", message: format!("cannot be started: {error}") })?;
    *thread = Some((process, sender.clone()));
    Ok(sender)
}
