//! Mixtures of experts: what a config says of them, and what their tensors are called.
//!
//! Every public family names a mixture's tensors alike below `mlp.`. The experts' matrices are stored one by one, or those of a layer
//! together: as `gate_proj`, `up_proj` and `down_proj` of all experts, or with gate and up in one tensor (transformers 5).

use std::ops::Range;

use super::ModelConfig;
use super::config;
use super::json::Object;
use crate::Result;

/// No mixture comes near it.
pub(super) const MAX_EXPERTS: usize = 4096;

/// A feed-forward of many experts, of which a router chooses a few for each row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mixture {
    /// E, the experts.
    pub experts: usize,
    /// How many of them a row goes through; at most E.
    pub per_token: usize,
    /// The feed-forward size of one expert.
    pub intermediate: usize,
    /// How they are chosen and weighted.
    pub router: Router,
    /// The feed-forward size of the expert that every row goes through besides, where there is one.
    pub shared: Option<usize>,
    /// So many first layers are dense instead, with feed-forwards of this size: (layers, size).
    pub dense_first: (usize, usize),
}

/// How experts are chosen for a row and weighted, from the router's E scores in f32.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Router {
    /// The most probable of a softmax over all experts.
    Softmax {
        /// Whether the weights of the chosen ones are divided by their sum (SDAR-MoE, RND1; not LLaDA-MoE).
        renormalise: bool,
    },
    /// The largest sigmoids, weighted by them over their sum (LLaDA2.0 and 2.1).
    Sigmoid {
        /// Whether a bias for each expert is added for the choice (not for the weight).
        bias: bool,
        /// Experts stand in so many equal groups,
        groups: usize,
        /// and only those of the best so many groups are chosen, by the sum of a group's two largest.
        kept_groups: usize,
        /// What the weights sum up to.
        scale: f64,
    },
}

impl Mixture {
    /// What must hold between the numbers; the keys are those of the config, for messages.
    pub(super) fn check(&self, object: &Object) -> Result<()> {
        let Self { experts, per_token, .. } = *self;
        if per_token > experts {
            return Err(object.error(format!("num_experts_per_tok is {per_token}, but there are only {experts} experts")));
        }
        let Router::Sigmoid { groups, kept_groups, .. } = self.router else { return Ok(()) };
        if !experts.is_multiple_of(groups) || experts / groups < 2 {
            return Err(object.error(format!("n_group is {groups}, but must divide the {experts} experts into groups of at least two")));
        }
        if kept_groups > groups {
            return Err(object.error(format!("topk_group is {kept_groups}, but there are only {groups} groups")));
        }
        if kept_groups * (experts / groups) < per_token {
            return Err(object.error(format!(
                "topk_group is {kept_groups}, which leaves {} experts to choose from, fewer than the {per_token} of a token",
                kept_groups * (experts / groups)
            )));
        }
        Ok(())
    }

    /// How many numbers the weights of one mixture layer are, with hidden size `c`.
    pub(super) fn parameters(&self, c: u128) -> u128 {
        let (e, f) = (self.experts as u128, self.intermediate as u128);
        let bias = if self.has_bias() { e } else { 0 };
        e * c + bias + 3 * c * f * e + 3 * c * self.shared.unwrap_or(0) as u128
    }

    /// Whether the router has a bias.
    pub fn has_bias(&self) -> bool {
        matches!(self.router, Router::Sigmoid { bias: true, .. })
    }

    /// As it is printed.
    pub(super) fn describe(&self) -> String {
        let Self { experts, per_token, intermediate, .. } = self;
        let shared = self.shared.map_or(String::new(), |f| format!(", one of {f} for every token"));
        let dense = match self.dense_first {
            (0, _) => String::new(),
            (layers, f) => format!("; the first {layers} dense, {f}"),
        };
        format!("{experts} experts of {intermediate}, {per_token} for a token{shared}{dense}")
    }
}

/// The keys that Qwen's mixtures share with others: (experts, experts of a token).
pub(super) fn counts(object: &Object) -> Result<(usize, usize)> {
    Ok((object.size("num_experts", MAX_EXPERTS)?, object.size("num_experts_per_tok", MAX_EXPERTS)?))
}

/// A mixture in every layer, with the keys of Qwen's mixtures; `renormalise` is what the family does when the config says nothing.
pub(super) fn qwen(object: &Object, renormalise: Option<bool>) -> Result<Mixture> {
    object.only("decoder_sparse_step", &1.into())?;
    object.only("mlp_only_layers", &serde_json::json!([]))?;
    let (experts, per_token) = counts(object)?;
    let Some(renormalise) = object.flag("norm_topk_prob")?.or(renormalise) else {
        return Err(object.error("norm_topk_prob is missing; it must be true or false"));
    };
    Ok(Mixture {
        experts,
        per_token,
        intermediate: object.size("moe_intermediate_size", config::MAX_INTERMEDIATE)?,
        router: Router::Softmax { renormalise },
        shared: None,
        dense_first: (0, 0),
    })
}

/// How the experts' matrices are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExpertLayout {
    /// Each by itself: `experts.3.gate_proj.weight [F, C]`.
    #[default]
    Single,
    /// One kind together: `experts.gate_proj.weight [E, F, C]`.
    Stacked,
    /// Gate and up together too: `experts.gate_up_proj [E, 2F, C]`, an expert's gate first.
    GateUp,
}

