//! SDAR-30B-A3B: SDAR on a Qwen3 body with a mixture of experts in every layer.

use super::config::FeedForward;
use super::family::Profile;
use super::{Family, experts, qwen, sdar};

const BODY: qwen::Body = qwen::Body { family: Family::SdarMoe, ..sdar::BODY };

pub(super) const PROFILE: Profile = Profile {
    name: "SDAR-MoE",
    architectures: &["SDARMoeForCausalLM"],
    // Whether the weights are renormalised must be said: Qwen's own default and SDAR's checkpoints differ.
    read: |object| qwen::read(object, &BODY, FeedForward::Mixture(experts::qwen(object, None)?)),
    ..sdar::PROFILE
};
