//! What a checkpoint is, without reading a weight.

use std::fmt;

use serde::Serialize;

use super::{FeedForward, Folder, ModelConfig, Overrides, RopeScaling, Weights, defaults, weight_bytes};
use crate::decode::{Offer, Subject};
use crate::{Precision, Result};

/// A value, and where it was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// E.g. "config.json" or "the family's default".
    pub from: &'static str,
}

/// What the files of weights say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StoredWeights {
    /// The files.
    pub files: Vec<String>,
    /// The types that occur.
    pub dtypes: Vec<String>,
    /// How many numbers are stored.
    pub parameters: u64,
    /// How many bytes they take as stored.
    pub bytes: u64,
    /// Whether there is an output head of its own; else it is the embedding.
    pub own_head: bool,
}

/// The memory of the weights on a CPU, in bytes, by what `dtype` may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WeightBytes {
    /// As `dtype="auto"` holds them: bf16 where they are stored so, else f32.
    pub auto: u64,
    /// As f32.
    pub f32: u64,
    /// As bf16.
    pub bf16: u64,
    /// As bytes.
    pub int8: u64,
    /// As half bytes in groups of 32.
    pub int4: u64,
}

impl WeightBytes {
    fn of(config: &ModelConfig, weights: Option<&Weights>) -> Self {
        let bytes = |precision| weight_bytes(config, weights, precision);
        Self {
            auto: bytes(Precision::Auto),
            f32: bytes(Precision::F32),
            bf16: bytes(Precision::Bf16),
            int8: bytes(Precision::Int8),
            int4: bytes(Precision::Int4),
        }
    }
}

/// What a checkpoint is.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The folder.
    pub model: String,
    /// The family's name.
    pub family: &'static str,
    /// `architectures[0]`.
    pub architecture: &'static str,
    /// L.
    pub layers: usize,
    /// C.
    pub hidden: usize,
    /// H.
    pub heads: usize,
    /// G.
    pub kv_heads: usize,
    /// D.
    pub head_dim: usize,
    /// The feed-forward in words.
    pub feed_forward: String,
    /// V.
    pub vocab: usize,
    /// "block-causal" or "bidirectional".
    pub attention: &'static str,
    /// Whether the prediction for slot i is read at row i - 1.
    pub shift: bool,
    /// The rotary positions in words.
    pub rope: String,
    /// What the config says of the output head.
    pub tied: bool,
    /// How many numbers the weights are: as stored, else by the config.
    pub parameters: u64,
    /// None if the folder has no weights.
    pub weights: Option<StoredWeights>,
    /// What the weights take in memory on a CPU, as `dtype` has them.
    pub weight_bytes: WeightBytes,
    /// What 1,000 tokens of keys and values take as f32.
    pub kv_bytes_per_1000_tokens_f32: u64,
    /// What 1,000 tokens of keys and values take as bf16.
    pub kv_bytes_per_1000_tokens_bf16: u64,
    /// The longest sequence.
    pub max_positions: usize,
    /// The longest sequence that is allowed.
    pub max_model_len: Sourced<usize>,
    /// B, for families with a grid of blocks.
    pub block_length: Option<Sourced<usize>>,
    /// The mask token; None if it has to be given.
    pub mask_token_id: Option<Sourced<u32>>,
    /// The tokens that end an answer.
    pub stop_token_ids: Sourced<Vec<u32>>,
    /// The methods that it can be decoded with.
    pub methods: Vec<Offer>,
}

/// Describes a checkpoint from its config and the headers of its weights. Absent weights and an unknown mask token are part of the
/// report; whatever is there and wrong is an error.
pub fn inspect(folder: &Folder, overrides: &Overrides, tokenizer_mask_id: Option<u32>, tokenizer_eos: Option<u32>) -> Result<Report> {
    let config = ModelConfig::read(folder)?;
    let weights = Weights::find(folder, &config)?;
    let weight_bytes = WeightBytes::of(&config, weights.as_ref());
    let weights = weights.map(|weights| StoredWeights {
        files: weights.files().into_iter().map(str::to_string).collect(),
        dtypes: weights.stored_dtypes(),
        parameters: weights.parameters(),
        bytes: weights.stored_bytes(),
        own_head: weights.has_head(),
    });
    let parameters = weights.as_ref().map_or(config.parameters(), |weights| weights.parameters);
    let (block_length, block_from) = defaults::block_length(folder, &config, overrides)?;
    let mask = defaults::mask_token(folder, &config, tokenizer_mask_id, overrides)?;
    let stops = defaults::stop_tokens(folder, &config, tokenizer_eos, overrides)?;
    let longest = defaults::max_model_len(folder, &config, overrides)?;
    let profile = config.family.profile();
    let methods = Offer::of(&Subject {
        name: &folder.name(),
        attention: config.attention,
        shift: config.shift,
        alg: profile.schedule,
        edits: profile.edits,
        eos_token_id: config.eos_token_ids.first().copied().or(tokenizer_eos),
        block_length,
        trained_block_length: block_length.filter(|_| profile.block_length_baked),
        max_model_len: longest.0,
        has_draft: false,
    });
    Ok(Report {
        model: folder.path().display().to_string(),
        family: config.family.name(),
        architecture: config.family.architecture(),
        layers: config.layers,
        hidden: config.hidden,
        heads: config.heads,
        kv_heads: config.kv_heads,
        head_dim: config.head_dim,
        feed_forward: feed_forward(&config),
        vocab: config.vocab,
        attention: config.attention.name(),
        shift: config.shift,
        rope: rope(&config),
        tied: config.tied,
        parameters,
        weights,
        weight_bytes,
        kv_bytes_per_1000_tokens_f32: config.kv_bytes_per_token(4).saturating_mul(1000),
        kv_bytes_per_1000_tokens_bf16: config.kv_bytes_per_token(2).saturating_mul(1000),
        max_positions: config.max_positions,
        max_model_len: Sourced { value: longest.0, from: longest.1 },
        block_length: block_length.map(|value| Sourced { value, from: block_from }),
        mask_token_id: mask.map(|(value, from)| Sourced { value, from }),
        stop_token_ids: Sourced { value: stops.0, from: stops.1 },
        methods,
    })
}

