//! The `dlmrs` binary.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Exit code after Ctrl-C, as shells have it.
const INTERRUPTED: i32 = 130;

/// How long the command may take to end by itself. It cannot while it reads standard input or a model.
const PATIENCE: Duration = Duration::from_secs(1);

static STOP: AtomicBool = AtomicBool::new(false);

fn main() {
    // Without a handler Ctrl-C still ends the program, only less tidily.
    let _ = ctrlc::set_handler(|| {
        if STOP.swap(true, Ordering::SeqCst) {
            std::process::exit(INTERRUPTED);
        }
        std::thread::spawn(|| {
            std::thread::sleep(PATIENCE);
            std::process::exit(INTERRUPTED);
        });
    });
    std::process::exit(dlmrs_cli::run(std::env::args_os(), &|| STOP.load(Ordering::SeqCst)));
}
