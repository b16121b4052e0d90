//! The command as a user runs it: the binary, in a pipe.
#![allow(clippy::unwrap_used)]

mod common;
mod demo;
mod errors;
mod eval;
mod generate;
mod input;
mod inspect;
mod stop;
