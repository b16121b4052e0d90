//! Caches, suffix policies, reveal rules and early ends on bidirectional models: what equals what, what is counted, what is drawn.
#![allow(clippy::unwrap_used, clippy::expect_used)] // tests

mod accounting;
mod attention;
mod common;
mod draws;
mod equal;
mod mixtures;
mod refused;
mod rows;
mod stops;
