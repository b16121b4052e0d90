//! Errors of the library as Python exceptions, each kind mapped once. The classes are those of `dlmrs.errors`.

use std::io::ErrorKind;

use dlmrs::Error;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// `Result` with [`Failure`].
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// Why a call from Python fails.
pub(crate) enum Failure {
    /// The library refuses or cannot.
    Library(Error),
    /// The object was closed, or belongs to another process.
    Closed(String),
    /// Python code raised: a signal handler, an iterator, a property.
    Python(PyErr),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Library(error)
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Library(Error::Interrupted) => PyKeyboardInterrupt::new_err(()),
            Failure::Library(Error::Stopped) => exception("ClosedError", Error::Stopped.to_string()),
            Failure::Library(error) => exception(class(&error), error.to_string()),
            Failure::Closed(message) => exception("ClosedError", message),
            Failure::Python(error) => error,
        }
    }
}

/// The name of the class for an error.
fn class(error: &Error) -> &'static str {
    match error {
        Error::NotFound { .. } => "NotFoundError",
        Error::Io { source, .. } if source.kind() == ErrorKind::NotFound => "NotFoundError",
        Error::Io { .. } => "IoError",
        Error::Checkpoint { .. } => "CheckpointError",
        Error::UnsupportedModel { .. } => "UnsupportedModelError",
        Error::Input { .. } | Error::Pass { .. } => "InputError",
        Error::Capacity { .. } => "CapacityError",
        Error::Tokenizer(_) => "TokenizerError",
        Error::Template(_) => "TemplateError",
        Error::Device { .. } | Error::Tensor(_) => "DeviceError",
        Error::NotFinite { .. } => "NotFiniteError",
        Error::Shared(error) => class(error),
        _ => "Error",
    }
}

fn exception(class: &str, message: String) -> PyErr {
    Python::attach(|py| {
        let class = py.import("dlmrs.errors").and_then(|module| Ok(module.getattr(class)?.cast_into::<PyType>()?));
        match class {
            Ok(class) => PyErr::from_type(class, message),
            Err(error) => error,
        }
    })
}
