//! The golden data: what the reference implementations compute with tiny random checkpoints, in f32 (see tests/golden/README.md in the
//! project's root). Every case runs through our kernels and through the plain Candle operations.
#![allow(clippy::unwrap_used, clippy::expect_used)] // tests

mod common;
mod editing;
mod forward;
mod generate;
mod mixtures;
mod slow;
