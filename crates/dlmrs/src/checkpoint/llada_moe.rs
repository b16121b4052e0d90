//! LLaDA-MoE-7B-A1B: bidirectional, a mixture of experts in every layer, as in the inclusionAI repositories. Its `model_type` is that
//! of LLaDA-8B, its keys and names are nearly Qwen's.

use serde_json::Value;

use super::config::{self, FeedForward, ModelConfig, NativeAttention};
use super::experts::{self, Mixture, Router};
use super::family::Profile;
use super::json::{Object, shown};
use super::{Family, gguf, llada, names, qwen};
use crate::Result;

const BODY: qwen::Body =
    qwen::Body { family: Family::LladaMoe, qkv_bias: false, qk_norm: true, shift: false, attention: NativeAttention::Bidirectional };

pub(super) const PROFILE: Profile = Profile {
    name: "LLaDA-MoE",
    architectures: &["LLaDAMoEModelLM", "LLaDAMoEModel"],
    read,
    names: &names::QWEN,
    gguf: Some(gguf::Written {
        architecture: "llada-moe",
        names: &gguf::NAMES,
        qkv_bias: false,
        qk_norm: true,
        shift: false,
        full_precision: false,
        router: Some(Router::Softmax { renormalise: false }),
    }),
    mask_token_id: 156_895,
    stop_token_ids: &[156_892],
    ..llada::PROFILE
};

fn read(object: &Object) -> Result<ModelConfig> {
    // The family's code never renormalises, whatever the config says; one that says true was made for other code.
    for key in ["norm_topk_prob", "moe_router_enable_expert_bias"] {
        object.only(key, &false.into())?;
    }
    object.only("qk_layernorm", &true.into())?;
    if let Some(size) = object.get("shared_expert_intermediate_size").filter(|size| size.as_u64() != Some(0)) {
        return Err(object.error(format!(
            "shared_expert_intermediate_size is {}, but LLaDA-MoE without a shared expert only is supported",
            shown(size)
        )));
    }
    if let Some(Value::Array(layers)) = object.get("moe_layer_freq")
        && let Some(layer) = layers.iter().position(|layer| layer.as_u64() != Some(1))
    {
        return Err(object.error(format!("moe_layer_freq makes layer {layer} dense, but only a mixture in every layer is supported")));
    }
    let (experts, per_token) = experts::counts(object)?;
    let mixture = Mixture {
        experts,
        per_token,
        intermediate: object.size("expert_intermediate_size", config::MAX_INTERMEDIATE)?,
        router: Router::Softmax { renormalise: false },
        shared: None,
        dense_first: (0, 0),
    };
    qwen::read(object, &BODY, FeedForward::Mixture(mixture))
}
