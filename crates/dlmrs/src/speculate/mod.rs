//! Speculation: several states of a block are guessed, and one pass of the target judges them all.
//!
//! What is here are the parts that the decoders share: the layouts of a verification pass ([`layout`]), the walk along the states that
//! the target confirms ([`walk`]), where guesses come from ([`guesses`], and a draft model), acceptance one slot at a time ([`accept`]),
//! when S2D2 verifies ([`route`]), and what
//! speculation costs ([`cost`]).

pub mod accept;
pub mod cost;
pub(crate) mod drafter;
pub mod guesses;
pub mod layout;
mod lookahead;
pub mod route;
mod s2d2;
mod simsd;
pub mod walk;

pub(crate) use drafter::{DraftPlan, Drafter};
pub(crate) use lookahead::{LookaheadDecoder, Sources};
pub(crate) use s2d2::{Judgement, S2d2Decoder, SelfSpeculation};
pub(crate) use simsd::{Arrangement, Judging, SimSdDecoder};
