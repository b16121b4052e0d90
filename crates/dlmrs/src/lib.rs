//! Text generation with diffusion language models.
//!
//! A diffusion language model fills a *canvas* of mask tokens in any order, several tokens a pass. Here the model has one entry,
//! [`model::Model::forward`], and everything that is about diffusion is data handed to it: a [`pass::Pass`] says which tokens at which
//! positions see which keys, what is kept in the cache and which rows are read. A decoder ([`decode`]) is a state machine that asks
//! for passes; the [`engine`] runs those of all active requests together.
//!
//! ```
//! # #[cfg(feature = "bundled")]
//! # fn main() -> dlmrs::Result<()> {
//! use dlmrs::tokenizer::{ChatOptions, Message, Specials};
//! use dlmrs::{Event, Llm, LoadOptions, Overrides, Request, SamplingParams};
//!
//! // A folder, or the name of a bundled model (feature `bundled`).
//! let llm = Llm::load("tiny-sdar", &LoadOptions::default(), &Overrides::default())?;
//! let question = Message::new("user", "Mia buys 9 pens for 5 dollars each. How much does Mia spend?");
//! let prompt = llm.require_tokenizer()?.encode_chat(&[question], &ChatOptions::default(), Specials::AsText)?;
//! let params = SamplingParams { max_tokens: 64, ..SamplingParams::default() };
//!
//! let mut engine = llm.engine();
//! engine.submit(Request { prompt, params, decoding: None })?;
//! while !engine.is_idle() {
//!     for event in engine.step()? {
//!         match event {
//!             Event::Committed { text, .. } => print!("{text}"),
//!             Event::Finished { output, .. } => println!(" ({:.1} tokens a pass)", output.stats.tokens_per_pass()),
//!             Event::Revealed { .. } | Event::Failed { .. } => {}
//!         }
//!     }
//! }
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "bundled"))]
//! # fn main() {}
//! ```

mod arithmetic;
pub mod cache;
pub mod checkpoint;
pub mod decode;
pub mod device;
pub mod draft;
pub mod engine;
pub mod error;
pub mod llm;
pub mod model;
pub mod params;
pub mod pass;
pub mod sample;
pub mod speculate;
pub mod tokenizer;

pub use arithmetic::{Backend, Precision};
pub use checkpoint::{Folder, Overrides};
pub use decode::{BlockDiffusion, Canvas, Decoding, Editing, Lookahead, S2D2, SimSD, SubBlockDiffusion};
pub use draft::DraftSource;
pub use engine::{Engine, Event, FinishReason, Output, Request};
pub use error::{Error, Result};
pub use llm::Llm;
pub use model::{LoadOptions, Model};
pub use params::SamplingParams;
