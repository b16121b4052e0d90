//! Ctrl-C: the running command is asked to stop, and ended if it does not.
//!
//! A second one while the first has not been answered ends the process at once. The binary and the Python package share this: a handler
//! of Python's would run only where Python code does.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Exit code after Ctrl-C, as shells have it.
pub(crate) const INTERRUPTED: i32 = 130;

/// How long the command may take to end by itself. It cannot while it reads standard input or a file.
const PATIENCE: Duration = Duration::from_secs(1);

static PRESSED: AtomicUsize = AtomicUsize::new(0);
static ANSWERED: AtomicUsize = AtomicUsize::new(0);
static UNHURRIED: AtomicBool = AtomicBool::new(false);

/// Takes over Ctrl-C, for a command that begins.
pub(crate) fn watch() {
    answered();
    UNHURRIED.store(false, Ordering::SeqCst);
    // Without a handler Ctrl-C still ends the program, only less tidily. With one of an earlier command there is nothing to do.
    let _ = ctrlc::set_handler(|| {
        let number = PRESSED.fetch_add(1, Ordering::SeqCst) + 1;
        if number > ANSWERED.load(Ordering::SeqCst) + 1 {
            std::process::exit(INTERRUPTED);
        }
        std::thread::spawn(move || {
            std::thread::sleep(PATIENCE);
            if ANSWERED.load(Ordering::SeqCst) < number && !UNHURRIED.load(Ordering::SeqCst) {
                std::process::exit(INTERRUPTED);
            }
        });
    });
}

/// Whether the user has asked to stop.
pub(crate) fn asked() -> bool {
    PRESSED.load(Ordering::SeqCst) != ANSWERED.load(Ordering::SeqCst)
}

/// Says that what the user wanted to stop has stopped: the command goes on, and the next Ctrl-C is a first one again.
pub(crate) fn answered() {
    ANSWERED.store(PRESSED.load(Ordering::SeqCst), Ordering::SeqCst);
}

/// Lets the command take its time from now on, as it does not end at a Ctrl-C. A second one still ends it.
pub(crate) fn do_not_hurry() {
    UNHURRIED.store(true, Ordering::SeqCst);
}
