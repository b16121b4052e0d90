//! Block diffusion in sub-blocks with shifted predictions: against recorded runs, against the slow obvious version, with scripted answers,
//! with sampling, and what is refused.
#![allow(clippy::unwrap_used, clippy::expect_used)] // tests

mod common;
mod equal;
mod golden;
mod random;
mod refused;
mod sampling;
mod scripted;
mod slow;
