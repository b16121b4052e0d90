//! Which family a checkpoint belongs to.

use serde_json::Value;

use super::json::{Object, shown};
use crate::{Error, Result};

/// A family of models: a config reader, a map of tensor names and a few flags around the one decoder layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// SDAR and TraDo: block diffusion, Qwen3 bodies.
    Sdar,
    /// LLaDA-8B and LLaDA-1.5: bidirectional masked diffusion.
    Llada,
    /// Dream, Dream-Coder and DiffuCoder: bidirectional, Qwen2.5 bodies, predictions shifted by one.
    Dream,
}

/// Architectures that are known to be something else, with what they are. Several share a `model_type` with a supported family or with
/// a plain autoregressive model, which is why `model_type` decides nothing here.
const OTHERS: &[(&str, &str)] = &[
    ("SDARMoeForCausalLM", "an SDAR model with a mixture of experts"),
    ("LLaDAMoEModelLM", "a LLaDA model with a mixture of experts"),
    ("LLaDAMoEModel", "a LLaDA model with a mixture of experts"),
    ("LLaDA2MoeModelLM", "a LLaDA2 model with a mixture of experts"),
    ("ILLaDAForCausalLM", "an iLLaDA model"),
    ("Fast_dLLM_QwenForCausalLM", "a Fast-dLLM v2 model"),
    ("RND1LM", "an RND1 model"),
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
    const ALL: [Self; 3] = [Self::Sdar, Self::Llada, Self::Dream];

    /// The name that people use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sdar => "SDAR",
            Self::Llada => "LLaDA",
            Self::Dream => "Dream",
        }
    }

    /// What stands at `architectures[0]` of its configs.
    pub fn architecture(self) -> &'static str {
        match self {
            Self::Sdar => "SDARForCausalLM",
            Self::Llada => "LLaDAModelLM",
            Self::Dream => "DreamModel",
        }
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
        Self::ALL.into_iter().find(|family| family.architecture() == name).ok_or_else(|| {
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
