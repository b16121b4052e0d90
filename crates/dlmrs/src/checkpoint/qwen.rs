//! Configs with the keys of Qwen, for the families on its bodies.

use serde_json::Value;

use super::config::{self, FeedForward, ModelConfig, NativeAttention};
use super::json::{Object, shown};
use super::{Family, Rope};
use crate::Result;

/// Keys that name a block length, the first that is there counts.
const BLOCK_KEYS: [&str; 4] = ["block_size", "block_length", "bd_size", "canvas_length"];

/// What the families on Qwen's bodies differ in.
pub(super) struct Body {
    pub(super) family: Family,
    pub(super) qkv_bias: bool,
    pub(super) qk_norm: bool,
    pub(super) shift: bool,
    pub(super) attention: NativeAttention,
}

pub(super) fn read(object: &Object, body: &Body, feed_forward: FeedForward) -> Result<ModelConfig> {
    refuse(object, body)?;
    let hidden = object.size("hidden_size", config::MAX_HIDDEN)?;
    let heads = object.size("num_attention_heads", config::MAX_HEADS)?;
    let head_dim = config::head_dim(object, object.optional_size("head_dim", config::MAX_HEAD_DIM)?, hidden, heads)?;
    let max_positions = object.size("max_position_embeddings", config::MAX_POSITIONS)?;
    let has_grid = body.attention == NativeAttention::BlockCausal;
    Ok(ModelConfig {
        family: body.family,
        hidden,
        layers: object.size("num_hidden_layers", config::MAX_LAYERS)?,
        heads,
        kv_heads: object.optional_size("num_key_value_heads", config::MAX_HEADS)?.unwrap_or(heads),
        head_dim,
        vocab: object.size("vocab_size", config::MAX_VOCAB)?,
        feed_forward,
        rms_eps: object.number("rms_norm_eps", 0.0, 1.0)?,
        rope: Rope::read(object, head_dim)?,
        qkv_bias: body.qkv_bias,
        qk_norm: body.qk_norm,
        tied: object.flag("tie_word_embeddings")?.unwrap_or(false),
        max_positions,
        shift: body.shift,
        attention: body.attention,
        mask_token_id: config::mask_token_id(object)?,
        block_length: if has_grid { block_length(object, max_positions)? } else { None },
        eos_token_ids: object.ids("eos_token_id")?,
        torch_dtype: config::torch_dtype(object)?,
    })
}

pub(super) fn block_length(object: &Object, max_positions: usize) -> Result<Option<usize>> {
    for key in BLOCK_KEYS {
        if let Some(length) = object.optional_size(key, max_positions)? {
            return Ok(Some(length));
        }
    }
    Ok(None)
}

/// What would change the arithmetic and is not implemented.
fn refuse(object: &Object, body: &Body) -> Result<()> {
    config::refuse_foreign(object)?;
    object.only("hidden_act", &"silu".into())?;
    // A window that is written down but switched off is common.
    object.only("use_sliding_window", &false.into())?;
    object.only("use_mrope", &false.into())?;
    object.only("attention_layer_norm", &false.into())?;
    if !body.qkv_bias {
        // It would put a bias on o too. The biases of Qwen2 bodies are not a matter of this key.
        object.only("attention_bias", &false.into())?;
    }
    if let Some(Value::Array(kinds)) = object.get("layer_types")
        && let Some(kind) = kinds.iter().find(|kind| kind.as_str() != Some("full_attention"))
    {
        return Err(object.error(format!("layer_types holds {}, but only \"full_attention\" is supported", shown(kind))));
    }
    Ok(())
}
