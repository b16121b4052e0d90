//! What a checkpoint folder says: its family, its shape, its defaults and its weights, each checked before anything is computed.
//!
//! [`Folder`] finds the files (a GGUF file takes the place of all of them), [`ModelConfig`] describes the one decoder layer that serves every family, [`facts`] settles what a
//! config often leaves out (mask id, block length, stop ids), [`Weights`] maps the tensors and compares all of them with the config,
//! and [`inspect()`] prints all that without reading a weight. Whatever is found in a file is either honoured or refused by name.

mod blocks;
#[cfg(feature = "bundled")]
pub mod bundled;
mod check;
pub mod config;
pub mod defaults;
mod dream;
pub mod experts;
pub mod family;
mod fast_dllm_v2;
pub mod folder;
mod footprint;
mod gguf;
mod hub;
mod index;
pub mod inspect;
mod json;
mod llada;
mod llada2;
mod llada_moe;
pub mod names;
mod quantise;
mod qwen;
mod rnd1;
pub mod rope;
mod rounded;
mod sdar;
mod sdar_moe;
mod shard;
pub mod weights;

pub use config::{FeedForward, ModelConfig, NativeAttention};
pub use defaults::{Facts, Overrides, facts};
pub use experts::{ExpertLayout, Mixture, MixtureNames, Router, StoredRows};
pub use family::Family;
pub use folder::{Folder, TEXTS};
pub(crate) use footprint::{number_type, weight_bytes};
pub use gguf::Gguf;
pub use hub::data_file;
pub use inspect::{Report, inspect};
pub(crate) use json::shown;
pub use names::{LayerNames, Names};
pub use quantise::{Quantised, quantise};
pub use rope::{Rope, RopeScaling};
pub use weights::{StoredType, Weights};
