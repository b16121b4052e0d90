//! Configs with the keys of OLMo: LLaDA-8B and LLaDA-1.5, as in the GSAI-ML repositories.

use super::config::{self, FeedForward, ModelConfig, NativeAttention};
use super::family::Profile;
use super::json::{Object, shown};
use super::names::{LayerParts, Names};
use super::{Family, Rope, experts, gguf};
use crate::Result;
use crate::sample::{Confidence, FilterOrder};

/// `ff_out` is two things: the way back of a layer, and at the top level the output head.
const NAMES: Names = Names {
    embedding: "model.transformer.wte.weight",
    final_norm: "model.transformer.ln_f.weight",
    head: "model.transformer.ff_out.weight",
    layer: &LayerParts {
        prefix: "model.transformer.blocks",
        input_norm: "attn_norm.weight",
        qkv: ["q_proj", "k_proj", "v_proj"],
        fused_qkv: false,
        head_norms: ["q_norm.weight", "k_norm.weight"],
        o: "attn_out.weight",
        post_norm: "ff_norm.weight",
        gate: "ff_proj.weight",
        up: "up_proj.weight",
        down: "ff_out.weight",
        mixture: &experts::PARTS,
        paired: false,
    },
};

pub(super) const PROFILE: Profile = Profile {
    name: "LLaDA",
    architectures: &["LLaDAModelLM"],
    read,
    names: &NAMES,
    gguf: Some(gguf::Written {
        architecture: "llada",
        names: &gguf::PAIRED_NAMES,
        qkv_bias: false,
        qk_norm: false,
        shift: false,
        full_precision: true,
        router: None,
    }),
    mask_token_id: 126_336,
    block_length: None,
    block_length_baked: false,
    stop_token_ids: &[126_081, 126_348],
    threshold: 0.85,
    schedule: None,
    edits: false,
    confidence: Confidence::Raw,
    filter_order: FilterOrder::TopKFirst,
};

fn read(object: &Object) -> Result<ModelConfig> {
    refuse(object)?;
    let hidden = object.size("d_model", config::MAX_HIDDEN)?;
    let heads = object.size("n_heads", config::MAX_HEADS)?;
    let head_dim = config::head_dim(object, None, hidden, heads)?;
    let rope = Rope { full_precision: object.flag("rope_full_precision")?.unwrap_or(true), ..Rope::read(object, head_dim)? };
    Ok(ModelConfig {
        family: Family::Llada,
        hidden,
        layers: object.size("n_layers", config::MAX_LAYERS)?,
        heads,
        kv_heads: object.optional_size("n_kv_heads", config::MAX_HEADS)?.unwrap_or(heads),
        head_dim,
        vocab: vocab(object)?,
        feed_forward: FeedForward::Dense { intermediate: intermediate(object, hidden)? },
        rms_eps: object.number("rms_norm_eps", 0.0, 1.0)?,
        rope,
        qkv_bias: false,
        qk_norm: false,
        // The layout's own default.
        tied: object.flag("weight_tying")?.unwrap_or(true),
        max_positions: object.size("max_sequence_length", config::MAX_POSITIONS)?,
        shift: false,
        attention: NativeAttention::Bidirectional,
        mask_token_id: config::mask_token_id(object)?,
        block_length: None,
        eos_token_ids: object.ids("eos_token_id")?,
        torch_dtype: config::torch_dtype(object)?,
    })
}

/// The rows of the embedding: `embedding_size` where given, which may be padded beyond `vocab_size`.
fn vocab(object: &Object) -> Result<usize> {
    let vocab = object.size("vocab_size", config::MAX_VOCAB)?;
    match object.optional_size("embedding_size", config::MAX_VOCAB)? {
        Some(rows) if rows < vocab => Err(object.error(format!("embedding_size is {rows}, but must be at least vocab_size, {vocab}"))),
        rows => Ok(rows.unwrap_or(vocab)),
    }
}

/// `mlp_hidden_size`, else `mlp_ratio` times the hidden size.
fn intermediate(object: &Object, hidden: usize) -> Result<usize> {
    if let Some(size) = object.optional_size("mlp_hidden_size", config::MAX_INTERMEDIATE)? {
        return Ok(size);
    }
    let Some(ratio) = object.optional_size("mlp_ratio", 1024)? else {
        return Err(object.error("mlp_hidden_size is missing, and there is no mlp_ratio to tell it"));
    };
    let size = hidden * ratio;
    if size > config::MAX_INTERMEDIATE {
        return Err(object.error(format!(
            "mlp_ratio is {ratio}, which makes the feed-forward size {size}, but it must be at most {}",
            config::MAX_INTERMEDIATE
        )));
    }
    Ok(size)
}

/// What would change the arithmetic and is not implemented.
fn refuse(object: &Object) -> Result<()> {
    config::refuse_foreign(object)?;
    // The layout's own defaults are other values, so these must be said.
    for (key, value) in [("block_type", "llama"), ("layer_norm_type", "rms"), ("activation_type", "silu")] {
        object.exactly(key, &value.into())?;
    }
    object.exactly("rope", &true.into())?;
    object.only("layer_norm_with_affine", &true.into())?;
    object.only("block_group_size", &1.into())?;
    for key in [
        "alibi",
        "include_bias",
        "include_qkv_bias",
        "bias_for_layer_norm",
        "attention_layer_norm",
        "scale_logits",
        "input_emb_norm",
        "multi_query_attention",
    ] {
        object.only(key, &false.into())?;
    }
    // Keys of other layouts: the LLaDA code has neither, so they would be ignored silently.
    for key in ["clip_qkv", "rope_scaling", "rope_parameters", "partial_rotary_factor", "head_dim"] {
        if let Some(value) = object.get(key) {
            return Err(object.error(format!("{key} is {}, but the LLaDA layout has no such setting; remove it", shown(value))));
        }
    }
    Ok(())
}
