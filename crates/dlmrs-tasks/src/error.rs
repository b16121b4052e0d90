//! The error type.

/// `Result` with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can be wrong with data, with a task or with the judging of an answer. The message is a sentence that names the place.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {message}")]
pub struct Error {
    /// A file, a line of a file, or an option.
    pub place: String,
    /// What was found and what would be right.
    pub message: String,
}

impl Error {
    /// An error at a place.
    pub fn at(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place: place.into(), message: message.into() }
    }
}
