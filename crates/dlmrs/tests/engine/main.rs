//! The engine: where texts end, what is reported, what is refused, and that a request's result depends on the request alone.
#![allow(clippy::unwrap_used, clippy::expect_used)] // tests

mod batch;
mod common;
mod refused;
mod sampling;
mod service;
mod stops;
