//! LLaDA2.0 and 2.1 (mini and flash): block-causal mixtures of experts with Bailing's keys and names, as in the inclusionAI repositories.

use super::config::{self, FeedForward, ModelConfig, NativeAttention};
use super::experts::{self, Mixture, Router};
use super::family::Profile;
use super::json::{Object, shown};
use super::names::{LayerParts, Names};
use super::{Family, Rope, qwen};
use crate::Result;
use crate::sample::{Confidence, FilterOrder};

/// Heads of q, k and v stand in one matrix, all of q first.
const NAMES: Names = Names {
    embedding: "model.word_embeddings.weight",
    final_norm: "model.norm.weight",
    head: "lm_head.weight",
    layer: &LayerParts {
        prefix: "model.layers",
        input_norm: "input_layernorm.weight",
        qkv: ["attention.query_key_value"; 3],
        fused_qkv: true,
        head_norms: ["attention.query_layernorm.weight", "attention.key_layernorm.weight"],
        o: "attention.dense.weight",
        post_norm: "post_attention_layernorm.weight",
        gate: "mlp.gate_proj.weight",
        up: "mlp.up_proj.weight",
        down: "mlp.down_proj.weight",
        mixture: &experts::PARTS,
        paired: false,
    },
};

pub(super) const PROFILE: Profile = Profile {
    name: "LLaDA2",
    architectures: &["LLaDA2MoeModelLM"],
    read,
    names: &NAMES,
    gguf: None,
    mask_token_id: 156_895,
    block_length: Some(32),
    // Trained with growing blocks: smaller ones are as good.
    block_length_baked: false,
    stop_token_ids: &[156_892],
    threshold: 0.95,
    schedule: None,
    // 2.1 was; nothing in a config tells it from 2.0.
    edits: true,
    confidence: Confidence::Shaped,
    filter_order: FilterOrder::TopKFirst,
};

fn read(object: &Object) -> Result<ModelConfig> {
    refuse(object)?;
    let hidden = object.size("hidden_size", config::MAX_HIDDEN)?;
    let heads = object.size("num_attention_heads", config::MAX_HEADS)?;
    let head_dim = config::head_dim(object, object.optional_size("head_dim", config::MAX_HEAD_DIM)?, hidden, heads)?;
    let layers = object.size("num_hidden_layers", config::MAX_LAYERS)?;
    let max_positions = object.size("max_position_embeddings", config::MAX_POSITIONS)?;
    let rope = Rope::read(object, head_dim)?;
    match object.optional_size("rotary_dim", head_dim)? {
        Some(size) if size != rope.rotary_dim => {
            let turned = rope.rotary_dim;
            return Err(object.error(format!("rotary_dim is {size}, but partial_rotary_factor turns {turned} dimensions; they must agree")));
        }
        _ => {}
    }
    Ok(ModelConfig {
        family: Family::Llada2,
        hidden,
        layers,
        heads,
        kv_heads: object.optional_size("num_key_value_heads", config::MAX_HEADS)?.unwrap_or(heads),
        head_dim,
        vocab: object.size("vocab_size", config::MAX_VOCAB)?,
        feed_forward: FeedForward::Mixture(mixture(object, layers)?),
        rms_eps: object.number("rms_norm_eps", 0.0, 1.0)?,
        rope,
        qkv_bias: false,
        qk_norm: true,
        tied: object.flag("tie_word_embeddings")?.unwrap_or(false),
        max_positions,
        shift: false,
        attention: NativeAttention::BlockCausal,
        mask_token_id: config::mask_token_id(object)?,
        block_length: qwen::block_length(object, max_positions)?,
        eos_token_ids: object.ids("eos_token_id")?,
        torch_dtype: config::torch_dtype(object)?,
    })
}

fn mixture(object: &Object, layers: usize) -> Result<Mixture> {
    let (experts, per_token) = experts::counts(object)?;
    let intermediate = object.size("moe_intermediate_size", config::MAX_INTERMEDIATE)?;
    let shared = object.optional_count("num_shared_experts", experts::MAX_EXPERTS)?.unwrap_or(0);
    object.only("moe_shared_expert_intermediate_size", &intermediate.into())?;
    let groups = object.optional_size("n_group", experts::MAX_EXPERTS)?.unwrap_or(1);
    let dense = object.optional_count("first_k_dense_replace", layers)?.unwrap_or(0);
    // One matrix holds what several shared experts would.
    let shared_size = intermediate.saturating_mul(shared);
    if shared_size > config::MAX_INTERMEDIATE {
        return Err(object.error(format!(
            "num_shared_experts is {shared}, which makes them {shared_size} together, but at most {} is supported",
            config::MAX_INTERMEDIATE
        )));
    }
    Ok(Mixture {
        experts,
        per_token,
        intermediate,
        router: Router::Sigmoid {
            bias: object.flag("moe_router_enable_expert_bias")?.unwrap_or(true),
            groups,
            kept_groups: object.optional_size("topk_group", experts::MAX_EXPERTS)?.unwrap_or(groups),
            scale: object.optional_number("routed_scaling_factor", 0.0, 1e6)?.unwrap_or(1.0),
        },
        shared: (shared > 0).then_some(shared_size),
        dense_first: (dense, if dense > 0 { object.size("intermediate_size", config::MAX_INTERMEDIATE)? } else { 0 }),
    })
}

/// What would change the arithmetic and is not implemented.
fn refuse(object: &Object) -> Result<()> {
    config::refuse_foreign(object)?;
    for (key, value) in [("hidden_act", "silu"), ("score_function", "sigmoid"), ("router_dtype", "fp32")] {
        object.only(key, &value.into())?;
    }
    for key in ["use_sliding_window", "use_bias", "use_qkv_bias"] {
        object.only(key, &false.into())?;
    }
    for key in ["use_qk_norm", "norm_topk_prob"] {
        object.only(key, &true.into())?;
    }
    if let Some(capacity) = object.get("expert_capacity").filter(|capacity| capacity.as_u64() != Some(0)) {
        let message = "which LLaDA2.2 does; only 2.0 and 2.1 are supported";
        return Err(object.error(format!("expert_capacity is {}, so experts are chosen for whole blocks, {message}", shown(capacity))));
    }
    Ok(())
}
