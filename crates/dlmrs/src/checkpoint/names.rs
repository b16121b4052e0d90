//! What each tensor is called in a family's files, and the shape it must have, by the public checkpoints.

use super::experts::{self, ExpertLayout, MixtureNames, MixtureParts};
use super::{Family, FeedForward, Folder, ModelConfig};

/// The names of a family's tensors by role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names {
    /// The embedding, `[V, C]`.
    pub embedding: &'static str,
    /// The norm after the last layer, `[C]`.
    pub final_norm: &'static str,
    /// The output head, `[V, C]`; absent where it is tied to the embedding.
    pub head: &'static str,
    pub(super) layer: &'static LayerParts,
}

/// The names of one layer's tensors. Matrices are stored `[out, in]`, so a product is `x [R, in] * w^T`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerNames {
    /// RMSNorm before attention, `[C]`.
    pub input_norm: String,
    /// Whether q, k and v are the rows of one tensor in this order, `[(H + 2 * G) * D, C]`, which all three then name.
    pub fused_qkv: bool,
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
pub(super) struct LayerParts {
    pub(super) prefix: &'static str,
    pub(super) input_norm: &'static str,
    /// Without `.weight` and `.bias`.
    pub(super) qkv: [&'static str; 3],
    pub(super) fused_qkv: bool,
    pub(super) head_norms: [&'static str; 2],
    pub(super) o: &'static str,
    pub(super) post_norm: &'static str,
    pub(super) gate: &'static str,
    pub(super) up: &'static str,
    pub(super) down: &'static str,
    pub(super) mixture: &'static MixtureParts,
    /// Whether the rows of q and k are stored with the two that are rotated together side by side, and not half a head apart.
    pub(super) paired: bool,
}

/// The names of Qwen's bodies.
pub(super) const QWEN: Names = Names {
    embedding: "model.embed_tokens.weight",
    final_norm: "model.norm.weight",
    head: "lm_head.weight",
    layer: &LayerParts {
        prefix: "model.layers",
        input_norm: "input_layernorm.weight",
        qkv: ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
        fused_qkv: false,
        head_norms: ["self_attn.q_norm.weight", "self_attn.k_norm.weight"],
        o: "self_attn.o_proj.weight",
        post_norm: "post_attention_layernorm.weight",
        gate: "mlp.gate_proj.weight",
        up: "mlp.up_proj.weight",
        down: "mlp.down_proj.weight",
        mixture: &experts::PARTS,
        paired: false,
    },
};

impl Names {
    /// The names of a family, as its publishers write it.
    pub fn of(family: Family) -> Self {
        *family.profile().names
    }

    /// The names of a family in such a checkpoint.
    pub(super) fn in_folder(family: Family, folder: &Folder) -> Self {
        match folder {
            Folder::Gguf(_) => family.profile().gguf.as_ref().map_or(Self::of(family), |written| *written.names),
            _ => Self::of(family),
        }
    }

    /// How experts are stored, where these names allow one way only.
    pub(super) fn only_expert_layout(&self) -> Option<ExpertLayout> {
        self.layer.mixture.single.is_none().then_some(ExpertLayout::Stacked)
    }

    /// Whether the rows of q and k are stored in pairs.
    pub(super) fn paired(&self) -> bool {
        self.layer.paired
    }

    /// The names of the mixture of layer `index`, for a checkpoint that stores its experts in this way.
    pub fn mixture(&self, layout: ExpertLayout, index: usize) -> MixtureNames {
        MixtureNames::new(&format!("{}.{index}", self.layer.prefix), layout, self.layer.mixture)
    }

    /// The names of layer `index`, with the biases and head norms that the config has.
    pub fn layer(&self, config: &ModelConfig, index: usize) -> LayerNames {
        let parts = self.layer;
        let name = |ending: &str| format!("{}.{index}.{ending}", parts.prefix);
        let [q, k, v] = parts.qkv.map(|part| name(&format!("{part}.weight")));
        LayerNames {
            input_norm: name(parts.input_norm),
            fused_qkv: parts.fused_qkv,
            q,
            k,
            v,
            o: name(parts.o),
            biases: config.qkv_bias.then(|| parts.qkv.map(|part| name(&format!("{part}.bias")))),
            head_norms: config.qk_norm.then(|| parts.head_norms.map(&name)),
            post_norm: name(parts.post_norm),
            gate: name(parts.gate),
            up: name(parts.up),
            down: name(parts.down),
        }
    }
}

/// Every tensor of a checkpoint with its shape, in the order of the arithmetic, made a layer at a time. The head comes last and is the
/// only one that may be absent, if the config ties it.
pub(super) fn expected(config: &ModelConfig, names: &Names, layout: ExpertLayout) -> impl Iterator<Item = (String, Vec<usize>)> {
    let names = *names;
    let (vocab, c) = (config.vocab, config.hidden);
    let ends = [(names.final_norm.to_string(), vec![c]), (names.head.to_string(), vec![vocab, c])];
    let layers = (0..config.layers).flat_map(move |index| layer(config, &names, layout, index));
    std::iter::once((names.embedding.to_string(), vec![vocab, c])).chain(layers).chain(ends)
}

fn layer(config: &ModelConfig, names: &Names, layout: ExpertLayout, index: usize) -> Vec<(String, Vec<usize>)> {
    let ModelConfig { hidden: c, head_dim: d, .. } = *config;
    let (queries, keys) = (config.heads * d, config.kv_heads * d);
    let layer = names.layer(config, index);
    let mut all = vec![(layer.input_norm, vec![c])];
    match layer.fused_qkv {
        true => all.push((layer.q, vec![queries + 2 * keys, c])),
        false => all.extend([(layer.q, vec![queries, c]), (layer.k, vec![keys, c]), (layer.v, vec![keys, c])]),
    }
    all.extend([(layer.o, vec![c, queries]), (layer.post_norm, vec![c])]);
    match config.feed_forward_of(index) {
        FeedForward::Dense { intermediate: f } => all.extend([(layer.gate, vec![f, c]), (layer.up, vec![f, c]), (layer.down, vec![c, f])]),
        FeedForward::Mixture(mixture) => all.extend(names.mixture(layout, index).expected(config, &mixture)),
    }
    all.extend(layer.biases.into_iter().flatten().zip([vec![queries], vec![keys], vec![keys]]));
    all.extend(layer.head_norms.into_iter().flatten().zip([vec![d], vec![d]]));
    all
}

/// Buffers that old exports store beside the weights; they follow from the config.
pub(super) fn ignored(name: &str) -> bool {
    name.ends_with("rotary_emb.inv_freq")
}
