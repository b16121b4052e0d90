//! Checkpoints that are broken in every way we could think of, and the facts read from sound ones.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "checkpoint/common.rs"]
mod common;
#[path = "checkpoint/config.rs"]
mod config;
#[path = "checkpoint/defaults.rs"]
mod defaults;
#[path = "checkpoint/folder.rs"]
mod folder;
#[path = "checkpoint/gguf.rs"]
mod gguf;
mod gguf_writer;
#[path = "checkpoint/inspect.rs"]
mod inspect;
#[path = "checkpoint/quantise.rs"]
mod quantise;
#[path = "checkpoint/weights.rs"]
mod weights;
