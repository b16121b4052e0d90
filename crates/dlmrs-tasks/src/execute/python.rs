//! The Python that runs programs.

use std::path::{Path, PathBuf};

#[cfg(not(unix))]
use super::Run;
use super::{Guard, Limits, Outcome, Program};
use crate::{Error, Result};

/// A Python of version 3.10 or newer.
#[derive(Clone, Debug)]
pub struct Python {
    pub(super) path: PathBuf,
    pub(super) version: String,
}

impl Python {
    /// Where the interpreter itself is, not a script that picks one.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Such as "3.12.1".
    pub fn version(&self) -> &str {
        &self.version
    }

    /// What would keep a program in on this machine.
    pub fn guard(&self) -> Result<Guard> {
        let run = self.run(&Program::new("pass", ""), Limits::default())?;
        match run.outcome {
            Outcome::Refused(why) => Err(Error::at(self.path.display().to_string(), why)),
            _ => run.guard.ok_or_else(|| Error::at(self.path.display().to_string(), "does not say what guards")),
        }
    }
}

#[cfg(not(unix))]
impl Python {
    /// Programs run on Linux and macOS only.
    pub fn find(path: &Path) -> Result<Self> {
        Err(Error::at(path.display().to_string(), "programs that a model wrote are run on Linux and macOS only"))
    }

    /// Programs run on Linux and macOS only.
    pub fn run(&self, _: &Program, _: Limits) -> Result<Run> {
        Err(Error::at("python", "programs that a model wrote are run on Linux and macOS only"))
    }
}
