//! What each tensor is called in a family's files, and the shape it must have, by the public checkpoints.

use super::{Family, FeedForward, ModelConfig};

/// The names of a family's tensors by role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names {
    /// The embedding, `[V, C]`.
    pub embedding: &'static str,
    /// The norm after the last layer, `[C]`.
    pub final_norm: &'static str,
    /// The output head, `[V, C]`; absent where it is tied to the embedding.
    pub head: &'static str,
    layer: &'static LayerParts,
}

/// The names of one layer's tensors. Matrices are stored `[out, in]`, so a product is `x [R, in] * w^T`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerNames {
    /// RMSNorm before attention, `[C]`.
    pub input_norm: String,
    /// Queries, `[H * D, C]`.
    pub q: String,
    /// Keys, `[G * D, C]`.
    pub k: String,
    /// Values, `[G * D, C]`.
    pub v: String,
    /// Attention output, `[C, H * D]`.
    pub o: String,
    /// Biases of q `[H * D]`, k `[G * D]` and v `[G * D]`, where the family has them.
    pub biases: Option<[String; 3]>,
    /// RMSNorms `[D]` of each query and of each key head, where the family has them.
    pub head_norms: Option<[String; 2]>,
    /// RMSNorm before the feed-forward, `[C]`.
    pub post_norm: String,
    /// The matrix whose product goes through silu, `[F, C]`.
    pub gate: String,
    /// The matrix whose product is multiplied with that, `[F, C]`.
    pub up: String,
    /// The way back, `[C, F]`.
    pub down: String,
}

/// Prefix and endings of a layer's names.
#[derive(Debug, PartialEq, Eq)]
struct LayerParts {
    prefix: &'static str,
    input_norm: &'static str,
    /// What stands before `q_proj`, `k_proj` and `v_proj`.
    attention: &'static str,
    o: &'static str,
    post_norm: &'static str,
    gate: &'static str,
    up: &'static str,
    down: &'static str,
}

const QWEN: Names = Names {
    embedding: "model.embed_tokens.weight",
    final_norm: "model.norm.weight",
    head: "lm_head.weight",
    layer: &LayerParts {
        prefix: "model.layers",
        input_norm: "input_layernorm.weight",
        attention: "self_attn.",
        o: "self_attn.o_proj.weight",
        post_norm: "post_attention_layernorm.weight",
        gate: "mlp.gate_proj.weight",
        up: "mlp.up_proj.weight",
        down: "mlp.down_proj.weight",
    },
};

/// `ff_out` is two things: the way back of a layer, and at the top level the output head.
const LLADA: Names = Names {
    embedding: "model.transformer.wte.weight",
    final_norm: "model.transformer.ln_f.weight",
    head: "model.transformer.ff_out.weight",
    layer: &LayerParts {
        prefix: "model.transformer.blocks",
        input_norm: "attn_norm.weight",
        attention: "",
        o: "attn_out.weight",
        post_norm: "ff_norm.weight",
        gate: "ff_proj.weight",
        up: "up_proj.weight",
        down: "ff_out.weight",
    },
};

impl Names {
    /// The names of a family.
    pub fn of(family: Family) -> Self {
        match family {
            Family::Sdar | Family::Dream => QWEN,
            Family::Llada => LLADA,
        }
    }

    /// The names of layer `index`, with the biases and head norms that the config has.
    pub fn layer(&self, config: &ModelConfig, index: usize) -> LayerNames {
        let parts = self.layer;
        let name = |ending: &str| format!("{}.{index}.{ending}", parts.prefix);
        let attention = |ending: &str| format!("{}.{index}.{}{ending}", parts.prefix, parts.attention);
        LayerNames {
            input_norm: name(parts.input_norm),
            q: attention("q_proj.weight"),
            k: attention("k_proj.weight"),
            v: attention("v_proj.weight"),
            o: name(parts.o),
            biases: config.qkv_bias.then(|| ["q_proj.bias", "k_proj.bias", "v_proj.bias"].map(attention)),
            head_norms: config.qk_norm.then(|| ["q_norm.weight", "k_norm.weight"].map(attention)),
            post_norm: name(parts.post_norm),
            gate: name(parts.gate),
            up: name(parts.up),
            down: name(parts.down),
        }
    }
}

/// Every tensor of a checkpoint with its shape, in the order of the arithmetic. The head comes last and is the only one that may be
/// absent, if the config ties it.
pub(super) fn expected(config: &ModelConfig) -> Vec<(String, Vec<usize>)> {
    let names = Names::of(config.family);
    let ModelConfig { hidden: c, head_dim: d, vocab, .. } = *config;
    let (queries, keys) = (config.heads * d, config.kv_heads * d);
    let FeedForward::Dense { intermediate: f } = config.feed_forward;
    let mut all = vec![(names.embedding.to_string(), vec![vocab, c])];
    for index in 0..config.layers {
        let layer = names.layer(config, index);
        all.extend([
            (layer.input_norm, vec![c]),
            (layer.q, vec![queries, c]),
            (layer.k, vec![keys, c]),
            (layer.v, vec![keys, c]),
            (layer.o, vec![c, queries]),
            (layer.post_norm, vec![c]),
            (layer.gate, vec![f, c]),
            (layer.up, vec![f, c]),
            (layer.down, vec![c, f]),
        ]);
        all.extend(layer.biases.into_iter().flatten().zip([vec![queries], vec![keys], vec![keys]]));
        all.extend(layer.head_norms.into_iter().flatten().zip([vec![d], vec![d]]));
    }
    all.push((names.final_norm.to_string(), vec![c]));
    all.push((names.head.to_string(), vec![vocab, c]));
    all
}

/// Buffers that old exports store beside the weights; they follow from the config.
pub(super) fn ignored(name: &str) -> bool {
    name.ends_with("rotary_emb.inv_freq")
}
