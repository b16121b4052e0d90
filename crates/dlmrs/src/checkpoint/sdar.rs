//! SDAR and TraDo: block diffusion on Qwen3 bodies, as in the JetLM and Gen-Verse repositories.

use super::config::{self, FeedForward, NativeAttention};
use super::family::Profile;
use super::{Family, names, qwen};
use crate::sample::{Confidence, FilterOrder};

pub(super) const BODY: qwen::Body =
    qwen::Body { family: Family::Sdar, qkv_bias: false, qk_norm: true, shift: false, attention: NativeAttention::BlockCausal };

pub(super) const PROFILE: Profile = Profile {
    name: "SDAR",
    architectures: &["SDARForCausalLM"],
    read: |object| {
        let intermediate = object.size("intermediate_size", config::MAX_INTERMEDIATE)?;
        qwen::read(object, &BODY, FeedForward::Dense { intermediate })
    },
    names: &names::QWEN,
    gguf: None,
    mask_token_id: 151_669,
    block_length: Some(4),
    block_length_baked: true,
    stop_token_ids: &[151_643, 151_645],
    threshold: 0.85,
    schedule: None,
    edits: false,
    confidence: Confidence::Shaped,
    filter_order: FilterOrder::TopKFirst,
};
