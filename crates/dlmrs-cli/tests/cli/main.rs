//! The command as a user runs it: the binary, in a pipe or on a terminal.
#![allow(clippy::unwrap_used)]

mod bench;
mod chat;
mod chat_files;
mod common;
mod completions;
mod demo;
mod errors;
mod eval;
mod generate;
mod input;
mod inspect;
mod no_home;
#[cfg(unix)]
mod pty;
mod quantize;
mod reference;
mod stop;
mod sub_blocks;
mod template;
#[cfg(unix)]
mod terminal;
