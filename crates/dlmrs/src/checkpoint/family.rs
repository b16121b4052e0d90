//! Which family a checkpoint belongs to.

use serde_json::Value;

use super::json::{Object, shown};
use super::names::Names;
use super::{ModelConfig, dream, fast_dllm_v2, gguf, llada, llada_moe, llada2, rnd1, sdar, sdar_moe};
use crate::decode::DreamAlg;
use crate::sample::{Confidence, FilterOrder};
use crate::{Error, Result};

/// A family of models: a config reader, a map of tensor names and a few flags around the one decoder layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Family {
    /// SDAR and TraDo: block diffusion, Qwen3 bodies.
    Sdar,
    /// LLaDA-8B and LLaDA-1.5: bidirectional masked diffusion.
    Llada,
    /// Dream, Dream-Coder and DiffuCoder: bidirectional, Qwen2.5 bodies, predictions shifted by one.
    Dream,
    /// SDAR-30B-A3B: SDAR with a mixture of experts.
    SdarMoe,
    /// LLaDA-MoE: bidirectional, a mixture of experts.
    LladaMoe,
    /// RND1: bidirectional, a mixture of experts, predictions shifted by one.
    Rnd1,
    /// LLaDA2.0 and 2.1: block-causal, a mixture of experts.
    Llada2,
    /// Fast-dLLM v2: block-causal, Qwen2.5 bodies, predictions shifted by one.
    FastDllmV2,
}

/// What is particular to a family. Each stands in the family's own file, and nowhere else is a family told from another.
pub(crate) struct Profile {
    /// The name that people use.
    pub(crate) name: &'static str,
    /// What may stand at `architectures[0]` of its configs, the usual one first.
    pub(crate) architectures: &'static [&'static str],
    /// Reads and checks its keys.
    pub(super) read: fn(&Object) -> Result<ModelConfig>,
    pub(super) names: &'static Names,
    /// How llama.cpp writes it, if it does.
    pub(super) gguf: Option<gguf::Written>,
    /// The answers of its public checkpoints when nobody else has one.
    pub(super) mask_token_id: u32,
    pub(super) block_length: Option<usize>,
    /// Whether the weights were trained for one block length, so that another degrades them.
    pub(super) block_length_baked: bool,
    pub(super) stop_token_ids: &'static [u32],
    /// The threshold of its own block diffusion.
    pub(crate) threshold: f32,
    /// The schedule that its own sampler decides a whole canvas by; None where it decides block by block.
    pub(crate) schedule: Option<DreamAlg>,
    /// Whether it was trained to look at decided tokens again, so that block diffusion may edit them.
    pub(crate) edits: bool,
    /// Which distribution its generation code takes confidences from above temperature 0.
    pub(crate) confidence: Confidence,
    /// In which order its generation code filters.
    pub(crate) filter_order: FilterOrder,
}

/// Architectures that are known to be something else, with what they are. Several share a `model_type` with a supported family or with
/// a plain autoregressive model, which is why `model_type` decides nothing here.
const OTHERS: &[(&str, &str)] = &[
    ("ILLaDAForCausalLM", "an iLLaDA model"),
    ("WeDLMForCausalLM", "a WeDLM model"),
    ("DFlashDraftModel", "a DFlash draft head, which is no model of its own"),
    ("EfficientDLM", "an Efficient-DLM model"),
    ("SDLMQwen2ForCausalLM", "an SDLM model"),
    ("NemotronLabsDiffusionModel", "a Nemotron diffusion model"),
    ("Lfm2ForBlockDiffusion", "an LFM2 block diffusion model"),
    ("DiffusionGemmaForBlockDiffusion", "a DiffusionGemma model"),
    ("DreamForCausalLM", "a Dream reasoner"),
    ("Qwen2ForCausalLM", "an autoregressive model"),
    ("Qwen3ForCausalLM", "an autoregressive model"),
    ("Qwen3MoeForCausalLM", "an autoregressive model"),
    ("LlamaForCausalLM", "an autoregressive model"),
    ("MistralForCausalLM", "an autoregressive model"),
];

impl Family {
    const ALL: [Self; 8] =
        [Self::Sdar, Self::SdarMoe, Self::Llada, Self::LladaMoe, Self::Llada2, Self::Dream, Self::Rnd1, Self::FastDllmV2];

    /// What is particular to it.
    pub(crate) fn profile(self) -> &'static Profile {
        match self {
            Self::Sdar => &sdar::PROFILE,
            Self::Llada => &llada::PROFILE,
            Self::Dream => &dream::PROFILE,
            Self::SdarMoe => &sdar_moe::PROFILE,
            Self::LladaMoe => &llada_moe::PROFILE,
            Self::Rnd1 => &rnd1::PROFILE,
            Self::Llada2 => &llada2::PROFILE,
            Self::FastDllmV2 => &fast_dllm_v2::PROFILE,
        }
    }

    /// The name that people use.
    pub fn name(self) -> &'static str {
        self.profile().name
    }

    /// What usually stands at `architectures[0]` of its configs.
    pub fn architecture(self) -> &'static str {
        self.profile().architectures.first().copied().unwrap_or_default()
    }

    /// The family that a GGUF file calls so, by its `general.architecture`.
    pub(super) fn of_gguf(metadata: &Object) -> Result<(Self, &'static gguf::Written)> {
        let key = "general.architecture";
        let Some(name) = metadata.text(key)? else {
            return Err(metadata.error(format!("{key} is missing; it must name the model's family")));
        };
        let written = |family: Self| family.profile().gguf.as_ref().map(|written| (family, written));
        let all = || Self::ALL.into_iter().filter_map(written);
        all().find(|(_, written)| written.architecture == name).ok_or_else(|| {
            let supported: Vec<_> = all().map(|(family, written)| format!("{} ({family})", written.architecture)).collect();
            let message = format!("{key} is {}, which is not supported; supported are {}", shown(&name.into()), supported.join(", "));
            Error::UnsupportedModel { file: metadata.file.clone(), message }
        })
    }

    /// Decides by `architectures[0]` and nothing else.
    pub(super) fn of(config: &Object) -> Result<Self> {
        let first = match config.get("architectures") {
            Some(Value::Array(names)) => names.first(),
            Some(other) => return Err(config.error(format!("architectures is {}, but must be a list of names", shown(other)))),
            None => None,
        };
        let Some(first) = first else {
            return Err(unsupported(config, "architectures is missing or empty, so the model's family is unknown".to_string()));
        };
        let Some(name) = first.as_str() else {
            return Err(config.error(format!("architectures[0] is {}, but must be a name", shown(first))));
        };
        Self::ALL.into_iter().find(|family| family.profile().architectures.contains(&name)).ok_or_else(|| {
            let model_type = config.get("model_type").map_or(String::new(), |kind| format!(" (model_type {})", shown(kind)));
            let what = OTHERS.iter().find(|(other, _)| *other == name).map_or(String::new(), |(_, what)| format!(": it is {what}"));
            unsupported(config, format!("architectures[0] is {}{model_type}, which is not supported{what}", shown(first)))
        })
    }
}

impl std::fmt::Display for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

fn unsupported(config: &Object, found: String) -> Error {
    let supported: Vec<_> = Family::ALL.iter().map(|family| format!("{} ({family})", family.architecture())).collect();
    Error::UnsupportedModel { file: config.file.clone(), message: format!("{found}; supported are {}", supported.join(", ")) }
}
