//! `dlmrs.Stream`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dlmrs::Event;
use dlmrs::engine::{Canceller, Next};
use pyo3::exceptions::PyStopAsyncIteration;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::errors::{Failure, Result};
use crate::generate::{PATIENCE, Signals};
use crate::{events, notify};

/// The events of a request, as LLM.stream gives it: an iterator of Revealed, Committed and Finished.
///
/// In async code `async for event in stream` gives the events, and `await stream` the Output. As a context manager it closes itself.
#[pyclass(frozen, weakref, module = "dlmrs", name = "Stream")]
pub(crate) struct Stream {
    name: String,
    process: u32,
    canceller: Canceller,
    /// Locked only by threads that do not hold the GIL, for a reader keeps it while it waits, and asks for the GIL now and then.
    stream: Mutex<Option<dlmrs::engine::Stream>>,
    output: Mutex<Option<Py<PyAny>>>,
    tokens: AtomicUsize,
}

/// What a reader finds.
enum Found {
    Event(Event),
    Pending,
    Ended,
}

impl Stream {
    pub(crate) fn new(name: String, stream: dlmrs::engine::Stream) -> Self {
        let (canceller, tokens) = (stream.canceller(), AtomicUsize::new(0));
        Self { name, process: std::process::id(), canceller, stream: Mutex::new(Some(stream)), output: Mutex::new(None), tokens }
    }

    /// Reads with `read`, which may wait.
    fn find(&self, py: Python<'_>, read: impl FnOnce(&mut dlmrs::engine::Stream) -> Next + Send) -> Result<Found> {
        if self.process != std::process::id() {
            let message = "belongs to another process, whose threads did not survive the fork; begin a new one in this process";
            return Err(Failure::Closed(format!("this stream of {} {message}", self.name)));
        }
        py.detach(|| match lock(&self.stream).as_mut().map(read) {
            Some(Next::Event(event)) => Ok(Found::Event(event)),
            Some(Next::Pending) => Ok(Found::Pending),
            Some(Next::Ended) | None => Ok(Found::Ended),
        })
    }

    fn object<'py>(&self, py: Python<'py>, event: Event) -> Result<Bound<'py, PyAny>> {
        if let Event::Committed { token_ids, .. } = &event {
            self.tokens.fetch_add(token_ids.len(), Ordering::Relaxed);
        }
        let finished = matches!(event, Event::Finished { .. });
        let object = events::object(py, event)?;
        if finished {
            *lock(&self.output) = Some(object.getattr("output")?.unbind());
        }
        Ok(object)
    }

    /// The output, if the last event was given out.
    fn kept(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        lock(&self.output).as_ref().map(|output| output.clone_ref(py))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[pymethods]
impl Stream {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// The next event. Python's signal handlers run while it waits; if one raises, the request ends.
    fn __next__<'py>(&self, py: Python<'py>) -> Result<Option<Bound<'py, PyAny>>> {
        let mut signals = Signals::default();
        loop {
            match self.find(py, |stream| stream.next_within(PATIENCE))? {
                Found::Event(event) => return self.object(py, event).map(Some),
                Found::Ended => return Ok(None),
                Found::Pending if !signals.go_on() => {
                    self.canceller.cancel();
                    return match signals.into_raised() {
                        Some(error) => Err(error.into()),
                        None => Ok(None),
                    };
                }
                Found::Pending => {}
            }
        }
    }

    fn __aiter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// A coroutine that gives the next event.
    fn __anext__<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("dlmrs._asynchronous")?.call_method1("next_event", (slf,))
    }

    /// Waits for the Output.
    fn __await__<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("dlmrs._asynchronous")?.call_method1("output", (slf,))?.call_method0("__await__")
    }

    /// The next event if it has come, else None; StopAsyncIteration behind the last one.
    fn _poll<'py>(&self, py: Python<'py>) -> Result<Option<Bound<'py, PyAny>>> {
        match self.find(py, dlmrs::engine::Stream::try_next)? {
            Found::Event(event) => self.object(py, event).map(Some),
            Found::Pending => Ok(None),
            Found::Ended => Err(PyStopAsyncIteration::new_err(()).into()),
        }
    }

    /// Has `callback` called, from another thread, as soon as something comes. What has come already calls nobody.
    fn _notify(&self, py: Python<'_>, callback: Py<PyAny>) -> Result<()> {
        let sender = notify::sender(py)?;
        // An error says that the interpreter is ending.
        let waker = move || drop(sender.send(notify::Message::Call(callback)));
        py.detach(|| {
            if let Some(stream) = lock(&self.stream).as_ref() {
                stream.wake(waker);
            }
        });
        Ok(())
    }

    /// Waits for the end and gives the Output; events on the way are passed over.
    fn result(&self, py: Python<'_>) -> Result<Py<PyAny>> {
        while self.__next__(py)?.is_some() {}
        let message = || Failure::Closed(format!("this stream of {} was closed or failed, and has no output", self.name));
        self.kept(py).ok_or_else(message)
    }

    /// Ends the request before its next pass. The events go on to Finished, whose output has the finish_reason "cancelled".
    fn cancel(&self) {
        self.canceller.cancel();
    }

    /// Ends the request; no further events come. Closing twice is allowed.
    fn close(&self, py: Python<'_>) {
        self.canceller.cancel();
        if self.process == std::process::id() {
            py.detach(|| drop(lock(&self.stream).take()));
        }
    }

    /// The Output once Finished was given out, else None.
    #[getter]
    fn output(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.kept(py)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*args))]
    fn __exit__(&self, args: &Bound<'_, PyTuple>) {
        self.close(args.py());
    }

    fn __repr__(&self) -> String {
        let state = if lock(&self.output).is_some() { "finished" } else { "not finished" };
        format!("<Stream of {:?}, {} tokens given out, {state}>", self.name, self.tokens.load(Ordering::Relaxed))
    }
}
