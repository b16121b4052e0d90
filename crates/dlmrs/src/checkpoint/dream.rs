//! Dream, Dream-Coder and DiffuCoder: bidirectional, on Qwen2.5 bodies, as in the Dream-org repositories.

use super::config::{self, FeedForward, NativeAttention};
use super::family::Profile;
use super::{Family, gguf, names, qwen};
use crate::decode::DreamAlg;
use crate::sample::{Confidence, FilterOrder};

const BODY: qwen::Body =
    qwen::Body { family: Family::Dream, qkv_bias: true, qk_norm: false, shift: true, attention: NativeAttention::Bidirectional };

pub(super) const PROFILE: Profile = Profile {
    name: "Dream",
    architectures: &["DreamModel"],
    read: |object| {
        let intermediate = object.size("intermediate_size", config::MAX_INTERMEDIATE)?;
        qwen::read(object, &BODY, FeedForward::Dense { intermediate })
    },
    names: &names::QWEN,
    gguf: Some(gguf::Written {
        architecture: "dream",
        names: &gguf::NAMES,
        qkv_bias: true,
        qk_norm: false,
        shift: true,
        full_precision: false,
        router: None,
    }),
    mask_token_id: 151_666,
    block_length: None,
    block_length_baked: false,
    stop_token_ids: &[151_643, 151_645],
    threshold: 0.85,
    schedule: Some(DreamAlg::Entropy),
    edits: false,
    confidence: Confidence::Shaped,
    filter_order: FilterOrder::TopPFirst,
};
