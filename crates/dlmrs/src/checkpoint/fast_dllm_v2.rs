//! Fast-dLLM v2: block-causal with predictions shifted by one, on Qwen2.5 bodies, as in the Efficient-Large-Model repositories.

use super::config::{self, FeedForward, NativeAttention};
use super::family::Profile;
use super::{Family, names, qwen};
use crate::sample::{Confidence, FilterOrder};

const BODY: qwen::Body =
    qwen::Body { family: Family::FastDllmV2, qkv_bias: true, qk_norm: false, shift: true, attention: NativeAttention::BlockCausal };

pub(super) const PROFILE: Profile = Profile {
    name: "Fast-dLLM v2",
    architectures: &["Fast_dLLM_QwenForCausalLM"],
    read: |object| {
        let intermediate = object.size("intermediate_size", config::MAX_INTERMEDIATE)?;
        qwen::read(object, &BODY, FeedForward::Dense { intermediate })
    },
    names: &names::QWEN,
    gguf: None,
    mask_token_id: 151_665,
    block_length: Some(32),
    block_length_baked: true,
    stop_token_ids: &[151_645],
    // What its published chat uses; the function's own default is 1, one token a pass.
    threshold: 0.9,
    schedule: None,
    edits: false,
    // Its filter is top-p alone, and confidences come from what is left.
    confidence: Confidence::Shaped,
    filter_order: FilterOrder::TopKFirst,
};
