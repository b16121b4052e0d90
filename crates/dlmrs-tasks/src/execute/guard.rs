//! What kept a program in.

use std::fmt;

use serde_json::Value;

/// What kept a program in: in the kernel, or, weaker, in Python. docs/code_execution.md says what each one holds back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// Of files: "Landlock ABI 7", or "audit hook" where the kernel has no Landlock.
    pub files: String,
    /// Of processes and the network: "seccomp", or "audit hook" where there are no filters of system calls.
    pub processes: String,
}

impl Guard {
    /// Whether the kernel alone keeps the program in.
    pub fn is_kernel(&self) -> bool {
        ![&self.files, &self.processes].iter().any(|guard| *guard == "audit hook")
    }

    /// As the bootstrap says it.
    pub(super) fn from_report(report: &Value) -> Option<Self> {
        let guard = report.get("guard")?;
        let text = |name| Some(guard.get(name)?.as_str()?.to_string());
        Some(Self { files: text("files")?, processes: text("processes")? })
    }
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "files: {}; processes and network: {}", self.files, self.processes)
    }
}
