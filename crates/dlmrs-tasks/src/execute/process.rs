//! A process with a time limit, of whose output a bounded part is kept, and of which nothing is left running.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// Bytes of each output that are kept; the rest is read and dropped.
pub(super) const KEPT: u64 = 64 << 10;

/// How long the outputs may stay open after everything was killed. Only a process that left the group could hold them.
const PATIENCE: Duration = Duration::from_secs(2);

/// What came of a process.
pub(super) struct Finished {
    /// None if the time was over.
    pub(super) status: Option<ExitStatus>,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

/// Runs a command in a process group of its own and kills the whole group when the process has ended or the time is over.
pub(super) fn run(command: &mut Command, input: Vec<u8>, time: Duration) -> io::Result<Finished> {
    let deadline = Instant::now() + time;
    let mut child = command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ends without reading all of it is judged by how it ended.
        thread::spawn(move || drop(stdin.write_all(&input)));
    }
    let stdout = child.stdout.take().map(keep_beginning);
    let stderr = child.stderr.take().map(keep_beginning);
    let in_time = wait(&child, deadline);
    // The process is not reaped yet, so the group's number is still its own. macOS refuses this for a group that has ended.
    if kill_process_group(Pid::from_child(&child), Signal::KILL).is_err() {
        child.kill()?;
    }
    let status = child.wait()?;
    let kept = |pipe: Option<Receiver<Vec<u8>>>| pipe.and_then(|pipe| pipe.recv_timeout(PATIENCE).ok()).unwrap_or_default();
    Ok(Finished { status: in_time?.then_some(status), stdout: kept(stdout), stderr: kept(stderr) })
}

/// Waits for the end, without reaping; false if the deadline came first.
fn wait(child: &Child, deadline: Instant) -> io::Result<bool> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let mut pause = Duration::from_millis(1);
    loop {
        match waitid(WaitId::Pid(Pid::from_child(child)), options) {
            Ok(Some(_)) => return Ok(true),
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        thread::sleep(pause.min(left));
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

fn keep_beginning(mut pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut kept = Vec::new();
        // An output that breaks off counts as far as it came.
        let _ = pipe.by_ref().take(KEPT).read_to_end(&mut kept);
        let _ = io::copy(&mut pipe, &mut io::sink());
        let _ = sender.send(kept);
    });
    receiver
}
