//! candle-transformers' models behind one function.

use candle_core::{DType, Device, Tensor};
use candle_nn::{Activation, VarBuilder};
use candle_transformers::models::{llama, qwen2, qwen3};

use crate::checkpoint::{Body, Checkpoint, HEADS, HIDDEN, INTERMEDIATE, LAYERS, MAX_POSITIONS, VOCAB};

/// A causal model with its own cache. There is one at a time, so its size does not matter.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Oracle {
    Qwen3(qwen3::ModelForCausalLM),
    Qwen2(qwen2::ModelForCausalLM),
    Llama { model: llama::Llama, config: llama::Config, cache: llama::Cache },
}

impl Oracle {
    pub(crate) fn new(checkpoint: &Checkpoint) -> Self {
        let weights = VarBuilder::from_tensors(checkpoint.tensors.clone(), DType::F32, &Device::Cpu);
        let (body, tied) = (checkpoint.body, checkpoint.tied);
        match body {
            Body::Sdar => Self::Qwen3(qwen3::ModelForCausalLM::new(&qwen3_config(body, tied), weights).unwrap()),
            Body::Dream => Self::Qwen2(qwen2::ModelForCausalLM::new(&qwen2_config(body, tied), weights).unwrap()),
            Body::Llada => {
                let config = llama_config(body, tied);
                let model = llama::Llama::load(weights, &config).unwrap();
                let cache = llama_cache(&config);
                Self::Llama { model, config, cache }
            }
        }
    }

    /// Empties the cache.
    pub(crate) fn restart(&mut self) -> &mut Self {
        match self {
            Self::Qwen3(model) => model.clear_kv_cache(),
            Self::Qwen2(model) => model.clear_kv_cache(),
            Self::Llama { config, cache, .. } => *cache = llama_cache(config),
        }
        self
    }

    /// Logits of the last of these tokens, of which the first has position `from`; the cache holds those before.
    pub(crate) fn last_row(&mut self, tokens: &[u32], from: usize) -> Vec<f32> {
        let input = Tensor::new(tokens, &Device::Cpu).unwrap().unsqueeze(0).unwrap();
        let logits = match self {
            Self::Qwen3(model) => model.forward(&input, from),
            Self::Qwen2(model) => model.forward(&input, from),
            Self::Llama { model, cache, .. } => model.forward(&input, from, cache),
        };
        logits.unwrap().flatten_all().unwrap().to_vec1().unwrap()
    }
}

fn qwen3_config(body: Body, tied: bool) -> qwen3::Config {
    qwen3::Config {
        vocab_size: VOCAB,
        hidden_size: HIDDEN,
        intermediate_size: INTERMEDIATE,
        num_hidden_layers: LAYERS,
        num_attention_heads: HEADS,
        head_dim: body.head_dim(),
        attention_bias: false,
        num_key_value_heads: body.kv_heads(),
        max_position_embeddings: MAX_POSITIONS,
        sliding_window: None,
        max_window_layers: LAYERS,
        tie_word_embeddings: tied,
        rope_theta: body.theta(),
        rms_norm_eps: body.eps(),
        use_sliding_window: false,
        hidden_act: Activation::Silu,
    }
}

fn qwen2_config(body: Body, tied: bool) -> qwen2::Config {
    qwen2::Config {
        vocab_size: VOCAB,
        hidden_size: HIDDEN,
        intermediate_size: INTERMEDIATE,
        num_hidden_layers: LAYERS,
        num_attention_heads: HEADS,
        num_key_value_heads: body.kv_heads(),
        max_position_embeddings: MAX_POSITIONS,
        // It is applied whatever `use_sliding_window` says, so it must be as long as anything.
        sliding_window: MAX_POSITIONS,
        max_window_layers: LAYERS,
        tie_word_embeddings: tied,
        rope_theta: body.theta(),
        rms_norm_eps: body.eps(),
        use_sliding_window: false,
        hidden_act: Activation::Silu,
    }
}

fn llama_config(body: Body, tied: bool) -> llama::Config {
    llama::Config {
        hidden_size: HIDDEN,
        intermediate_size: INTERMEDIATE,
        vocab_size: VOCAB,
        num_hidden_layers: LAYERS,
        num_attention_heads: HEADS,
        num_key_value_heads: body.kv_heads(),
        use_flash_attn: false,
        rms_norm_eps: body.eps(),
        rope_theta: body.theta() as f32,
        bos_token_id: None,
        eos_token_id: None,
        rope_scaling: None,
        max_position_embeddings: MAX_POSITIONS,
        tie_word_embeddings: tied,
    }
}

fn llama_cache(config: &llama::Config) -> llama::Cache {
    llama::Cache::new(true, DType::F32, config, &Device::Cpu).unwrap()
}