impl ExpertLayout {
    /// The layouts that a checkpoint's names show, each with the first name that shows it.
    pub(super) fn found<'a>(names: impl Iterator<Item = &'a str>) -> Vec<(Self, &'a str)> {
        let mut all: Vec<(Self, &str)> = Vec::new();
        for name in names {
            let Some((_, ending)) = name.split_once(".mlp.experts.") else { continue };
            let layout = match ending {
                "gate_up_proj" => Self::GateUp,
                // Shared by both: says nothing by itself.
                "down_proj" => continue,
                _ if ending.starts_with(|c: char| c.is_ascii_digit()) => Self::Single,
                _ => Self::Stacked,
            };
            if all.iter().all(|(other, _)| *other != layout) {
                all.push((layout, name));
            }
        }
        all
    }
}

/// Rows of a stored tensor, counted over all its dimensions but the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRows {
    /// The tensor.
    pub tensor: String,
    /// Which of its rows; None: all.
    pub rows: Option<Range<usize>>,
}

/// Where the tensors of one mixture are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MixtureNames {
    layer: String,
    layout: ExpertLayout,
    parts: &'static MixtureParts,
}

/// Endings of the names of a mixture's tensors; of matrices gate, up and down.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MixtureParts {
    pub(super) router: &'static str,
    pub(super) bias: &'static str,
    pub(super) shared: [&'static str; 3],
    /// One kind of all experts together.
    pub(super) stacked: [&'static str; 3],
    /// Before an expert's number, and after it; None where experts are always stacked.
    pub(super) single: Option<(&'static str, [&'static str; 3])>,
}

/// What every public family calls them.
pub(super) const PARTS: MixtureParts = MixtureParts {
    router: "mlp.gate.weight",
    bias: "mlp.gate.expert_bias",
    shared: ["mlp.shared_experts.gate_proj.weight", "mlp.shared_experts.up_proj.weight", "mlp.shared_experts.down_proj.weight"],
    stacked: ["mlp.experts.gate_proj.weight", "mlp.experts.up_proj.weight", "mlp.experts.down_proj.weight"],
    single: Some(("mlp.experts", ["gate_proj.weight", "up_proj.weight", "down_proj.weight"])),
};

/// Gate and up in one tensor, and the way back beside it.
const GATE_UP: [&str; 2] = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"];

impl MixtureNames {
    pub(super) fn new(layer: &str, layout: ExpertLayout, parts: &'static MixtureParts) -> Self {
        Self { layer: layer.to_string(), layout, parts }
    }

    fn name(&self, ending: &str) -> String {
        format!("{}.{ending}", self.layer)
    }

    /// The router `[E, C]`.
    pub fn router(&self) -> String {
        self.name(self.parts.router)
    }

    /// The router's bias `[E]`.
    pub fn bias(&self) -> String {
        self.name(self.parts.bias)
    }

    /// Gate and up `[F, C]` and down `[C, F]` of the expert that every row goes through.
    pub fn shared(&self) -> [StoredRows; 3] {
        self.parts.shared.map(|ending| StoredRows { tensor: self.name(ending), rows: None })
    }

    /// Gate and up `[F, C]` and down `[C, F]` of one expert.
    pub fn expert(&self, mixture: &Mixture, c: usize, index: usize) -> [StoredRows; 3] {
        let f = mixture.intermediate;
        let part = |ending: &str, from: usize, rows: usize| StoredRows { tensor: self.name(ending), rows: Some(from..from + rows) };
        match (self.layout, self.parts.single) {
            (ExpertLayout::Single, Some((before, endings))) => {
                endings.map(|ending| StoredRows { tensor: self.name(&format!("{before}.{index}.{ending}")), rows: None })
            }
            (ExpertLayout::GateUp, _) => {
                let [both, down] = GATE_UP;
                [part(both, 2 * index * f, f), part(both, (2 * index + 1) * f, f), part(down, index * c, c)]
            }
            _ => {
                let [gate, up, down] = self.parts.stacked;
                [part(gate, index * f, f), part(up, index * f, f), part(down, index * c, c)]
            }
        }
    }

    /// Every tensor of the mixture with its shape.
    pub(super) fn expected(&self, config: &ModelConfig, mixture: &Mixture) -> Vec<(String, Vec<usize>)> {
        let (c, e, f) = (config.hidden, mixture.experts, mixture.intermediate);
        let mut all = vec![(self.router(), vec![e, c])];
        if mixture.has_bias() {
            all.push((self.bias(), vec![e]));
        }
        if let Some(shared) = mixture.shared {
            let shapes = [vec![shared, c], vec![shared, c], vec![c, shared]];
            all.extend(self.shared().into_iter().map(|part| part.tensor).zip(shapes));
        }
        match self.layout {
            ExpertLayout::Single => {
                for index in 0..e {
                    let shapes = [vec![f, c], vec![f, c], vec![c, f]];
                    all.extend(self.expert(mixture, c, index).into_iter().map(|part| part.tensor).zip(shapes));
                }
            }
            ExpertLayout::Stacked => {
                let shapes = [vec![e, f, c], vec![e, f, c], vec![e, c, f]];
                all.extend(self.parts.stacked.map(|ending| self.name(ending)).into_iter().zip(shapes));
            }
            ExpertLayout::GateUp => {
                all.extend(GATE_UP.map(|ending| self.name(ending)).into_iter().zip([vec![e, 2 * f, c], vec![e, c, f]]));
            }
        }
        all
    }
}