fn feed_forward(config: &ModelConfig) -> String {
    match &config.feed_forward {
        FeedForward::Dense { intermediate } => format!("dense, {intermediate}"),
        FeedForward::Mixture(mixture) => mixture.describe(),
    }
}

fn rope(config: &ModelConfig) -> String {
    let rope = &config.rope;
    let scaling = match rope.scaling {
        RopeScaling::None => String::new(),
        RopeScaling::Linear { factor } => format!(", linear scaling by {factor}"),
        RopeScaling::Llama3 { factor, .. } => format!(", llama3 scaling by {factor}"),
    };
    format!("theta {}, {} of {} dimensions{scaling}", rope.theta, rope.rotary_dim, config.head_dim)
}

impl Report {
    /// Keys and values as they are printed.
    fn lines(&self) -> Vec<(&'static str, String)> {
        let head = match &self.weights {
            Some(weights) if weights.own_head => "stored",
            Some(_) => "tied to the embedding",
            None if self.tied => "tied to the embedding by the config",
            None => "separate by the config",
        };
        let mut lines = vec![
            ("model", self.model.clone()),
            ("family", format!("{} ({})", self.family, self.architecture)),
            ("layers", self.layers.to_string()),
            ("hidden size", self.hidden.to_string()),
            ("heads", format!("{} query, {} key/value, size {}", self.heads, self.kv_heads, self.head_dim)),
            ("feed-forward", self.feed_forward.clone()),
            ("vocabulary", self.vocab.to_string()),
            ("attention", format!("{}{}", self.attention, if self.shift { ", predictions shifted by one" } else { "" })),
            ("positions", format!("up to {}", self.max_positions)),
            ("rotary", self.rope.clone()),
            ("output head", head.to_string()),
            ("parameters", with_commas(self.parameters)),
        ];
        match &self.weights {
            Some(weights) => {
                let files = if weights.files.len() == 1 { "1 file".to_string() } else { format!("{} files", weights.files.len()) };
                lines.push(("weights", format!("{} in {files}, {}", weights.dtypes.join(" and "), bytes(weights.bytes))));
            }
            None => lines.push(("weights", "no weights found".to_string())),
        }
        let WeightBytes { auto, f32, bf16, int8, int4 } = self.weight_bytes;
        let others =
            [("f32", f32), ("bf16", bf16), ("int8", int8), ("int4", int4)].map(|(name, number)| format!("{name} {}", bytes(number)));
        lines.push(("weights in RAM", format!("{} ({})", bytes(auto), others.join(", "))));
        lines.push((
            "cache",
            format!("{} per 1,000 tokens (bf16: {})", bytes(self.kv_bytes_per_1000_tokens_f32), bytes(self.kv_bytes_per_1000_tokens_bf16)),
        ));
        lines.push(("max_model_len", sourced(&self.max_model_len.value, self.max_model_len.from)));
        lines.push((
            "block length",
            match &self.block_length {
                Some(length) => sourced(&length.value, length.from),
                None => "none: this family has no grid of blocks".to_string(),
            },
        ));
        lines.push((
            "mask token",
            match &self.mask_token_id {
                Some(id) => sourced(&id.value, id.from),
                None => "not found: give mask_token_id".to_string(),
            },
        ));
        let stops: Vec<_> = self.stop_token_ids.value.iter().map(u32::to_string).collect();
        lines.push((
            "stop tokens",
            match stops.as_slice() {
                [] => "none found".to_string(),
                _ => sourced(&stops.join(", "), self.stop_token_ids.from),
            },
        ));
        let heading = ["methods"].into_iter().chain(std::iter::repeat(""));
        lines.extend(heading.zip(self.methods.iter().map(Offer::to_string)));
        lines
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.lines();
        let width = lines.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
        for (number, (key, value)) in lines.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            write!(f, "{key:width$}  {value}")?;
        }
        Ok(())
    }
}

fn sourced(value: &impl fmt::Display, from: &str) -> String {
    format!("{value} (from {from})")
}

fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Bytes in decimal units, as file sizes are given.
fn bytes(number: u64) -> String {
    const UNITS: [(&str, f64); 4] = [("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    match UNITS.into_iter().find(|(_, size)| number as f64 >= *size) {
        Some((unit, size)) => format!("{:.2} {unit}", number as f64 / size),
        None => format!("{number} bytes"),
    }
}
