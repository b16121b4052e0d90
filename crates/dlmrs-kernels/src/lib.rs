//! The arithmetic of `dlmrs` on a CPU: matrix products for few and for many rows, attention over the visible keys, the row-wise
//! operations between them, and statistics of logits.
//!
//! # The rule above all
//!
//! *A row's arithmetic depends on nothing but that row's own inputs*: not on how many rows stand beside it, at which place it
//! stands, or how many threads share the work. Every product sums over its inner index from the first to the last with one
//! accumulator an output; attention sums over the given keys in the order given; an element gets the same operations in the
//! body of a vector loop and in its tail. So the same row has the same bits alone and in a batch. That holds at one
//! [`Isa`]; two levels may differ in the last bits, because one has a fused multiply-add and another has not.
//!
//! # How it is built
//!
//! Kernels are written once, over vectors of 16 lanes, and compiled once for each [`Isa`]; the CPU is asked at run time. A [`Team`] is the set of threads that share the work.
//!
//! Letters in shapes: R rows, K inputs, N outputs, H query heads, G key/value heads, D head size, T keys, V vocabulary.
//! All slices are row-major `f32`. A length that does not fit its shape is a bug of the caller and panics with the name of the slice.

mod attention;
mod disjoint;
mod elementwise;
mod isa;
mod linear;
mod pool;
mod rotate;
mod scan;
mod simd;
mod team;

pub use attention::{AttentionPass, Sight, attention, attention_reference};
pub use elementwise::{add_assign, rms_norm, silu_mul};
pub use isa::Isa;
pub use linear::{INT8_GROUP, PackedLinear, QuantisedRows, WeightType, linear_reference, quantise_rows};
pub use rotate::rotate;
pub use scan::{TileStats, exp_tile, tile_stats, top_two};
pub use team::Team;
