//! What a decoder has to know.

use super::DreamAlg;
use crate::params::SamplingParams;
use crate::sample::{Confidence, FilterOrder};

/// What a decoder has to know of the request and of the model.
#[derive(Clone, Debug)]
pub struct Task {
    /// The prompt; mask ids in it are slots to fill.
    pub prompt: Vec<u32>,
    /// The request's settings, validated.
    pub params: SamplingParams,
    /// `params.seed`, or one that was drawn.
    pub seed: u64,
    /// The token that marks an undecided slot.
    pub mask_token_id: u32,
    /// V
    pub vocab: usize,
    /// Ids from here on are never drawn.
    pub drawable: u32,
    /// End of text, for `logits_eos_inf`.
    pub eos_token_id: Option<u32>,
    /// All stop ids of checkpoint and request.
    pub stop_token_ids: Vec<u32>,
    /// B of the checkpoint.
    pub block_length: Option<usize>,
    /// The threshold of the family's own block diffusion.
    pub threshold: f32,
    /// Whether the prediction for slot i is read at row i - 1.
    pub shift: bool,
    /// The schedule that a canvas is decided by unless the settings say otherwise, as a whole; None is the fixed one, in blocks.
    pub alg: Option<DreamAlg>,
    /// Which distribution confidences are taken from above temperature 0.
    pub confidence: Confidence,
    /// In which order filters are applied.
    pub filter_order: FilterOrder,
}
