//! Finding a Python and running a program with it.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::folder::Folder;
use super::process::{self, Finished};
use super::{Guard, Limits, Outcome, Program, Python, Run};
use crate::{Error, Result};

const PROBE: &str = "import os, sys\n\
    version = '.'.join(map(str, sys.version_info[:3]))\n\
    sys.stdout.buffer.write(b'\\n'.join([version.encode(), os.fsencode(sys.executable)]))";

const BOOTSTRAP: &str = concat!(include_str!("guard.py"), "\n\n", include_str!("bootstrap.py"));

/// Where dynamic libraries are looked for; a Python may need it to start.
const LIBRARY_PATHS: [&str; 2] = ["LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"];

impl Python {
    /// Asks the program at a path, or of a name in PATH, whether it is a Python of version 3.10 or newer.
    pub fn find(path: &Path) -> Result<Self> {
        let wrong = |found: String| Error::at(path.display().to_string(), format!("{found}; a Python of version 3.10 or newer is needed"));
        let mut command = Command::new(path);
        command.args(["-I", "-S", "-c", PROBE]);
        let asked = process::run(&mut command, Vec::new(), Duration::from_secs(30));
        let asked = asked.map_err(|error| wrong(format!("cannot be run ({error})")))?;
        let Some(status) = asked.status else { return Err(wrong("does not answer".into())) };
        if !status.success() {
            let said = last_line(&asked.stderr).map_or_else(|| status.to_string(), |line| format!("{status}, {line}"));
            return Err(wrong(format!("is no Python that works ({said})")));
        }
        let mut parts = asked.stdout.splitn(2, |byte| *byte == b'\n');
        let version = parts.next().map(|version| String::from_utf8_lossy(version).into_owned()).unwrap_or_default();
        let found = parts.next().map(|path| Path::new(OsStr::from_bytes(path)));
        let mut numbers = version.split('.').map(|number| number.parse::<u32>().ok());
        match (numbers.next().flatten(), numbers.next().flatten(), found) {
            (Some(major), Some(minor), Some(found)) if (major, minor) >= (3, 10) && found.is_absolute() => {
                Ok(Self { path: found.to_path_buf(), version })
            }
            (Some(_), Some(_), Some(_)) => Err(wrong(format!("is Python {version}"))),
            _ => Err(wrong("is no Python".into())),
        }
    }

    /// Runs a program and its tests. An error means that it could not be judged; whatever the program does is an [`Outcome`].
    pub fn run(&self, program: &Program, limits: Limits) -> Result<Run> {
        self.run_guarded(program, limits, true)
    }

    /// `kernel` false takes the weaker guard, as on a machine whose kernel has no other.
    pub(super) fn run_guarded(&self, program: &Program, limits: Limits, kernel: bool) -> Result<Run> {
        let folder = Folder::new().map_err(|error| Error::at("a folder for a program", error.to_string()))?;
        let mut secret = [0; 16];
        getrandom::fill(&mut secret).map_err(|error| Error::at("a random number", error.to_string()))?;
        let token = format!("passed {:032x}", u128::from_ne_bytes(secret));
        let mut command = Command::new(&self.path);
        // -I would make Python ignore the seed of hashes, which keeps the order of sets the same in all runs.
        command.args(["-s", "-S", "-B", "-X", "utf8", "-W", "ignore", "-c", BOOTSTRAP]);
        command.current_dir(folder.path()).env_clear().env("PYTHONHASHSEED", "0");
        command.env("HOME", folder.path()).env("TMPDIR", folder.path());
        for name in LIBRARY_PATHS {
            if let Some(value) = env::var_os(name) {
                command.env(name, value);
            }
        }
        let finished = process::run(&mut command, job(program, limits, kernel, &token), limits.time);
        let path = folder.path().display().to_string();
        folder.remove().map_err(|error| Error::at(path, format!("the program's folder cannot be removed ({error})")))?;
        self.judge(finished, &token)
    }

    fn judge(&self, finished: io::Result<Finished>, token: &str) -> Result<Run> {
        let failed = |what: String| Error::at(self.path.display().to_string(), what);
        let finished = finished.map_err(|error| failed(format!("cannot be run ({error})")))?;
        let output = String::from_utf8_lossy(&finished.stdout).into_owned();
        // The first line was written before the program ran, so nobody else wrote it.
        let (first, rest) = split_line(&finished.stderr);
        let first: Option<Value> = serde_json::from_slice(first).ok();
        if let Some(why) = first.as_ref().and_then(|report| report.get("refused")).and_then(Value::as_str) {
            return Ok(Run { outcome: Outcome::Refused(why.into()), guard: None, output });
        }
        let Some(guard) = first.as_ref().and_then(Guard::from_report) else {
            let said = last_line(&finished.stderr).unwrap_or_else(|| "it said nothing".into());
            return Err(failed(format!("could not be made ready to run a program ({said})")));
        };
        let outcome = match finished.status {
            None => Outcome::TimedOut,
            Some(_) if rest == token.as_bytes() => Outcome::Passed,
            Some(status) => unsuccessful(status, rest),
        };
        Ok(Run { outcome, guard: Some(guard), output })
    }
}

/// What standard input holds: a line with the length of the job, the job, the token.
fn job(program: &Program, limits: Limits, kernel: bool, token: &str) -> Vec<u8> {
    let readings: Vec<_> = program.readings.iter().map(|reading| (&reading.given, &reading.answer)).collect();
    let job = json!({
        "readings": readings,
        "entry_point": program.entry_point,
        "tests": program.tests,
        "token": token.len(),
        "kernel": kernel,
        "limits": {
            "cpu_seconds": limits.cpu_seconds,
            "memory": limits.memory,
            "file_size": limits.file_size,
            "open_files": limits.open_files,
        },
    });
    let job = job.to_string();
    format!("{}\n{job}{token}", job.len()).into_bytes()
}

/// What kept the tests from their end. The program could have written the report itself, but only to its harm.
fn unsuccessful(status: ExitStatus, report: &[u8]) -> Outcome {
    let report: Value = serde_json::from_slice(split_line(report).0).unwrap_or_default();
    if report.get("out_of_memory").is_some() {
        return Outcome::OutOfMemory;
    }
    if let Some(message) = report.get("failed").and_then(Value::as_str) {
        return Outcome::Failed(message.into());
    }
    match status.signal() {
        Some(signal) if signal == Signal::XCPU.as_raw() => Outcome::TimedOut,
        _ => Outcome::Failed(format!("the process ended before the tests were over ({status})")),
    }
}

fn split_line(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |end| end + 1);
    bytes.split_at(end)
}

fn last_line(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    text.lines().rev().find(|line| !line.trim().is_empty()).map(str::to_string)
}
