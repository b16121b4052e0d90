//! RND1: bidirectional, shifted by one, on a Qwen3 body with a mixture of experts in every layer, as in radicalnumerics/RND1-Base-0910.

use super::config::{FeedForward, NativeAttention};
use super::family::Profile;
use super::{Family, experts, gguf, names, qwen};
use crate::decode::DreamAlg;
use crate::sample::{Confidence, FilterOrder};

const BODY: qwen::Body =
    qwen::Body { family: Family::Rnd1, qkv_bias: false, qk_norm: true, shift: true, attention: NativeAttention::Bidirectional };

pub(super) const PROFILE: Profile = Profile {
    name: "RND1",
    architectures: &["RND1LM"],
    // The family's own configuration class renormalises unless told otherwise.
    read: |object| qwen::read(object, &BODY, FeedForward::Mixture(experts::qwen(object, Some(true))?)),
    names: &names::QWEN,
    gguf: Some(gguf::Written {
        architecture: "rnd1",
        names: &gguf::NAMES,
        qkv_bias: false,
        qk_norm: true,
        shift: true,
        full_precision: false,
        router: Some(experts::Router::Softmax { renormalise: true }),
    }),
    mask_token_id: 151_669,
    block_length: None,
    block_length_baked: false,
    stop_token_ids: &[151_645],
    threshold: 0.85,
    schedule: Some(DreamAlg::EvenEntropy),
    edits: false,
    confidence: Confidence::Shaped,
    filter_order: FilterOrder::TopKFirst,
};
