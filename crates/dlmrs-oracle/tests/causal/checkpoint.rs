//! Tiny random checkpoints in the layouts that the library reads, and the same weights under the oracle's names.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use candle_core::{Device, Tensor};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const VOCAB: usize = 160;
pub(crate) const HIDDEN: usize = 48;
pub(crate) const LAYERS: usize = 3;
pub(crate) const HEADS: usize = 4;
pub(crate) const INTERMEDIATE: usize = 80;
pub(crate) const MAX_POSITIONS: usize = 256;

/// Whose layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    Sdar,
    Dream,
    Llada,
}

impl Body {
    pub(crate) fn kv_heads(self) -> usize {
        if self == Self::Llada { HEADS } else { 2 }
    }

    pub(crate) fn head_dim(self) -> usize {
        if self == Self::Sdar { 32 } else { HIDDEN / HEADS }
    }

    pub(crate) fn eps(self) -> f64 {
        if self == Self::Llada { 1e-5 } else { 1e-6 }
    }

    pub(crate) fn theta(self) -> f64 {
        if self == Self::Llada { 5e5 } else { 1e6 }
    }

    fn config(self, tied: bool) -> Value {
        if self == Self::Llada {
            return json!({
                "architectures": ["LLaDAModelLM"], "model_type": "llada", "d_model": HIDDEN, "n_layers": LAYERS, "n_heads": HEADS,
                "n_kv_heads": self.kv_heads(), "mlp_hidden_size": INTERMEDIATE, "vocab_size": VOCAB, "embedding_size": VOCAB,
                "max_sequence_length": MAX_POSITIONS, "rope": true, "rope_theta": self.theta(), "rope_full_precision": true,
                "rms_norm_eps": self.eps(), "layer_norm_type": "rms", "block_type": "llama", "activation_type": "silu",
                "include_bias": false, "weight_tying": tied,
            });
        }
        let mut config = json!({
            "architectures": [if self == Self::Sdar { "SDARForCausalLM" } else { "DreamModel" }],
            "model_type": if self == Self::Sdar { "sdar" } else { "Dream" },
            "hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": self.kv_heads(),
            "intermediate_size": INTERMEDIATE, "vocab_size": VOCAB, "max_position_embeddings": MAX_POSITIONS, "hidden_act": "silu",
            "rope_theta": self.theta(), "rms_norm_eps": self.eps(), "tie_word_embeddings": tied,
        });
        if self == Self::Sdar {
            config["head_dim"] = self.head_dim().into();
        }
        config
    }

    /// The name that the family's own files have for a tensor of Llama or Qwen.
    fn own_name(self, name: &str) -> String {
        if self != Self::Llada {
            return name.into();
        }
        let Some((layer, role)) = name.strip_prefix("model.layers.").and_then(|rest| rest.split_once('.')) else {
            let own = match name {
                "model.embed_tokens.weight" => "wte.weight",
                "model.norm.weight" => "ln_f.weight",
                "lm_head.weight" => "ff_out.weight",
                other => panic!("{other}"),
            };
            return format!("model.transformer.{own}");
        };
        let own = match role {
            "input_layernorm.weight" => "attn_norm.weight",
            "self_attn.q_proj.weight" => "q_proj.weight",
            "self_attn.k_proj.weight" => "k_proj.weight",
            "self_attn.v_proj.weight" => "v_proj.weight",
            "self_attn.o_proj.weight" => "attn_out.weight",
            "post_attention_layernorm.weight" => "ff_norm.weight",
            "mlp.gate_proj.weight" => "ff_proj.weight",
            "mlp.up_proj.weight" => "up_proj.weight",
            "mlp.down_proj.weight" => "ff_out.weight",
            other => panic!("{other}"),
        };
        format!("model.transformer.blocks.{layer}.{own}")
    }
}

/// A folder on disk, and its weights by the names that candle-transformers has for them.
pub(crate) struct Checkpoint {
    pub(crate) body: Body,
    pub(crate) tied: bool,
    pub(crate) tensors: HashMap<String, Tensor>,
    folder: TempDir,
}

impl Checkpoint {
    pub(crate) fn random(body: Body, tied: bool) -> Self {
        let tensors = weights(body, tied);
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("config.json"), body.config(tied).to_string()).unwrap();
        let own: HashMap<String, Tensor> = tensors.iter().map(|(name, t)| (body.own_name(name), t.clone())).collect();
        assert_eq!(own.len(), tensors.len(), "two tensors have one name");
        candle_core::safetensors::save(&own, folder.path().join("model.safetensors")).unwrap();
        Self { body, tied, tensors, folder }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// Norms are not ones and biases not zeros: those hide a norm that is left out and a bias that is dropped.
fn weights(body: Body, tied: bool) -> HashMap<String, Tensor> {
    let (d, queries, keys) = (body.head_dim(), HEADS * body.head_dim(), body.kv_heads() * body.head_dim());
    let mut noise = Noise(1);
    let mut tensors = HashMap::new();
    let mut add = |name: String, shape: &[usize], mean: f32, deviation: f32| {
        let values: Vec<f32> = (0..shape.iter().product()).map(|_| mean + deviation * noise.normal()).collect();
        tensors.insert(name, Tensor::from_vec(values, shape, &Device::Cpu).unwrap());
    };
    add("model.embed_tokens.weight".into(), &[VOCAB, HIDDEN], 0.0, 1.0);
    for layer in 0..LAYERS {
        let name = |role: &str| format!("model.layers.{layer}.{role}.weight");
        add(name("input_layernorm"), &[HIDDEN], 1.0, 0.2);
        add(name("post_attention_layernorm"), &[HIDDEN], 1.0, 0.2);
        for (role, n) in [("q", queries), ("k", keys), ("v", keys)] {
            add(name(&format!("self_attn.{role}_proj")), &[n, HIDDEN], 0.0, 0.15);
            if body == Body::Dream {
                add(format!("model.layers.{layer}.self_attn.{role}_proj.bias"), &[n], 0.0, 0.3);
            }
        }
        if body == Body::Sdar {
            add(name("self_attn.q_norm"), &[d], 1.0, 0.2);
            add(name("self_attn.k_norm"), &[d], 1.0, 0.2);
        }
        add(name("self_attn.o_proj"), &[HIDDEN, queries], 0.0, 0.15);
        add(name("mlp.gate_proj"), &[INTERMEDIATE, HIDDEN], 0.0, 0.15);
        add(name("mlp.up_proj"), &[INTERMEDIATE, HIDDEN], 0.0, 0.15);
        add(name("mlp.down_proj"), &[HIDDEN, INTERMEDIATE], 0.0, 0.15);
    }
    add("model.norm.weight".into(), &[HIDDEN], 1.0, 0.2);
    if !tied {
        add("lm_head.weight".into(), &[VOCAB, HIDDEN], 0.0, 0.15);
    }
    tensors
}

/// Splitmix64: the same weights on every machine.
struct Noise(u64);

impl Noise {
    fn uniform(&mut self) -> f32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as f32 / (1u32 << 24) as f32
    }

    /// Twelve uniform numbers are normal enough.
    fn normal(&mut self) -> f32 {
        (0..12).map(|_| self.uniform()).sum::<f32>() - 6.0
    }
}
