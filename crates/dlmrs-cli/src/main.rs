//! The `dlmrs` binary.

fn main() {
    std::process::exit(dlmrs_cli::run(std::env::args_os()));
}
