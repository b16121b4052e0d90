//! A config from the metadata of a GGUF file.

use super::header::Header;
use super::{HEAD, NAMES, Written};
use crate::Result;
use crate::checkpoint::config::{self, FeedForward, ModelConfig, NativeAttention};
use crate::checkpoint::experts::{MAX_EXPERTS, Mixture, Router};
use crate::checkpoint::json::{Object, shown};
use crate::checkpoint::{Family, Rope, RopeScaling};

/// Where the tokenizer's special tokens are named.
pub(super) const TOKENS: &str = "tokenizer.ggml.";

pub(super) fn read(metadata: &Object, header: &Header, family: Family, written: &Written) -> Result<ModelConfig> {
    let key = |ending: &str| format!("{}.{ending}", written.architecture);
    refuse(metadata, &key)?;
    let hidden = metadata.size(&key("embedding_length"), config::MAX_HIDDEN)?;
    let heads = metadata.size(&key("attention.head_count"), config::MAX_HEADS)?;
    let given = metadata.optional_size(&key("attention.key_length"), config::MAX_HEAD_DIM)?;
    let head_dim = config::head_dim(metadata, given, hidden, heads)?;
    metadata.only(&key("attention.value_length"), &head_dim.into())?;
    let token = |name: &str| metadata.id(&format!("{TOKENS}{name}_token_id"));
    Ok(ModelConfig {
        family,
        hidden,
        layers: metadata.size(&key("block_count"), config::MAX_LAYERS)?,
        heads,
        kv_heads: metadata.optional_size(&key("attention.head_count_kv"), config::MAX_HEADS)?.unwrap_or(heads),
        head_dim,
        vocab: vocab(metadata, header)?,
        feed_forward: match written.router {
            None => FeedForward::Dense { intermediate: metadata.size(&key("feed_forward_length"), config::MAX_INTERMEDIATE)? },
            Some(router) => FeedForward::Mixture(mixture(metadata, &key, router)?),
        },
        rms_eps: metadata.number(&key("attention.layer_norm_rms_epsilon"), 0.0, 1.0)?,
        rope: Rope { full_precision: written.full_precision, ..rope(metadata, &key, head_dim)? },
        qkv_bias: written.qkv_bias,
        qk_norm: written.qk_norm,
        tied: !header.tensors.iter().any(|(name, _)| name == HEAD),
        max_positions: metadata.size(&key("context_length"), config::MAX_POSITIONS)?,
        shift: metadata.flag("diffusion.shift_logits")?.unwrap_or(written.shift),
        attention: NativeAttention::Bidirectional,
        mask_token_id: token("mask")?,
        block_length: None,
        eos_token_ids: [token("eos")?, token("eot")?].into_iter().flatten().collect(),
        torch_dtype: None,
    })
}

/// The rows of the embedding; the metadata may count the tokenizer's tokens alone.
fn vocab(metadata: &Object, header: &Header) -> Result<usize> {
    let embedding = header.tensors.iter().find(|(name, _)| name == NAMES.embedding).map(|(_, stored)| stored.shape.as_slice());
    match embedding {
        Some([rows, _]) if (1..=config::MAX_VOCAB).contains(rows) => Ok(*rows),
        Some(shape) => Err(metadata.error(format!(
            "{} has the shape {shape:?}, but must have two dimensions and from 1 to {} rows",
            NAMES.embedding,
            config::MAX_VOCAB
        ))),
        None => Err(metadata.error(format!("{} is missing, the embedding of all tokens", NAMES.embedding))),
    }
}

fn mixture(metadata: &Object, key: &dyn Fn(&str) -> String, router: Router) -> Result<Mixture> {
    let experts = metadata.size(&key("expert_count"), MAX_EXPERTS)?;
    let (name, per_token) = (key("expert_used_count"), metadata.size(&key("expert_used_count"), MAX_EXPERTS)?);
    if per_token > experts {
        return Err(metadata.error(format!("{name} is {per_token}, but there are only {experts} experts")));
    }
    Ok(Mixture {
        experts,
        per_token,
        intermediate: metadata.size(&key("expert_feed_forward_length"), config::MAX_INTERMEDIATE)?,
        router,
        shared: None,
        dense_first: (0, 0),
    })
}

fn rope(metadata: &Object, key: &dyn Fn(&str) -> String, head_dim: usize) -> Result<Rope> {
    let name = key("rope.dimension_count");
    let rotary_dim = metadata.optional_size(&name, head_dim)?.unwrap_or(head_dim);
    if !rotary_dim.is_multiple_of(2) {
        return Err(metadata.error(format!("{name} is {rotary_dim}, but must be even")));
    }
    let (name, factor) = (key("rope.scaling.type"), key("rope.scaling.factor"));
    let scaling = match metadata.text(&name)? {
        None | Some("none") => RopeScaling::None,
        Some("linear") => RopeScaling::Linear { factor: metadata.number(&factor, 1.0, 1e6)? },
        Some(other) => {
            return Err(metadata.error(format!("{name} is {}, but only \"none\" and \"linear\" are supported", shown(&other.into()))));
        }
    };
    // What llama.cpp takes where nothing is said.
    let theta = metadata.optional_number(&key("rope.freq_base"), 1.0, 1e12)?.unwrap_or(10_000.0);
    Ok(Rope { theta, rotary_dim, full_precision: false, scaling })
}

/// What would change the arithmetic and is not implemented.
fn refuse(metadata: &Object, key: &dyn Fn(&str) -> String) -> Result<()> {
    metadata.only(&key("attention.causal"), &false.into())?;
    metadata.only(&key("use_parallel_residual"), &false.into())?;
    for name in ["attention.sliding_window", "expert_shared_count", "expert_group_count", "leading_dense_block_count"] {
        metadata.only(&key(name), &0.into())?;
    }
    let others = [
        "logit_scale",
        "attention.clamp_kqv",
        "attention.max_alibi_bias",
        "attn_logit_softcapping",
        "final_logit_softcapping",
        "rope.dimension_sections",
        "embedding_scale",
        "residual_scale",
    ];
    for name in others.map(key) {
        if let Some(value) = metadata.get(&name) {
            return Err(metadata.error(format!("{name} is {}, but no such setting is supported", shown(value))));
        }
    }
    Ok(())
}
