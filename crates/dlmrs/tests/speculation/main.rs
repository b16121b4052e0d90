//! Speculation against the target alone, the recorded verification passes, and the laws that rejection sampling promises.
#![allow(clippy::unwrap_used, clippy::expect_used)] // tests

mod canvas;
mod common;
mod identical;
mod law;
mod layouts;
mod mixtures;
mod pair;
mod self_speculative;
mod walks;
