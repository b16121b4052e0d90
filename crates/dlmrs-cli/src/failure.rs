//! Why a command did not do its work.

use std::fmt::Display;
use std::io;

use crate::ctrl_c::INTERRUPTED;

/// What ended a command early. Wrong usage is not among them: clap reports it.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A sentence for the user.
    Said(String),
    /// The output could not be written.
    Output(io::Error),
    /// Nobody reads the output any more (`| head`), which is no failure.
    ClosedPipe,
    /// The user asked to stop.
    Interrupted,
}

impl Failure {
    /// A sentence about a place in the user's input.
    pub(crate) fn at(place: &str, message: impl Display) -> Self {
        match place {
            "" => Self::Said(message.to_string()),
            place => Self::Said(format!("{place}: {message}")),
        }
    }

    /// What the user is told, if anything.
    pub(crate) fn message(&self) -> Option<String> {
        match self {
            Self::Said(message) => Some(message.clone()),
            Self::Output(error) => Some(format!("cannot write the output: {error}")),
            Self::ClosedPipe | Self::Interrupted => None,
        }
    }

    /// What the shell is told.
    pub(crate) fn exit_code(&self) -> i32 {
        match self {
            Self::Said(_) | Self::Output(_) => 1,
            Self::ClosedPipe => 0,
            Self::Interrupted => INTERRUPTED,
        }
    }
}

impl From<dlmrs::Error> for Failure {
    fn from(error: dlmrs::Error) -> Self {
        match error {
            dlmrs::Error::Interrupted => Self::Interrupted,
            error => Self::Said(error.to_string()),
        }
    }
}

impl From<dlmrs_tasks::Error> for Failure {
    fn from(error: dlmrs_tasks::Error) -> Self {
        Self::Said(error.to_string())
    }
}

/// Of writing; errors of reading are made with [`Failure::at`].
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::ClosedPipe,
            _ => Self::Output(error),
        }
    }
}
