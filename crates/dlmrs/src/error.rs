//! The one error type of the library. Every message is a sentence that names the thing, says what was found and what would be right.

use std::path::{Path, PathBuf};

/// `Result` with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong, grouped by what a caller can do about it. The Python exceptions follow the same groups.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder that is needed is not there, or may not be read.
    #[error("{what} not found at {}: {hint}", path.display())]
    NotFound {
        /// What was looked for, e.g. "config.json".
        what: String,
        /// Where.
        path: PathBuf,
        /// What would be right.
        hint: String,
    },
    /// The operating system refused a read or a write.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// "read", "open", ...
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file of a checkpoint is malformed, incomplete or contradicts another one.
    #[error("{file}: {message}")]
    Checkpoint {
        /// The file, as the user knows it.
        file: String,
        /// What was found and what would be right.
        message: String,
    },
    /// `architectures[0]` names no family that this engine knows.
    #[error("{file}: {message}")]
    UnsupportedModel {
        /// The config file.
        file: String,
        /// What was found and what is supported.
        message: String,
    },
    /// An argument, a prompt or a sampling value is out of its range.
    #[error("{name}: {message}")]
    Input {
        /// The argument.
        name: String,
        /// What was found and what would be right.
        message: String,
    },
    /// A pass is not well formed (see [`crate::pass::Pass::validate`]).
    #[error("pass.{field}: {message}")]
    Pass {
        /// The field of the pass.
        field: &'static str,
        /// Both sizes, and what would be right.
        message: String,
    },
    /// A cache or a buffer would become larger than it may.
    #[error("{what}: {message}")]
    Capacity {
        /// What would grow.
        what: &'static str,
        /// How much was asked for, and the limit.
        message: String,
    },
    /// The tokenizer's files are malformed, or there is no tokenizer.
    #[error("tokenizer: {0}")]
    Tokenizer(String),
    /// A chat template is malformed or raised an error.
    #[error("chat template: {0}")]
    Template(String),
    /// A device that does not exist or was not built in.
    #[error("device {name}: {message}")]
    Device {
        /// As the user wrote it.
        name: String,
        /// Why not, and what is possible.
        message: String,
    },
    /// An arithmetic result is not a number, with the place where it was noticed.
    #[error(
        "{place} holds {found}: the weights are broken, or a setting (logit_bias, repetition_penalty, cfg_scale) is beyond the range of f32"
    )]
    NotFinite {
        /// A tensor with its file, or a layer.
        place: String,
        /// "NaN" or "an infinite value".
        found: &'static str,
    },
    /// The caller asked to stop.
    #[error("stopped before the end")]
    Interrupted,
    /// A service was closed before the request's end.
    #[error("the engine was closed before the end of the request")]
    Stopped,
    /// An error of a forward, which ended all requests that took part.
    #[error(transparent)]
    Shared(std::sync::Arc<Error>),
    /// Candle refused an operation; this is an error of ours or of the device, not of the caller.
    #[error("tensor operation failed: {0}")]
    Tensor(#[from] candle_core::Error),
}

impl Error {
    /// An [`Error::Input`].
    pub fn input(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Input { name: name.into(), message: message.into() }
    }

    /// An [`Error::Checkpoint`]. What a file has put into the message is brought onto one line of a readable length.
    pub fn checkpoint(file: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Checkpoint { file: file.into(), message: one_line(message.into()) }
    }

    /// An [`Error::Io`].
    pub fn io(action: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self::Io { action, path: path.to_path_buf(), source }
    }
}

/// A message without control characters, cut where nobody reads on.
pub(crate) fn one_line(message: String) -> String {
    const MOST: usize = 3000;
    if message.len() <= MOST && !message.contains(char::is_control) {
        return message;
    }
    let mut line = String::new();
    for c in message.chars() {
        match c.is_control() {
            true => line.extend(c.escape_default()),
            false => line.push(c),
        }
        if line.len() > MOST {
            return line + "...";
        }
    }
    line
}
