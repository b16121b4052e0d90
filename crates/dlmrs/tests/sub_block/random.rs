//! Tiny checkpoints with random weights.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use dlmrs::{Backend, Llm};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::json;

use crate::common::load_with;

pub(crate) const VOCAB: usize = 48;
pub(crate) const MASK: u32 = 47;
const C: usize = 16;
const HEADS: usize = 2;
const D: usize = 8;
const F: usize = 24;

/// Numbers between -1 and 1 that follow from a seed.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let mixed = (self.0 ^ (self.0 >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        (mixed >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    fn tensor(&mut self, n: usize, middle: f32, spread: f32) -> Vec<u8> {
        (0..n).flat_map(|_| (middle + spread * self.next()).to_le_bytes()).collect()
    }
}

fn write(folder: &Path, layers: usize, block: usize, seed: u64) {
    let config = json!({
        "architectures": ["Fast_dLLM_QwenForCausalLM"], "model_type": "Fast_dLLM_Qwen", "vocab_size": VOCAB, "hidden_size": C,
        "intermediate_size": F, "num_hidden_layers": layers, "num_attention_heads": HEADS, "num_key_value_heads": 1, "hidden_act": "silu",
        "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "rope_theta": 1e4, "tie_word_embeddings": true, "bd_size": block,
    });
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    let mut noise = Noise(seed);
    let mut tensors: BTreeMap<String, (Vec<usize>, Vec<u8>)> = BTreeMap::new();
    let mut add = |name: String, shape: &[usize], middle: f32, spread: f32| {
        let bytes = noise.tensor(shape.iter().product(), middle, spread);
        tensors.insert(name, (shape.to_vec(), bytes));
    };
    add("model.embed_tokens.weight".into(), &[VOCAB, C], 0.0, 1.0);
    add("model.norm.weight".into(), &[C], 1.0, 0.3);
    for layer in 0..layers {
        let name = |part: &str| format!("model.layers.{layer}.{part}");
        for norm in ["input_layernorm.weight", "post_attention_layernorm.weight"] {
            add(name(norm), &[C], 1.0, 0.3);
        }
        for (part, out) in [("q", HEADS * D), ("k", D), ("v", D)] {
            add(name(&format!("self_attn.{part}_proj.weight")), &[out, C], 0.0, 0.8);
            add(name(&format!("self_attn.{part}_proj.bias")), &[out], 0.0, 0.3);
        }
        add(name("self_attn.o_proj.weight"), &[C, HEADS * D], 0.0, 0.8);
        for (part, shape) in [("gate", [F, C]), ("up", [F, C]), ("down", [C, F])] {
            add(name(&format!("mlp.{part}_proj.weight")), &shape, 0.0, 0.6);
        }
    }
    let views = tensors.iter().map(|(name, (shape, bytes))| (name, TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap()));
    std::fs::write(folder.join("model.safetensors"), safetensors::serialize(views, None).unwrap()).unwrap();
}

/// A model of so many layers, for blocks of `block`, with a tied head.
pub(crate) fn model(layers: usize, block: usize, seed: u64) -> Arc<Llm> {
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), layers, block, seed);
    load_with(temp.path(), Backend::Kernels, 1, MASK)
}
