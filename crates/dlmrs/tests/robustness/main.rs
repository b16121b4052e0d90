//! Files, templates, texts and ids that nobody would write by accident. Whatever they hold, a reader answers or refuses with one
//! sentence that names the file; it never panics, and what it allocates is bounded by the size of what it reads.
//!
//! Each property is tried [`common::TRIES`] times from a fixed seed; `PROPTEST_CASES` sets another number.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)] // tests

mod common;
mod configs;
mod gguf;
#[path = "../gguf_writer/mod.rs"]
mod gguf_writer;
mod mutations;
mod special_files;
mod template_limits;
mod templates;
mod texts;
mod tokenizers;
mod weights;
