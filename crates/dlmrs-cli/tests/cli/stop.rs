//! Ends that are not the command's own: a reader that goes away, and Ctrl-C.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{PROBLEM, dlmrs};

/// Far more than a stop takes on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A canvas that takes minutes; its first block does not, and has text.
const LONG: [&str; 9] =
    ["generate", "tiny-llada", PROBLEM, "--block-length", "4", "--max-tokens", "1900", "--ignore-eos", "--logits-eos-inf"];

pub(crate) fn spawn(args: &[&str]) -> Child {
    dlmrs(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// With input, which a command need not read.
fn spawn_with(args: &[&str], input: &[u8]) -> Child {
    let mut child = dlmrs(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(input);
    child
}

/// Waits for the end and gives the exit code and what was said.
pub(crate) fn end(mut child: Child) -> (Option<i32>, String) {
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("the command did not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    (child.wait().unwrap().code(), said)
}

#[test]
fn a_closed_pipe_ends_quietly() {
    for args in [
        &["inspect", "tiny-sdar"][..],
        &["demo", "--problems", "4"],
        &["generate", "--help"],
        &["completions", "bash"],
        &["chat", "tiny-sdar"],
        &["chat", "tiny-sdar", "--json"],
        &LONG,
    ] {
        let mut child = spawn_with(args, format!("{PROBLEM}\n{PROBLEM}\n").as_bytes());
        drop(child.stdout.take());
        assert_eq!(end(child), (Some(0), String::new()), "{args:?}");
    }
}

#[cfg(unix)]
pub(crate) fn interrupt(child: &Child) {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_long_answer() {
    let chat = [&["chat"][..], &LONG[1..2], &LONG[3..]].concat();
    for mut child in [spawn(&LONG), spawn_with(&chat, format!("{PROBLEM}\n{PROBLEM}\n").as_bytes())] {
        let mut first = [0];
        child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        interrupt(&child);
        assert_eq!(end(child), (Some(130), String::new()));
    }
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_wait_for_input() {
    for args in [&["generate", "tiny-sdar", "--prompt-file", "-"][..], &["chat", "tiny-sdar"]] {
        let mut child = dlmrs(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take();
        // The handler is the first thing that the command sets up; a signal before that ends it by the signal.
        std::thread::sleep(Duration::from_millis(500));
        interrupt(&child);
        let (code, said) = end(child);
        assert!(matches!(code, Some(130) | None), "{code:?}");
        assert_eq!(said, "");
        drop(stdin);
    }
}
