//! Nothing but tests: candle-transformers' causal models as an independent oracle for our decoder layer (see `tests/causal.rs`).
//!
//! This is a crate of its own, and no default member, because candle-transformers is more than a hundred models to compile:
//! `cargo test -p dlmrs-oracle`.
