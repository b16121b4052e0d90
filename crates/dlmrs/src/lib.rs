//! Text generation with diffusion language models.
//!
//! A diffusion language model fills a *canvas* of mask tokens in any order, several tokens a pass. Here the model has one entry,
//! [`model::Model::forward`], and everything that is about diffusion is data handed to it: a [`pass::Pass`] says which tokens at which
//! positions see which keys, what is kept in the cache and which rows are read. A decoder ([`decode`]) is a state machine that asks
//! for passes; the [`engine`] runs those of all active requests together.

pub mod checkpoint;
pub mod error;
pub mod tokenizer;

pub use error::{Error, Result};
