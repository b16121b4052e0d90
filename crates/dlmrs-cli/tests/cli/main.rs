//! The command as a user runs it: the binary, in a pipe.
#![allow(clippy::unwrap_used)]

mod bench;
mod common;
mod demo;
mod errors;
mod generate;
mod input;
mod inspect;
mod stop;
