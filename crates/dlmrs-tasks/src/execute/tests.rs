//! The weaker guard, which a kernel with Landlock and seccomp never needs, and what ends a group of processes.

#![allow(clippy::unwrap_used, clippy::expect_used)] // tests

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use super::process;
use super::{Limits, Outcome, Program, Python, Run};

static PYTHON: LazyLock<Python> = LazyLock::new(|| Python::find(Path::new("python3")).unwrap());

fn weakly(source: &str, tests: &str) -> Run {
    let run = PYTHON.run_guarded(&Program::new(source, tests), Limits::default(), false).unwrap();
    let guard = run.guard.as_ref().unwrap();
    assert!(!guard.is_kernel());
    assert_eq!(guard.to_string(), "files: audit hook; processes and network: audit hook");
    run
}

/// What each line does must raise PermissionError.
fn refused(lines: &[String]) {
    for line in lines {
        let source = format!("try:\n    {line}\nexcept PermissionError:\n    pass\nelse:\n    raise SystemExit('was allowed')");
        assert_eq!(weakly(&source, "").outcome, Outcome::Passed, "{line}");
    }
}

#[test]
fn an_ordinary_program_passes_under_the_weaker_guard() {
    let source = "import dataclasses, os, re, tempfile\nopen('own', 'w').write('text')\nos.mkdir('folder')\nos.rename('own', 'folder/own')\n\
                  with tempfile.TemporaryFile() as file:\n    file.write(b'1')\n";
    assert_eq!(weakly(source, "assert open('folder/own').read() == 'text'").outcome, Outcome::Passed);
}

#[test]
fn the_weaker_guard_refuses_files_outside_of_the_folder() {
    let outside = tempfile::tempdir().unwrap();
    let kept = outside.path().join("kept");
    std::fs::write(&kept, "text").unwrap();
    let (folder, file) = (format!("{:?}", outside.path()), format!("{kept:?}"));
    refused(&[
        format!("open({file})"),
        format!("open({folder} + '/new', 'w')"),
        format!("import os; os.open({file}, os.O_WRONLY | os.O_TRUNC)"),
        format!("import os; os.remove({file})"),
        format!("import os; os.rename({file}, 'own')"),
        format!("import os; os.chmod({file}, 0)"),
        format!("import os; os.listdir({folder})"),
        format!("import os; os.symlink({file}, 'link'); open('link')"),
        "open('/etc/passwd')".into(),
    ]);
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "text");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[test]
fn the_weaker_guard_refuses_processes_and_sockets() {
    refused(&[
        "import os; os.fork()".into(),
        "import os; os.system('true')".into(),
        "import os; os.kill(os.getppid(), 9)".into(),
        "import subprocess; subprocess.run(['true'])".into(),
        "import socket; socket.socket()".into(),
        "import ctypes; ctypes.CDLL(None)".into(),
    ]);
}

#[test]
fn what_a_process_started_ends_with_it() {
    // The child holds the output open: that it comes at all says that the child is gone.
    let mut command = Command::new("sh");
    command.args(["-c", "sleep 1000 & echo started"]);
    let finished = process::run(&mut command, Vec::new(), Duration::from_secs(60)).unwrap();
    assert!(finished.status.unwrap().success());
    assert_eq!(finished.stdout, b"started\n");
}

#[test]
fn what_a_process_started_ends_with_its_time() {
    let mut command = Command::new("sh");
    command.args(["-c", "echo started; sleep 1000 & sleep 1000"]);
    let finished = process::run(&mut command, Vec::new(), Duration::from_secs(2)).unwrap();
    assert!(finished.status.is_none());
    assert_eq!(finished.stdout, b"started\n");
}
