//! One description for the one decoder layer, whatever family the checkpoint is of.

use super::experts::Mixture;
use super::json::Object;
use super::{Family, Folder, Rope};
use crate::Result;

// No model comes near these; they keep a damaged or hostile file from becoming an allocation or an overflow.
pub(super) const MAX_LAYERS: usize = 1024;
pub(super) const MAX_HIDDEN: usize = 131_072;
pub(super) const MAX_HEADS: usize = 4096;
pub(super) const MAX_HEAD_DIM: usize = 4096;
pub(super) const MAX_INTERMEDIATE: usize = 1 << 20;
pub(super) const MAX_VOCAB: usize = 4 << 20;
pub(super) const MAX_POSITIONS: usize = 1 << 27;
const MAX_PARAMETERS: u64 = 1 << 40;

/// What the config of a checkpoint with rounded weights says, so that no other program takes it for its own.
pub(crate) const QUANT_METHOD: &str = "dlmrs";

/// What a checkpoint's `config.json` or metadata says, in one vocabulary for all families.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// The family, by `architectures[0]` or `general.architecture`.
    pub family: Family,
    /// C, the hidden size.
    pub hidden: usize,
    /// L, the layers.
    pub layers: usize,
    /// H, the query heads.
    pub heads: usize,
    /// G, the key and value heads; divides H.
    pub kv_heads: usize,
    /// D, the size of a head; even, not always C / H.
    pub head_dim: usize,
    /// V, the rows of the embedding and of the output head, which may be more than the tokenizer knows.
    pub vocab: usize,
    /// What follows attention in a layer.
    pub feed_forward: FeedForward,
    /// The epsilon of every RMSNorm.
    pub rms_eps: f64,
    /// Rotary positions.
    pub rope: Rope,
    /// Whether q, k and v (not o) have biases: Dream, Fast-dLLM v2.
    pub qkv_bias: bool,
    /// Whether q and k go through an RMSNorm of each head: SDAR.
    pub qk_norm: bool,
    /// Whether the config ties the output head to the embedding. A stored head wins all the same: SDAR-1.7B stores one.
    pub tied: bool,
    /// The longest sequence.
    pub max_positions: usize,
    /// Dream, RND1, Fast-dLLM v2: the prediction for slot i is read at row i - 1.
    pub shift: bool,
    /// Who sees whom in the family's own forward.
    pub attention: NativeAttention,
    /// The mask token, where the config names it.
    pub mask_token_id: Option<u32>,
    /// The block length, where the config names it and the family has a grid of blocks.
    pub block_length: Option<usize>,
    /// The end-of-sequence tokens that the config names.
    pub eos_token_ids: Vec<u32>,
    /// The type that the weights are said to be stored in; what is stored decides.
    pub torch_dtype: Option<String>,
}

/// What follows attention in a layer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FeedForward {
    /// SwiGLU: `down(silu(gate(x)) * up(x))`.
    Dense {
        /// F, the feed-forward size.
        intermediate: usize,
    },
    /// A mixture of experts, in all layers or all but the first ones.
    Mixture(Mixture),
}

/// Who sees whom in the family's own forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NativeAttention {
    /// Everything up to the end of a row's own block, on a grid from position 0.
    BlockCausal,
    /// Everything.
    Bidirectional,
}

impl NativeAttention {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::BlockCausal => "block-causal",
            Self::Bidirectional => "bidirectional",
        }
    }
}

impl ModelConfig {
    /// Reads and checks `config.json`, or a GGUF file's metadata. Keys that would change the arithmetic are honoured or refused by name.
    pub fn read(folder: &Folder) -> Result<Self> {
        if let Folder::Gguf(file) = folder {
            let (object, config) = file.config()?;
            config.check(&object)?;
            return Ok(config);
        }
        let object = Object::parse(folder.describe("config.json"), &folder.require("config.json")?)?;
        let config = (Family::of(&object)?.profile().read)(&object)?;
        config.check(&object)?;
        Ok(config)
    }

    /// What must hold between the sizes, whatever their keys are called.
    fn check(&self, object: &Object) -> Result<()> {
        let Self { heads, kv_heads, vocab, .. } = *self;
        if !heads.is_multiple_of(kv_heads) {
            return Err(
                object.error(format!("{heads} query heads cannot share {kv_heads} key heads: the first must be a multiple of the second"))
            );
        }
        if let FeedForward::Mixture(mixture) = &self.feed_forward {
            mixture.check(object)?;
        }
        if self.wide_parameters() > u128::from(MAX_PARAMETERS) {
            return Err(object.error(format!(
                "the sizes together make {} parameters, but no more than {MAX_PARAMETERS} are supported",
                self.wide_parameters()
            )));
        }
        let ids = self.mask_token_id.iter().map(|id| ("mask_token_id", *id));
        let eos = self.eos_token_ids.iter().map(|id| ("eos_token_id", *id));
        match ids.chain(eos).find(|(_, id)| *id as usize >= vocab) {
            Some((key, id)) => Err(object.error(format!("{key} is {id}, but must be below {vocab}, the rows of the embedding"))),
            None => Ok(()),
        }
    }

    /// What follows attention in layer `index`: before the first mixture layer a dense one.
    pub fn feed_forward_of(&self, index: usize) -> FeedForward {
        match &self.feed_forward {
            FeedForward::Mixture(Mixture { dense_first: (layers, intermediate), .. }) if index < *layers => {
                FeedForward::Dense { intermediate: *intermediate }
            }
            other => other.clone(),
        }
    }

    /// How many numbers the weights of this config are, with one matrix for embedding and head if they are tied.
    pub fn parameters(&self) -> u64 {
        // `check` has bounded it; a hand-made config cannot overflow it either.
        u64::try_from(self.wide_parameters()).unwrap_or(u64::MAX)
    }

    fn wide_parameters(&self) -> u128 {
        let [c, l, h, g, d, v] = [self.hidden, self.layers, self.heads, self.kv_heads, self.head_dim, self.vocab].map(|n| n as u128);
        let biases = if self.qkv_bias { (h + 2 * g) * d } else { 0 };
        let norms = 2 * c + if self.qk_norm { 2 * d } else { 0 };
        let feed_forward = |layer| match self.feed_forward_of(layer) {
            FeedForward::Dense { intermediate } => 3 * c * intermediate as u128,
            FeedForward::Mixture(mixture) => mixture.parameters(c),
        };
        let layer = (2 * h + 2 * g) * d * c + biases + norms;
        l * layer + (0..self.layers).map(feed_forward).sum::<u128>() + c + v * c * if self.tied { 1 } else { 2 }
    }

    /// Bytes of keys and values that one token keeps, with numbers of `size` bytes: `2 * L * G * D * size`.
    pub fn kv_bytes_per_token(&self, size: usize) -> u64 {
        [self.layers, self.kv_heads, self.head_dim, size].iter().fold(2, |product: u64, n| product.saturating_mul(*n as u64))
    }
}

/// The head size: as given, else hidden / heads, which must divide. Half of it is paired with the other half, so it is even.
pub(super) fn head_dim(object: &Object, given: Option<usize>, hidden: usize, heads: usize) -> Result<usize> {
    let size = match given {
        Some(size) => size,
        None if hidden.is_multiple_of(heads) => hidden / heads,
        None => {
            return Err(object.error(format!(
                "the hidden size {hidden} is not a multiple of the {heads} heads, so the head size is unknown; give sizes that divide, or head_dim"
            )));
        }
    };
    if size == 0 || !size.is_multiple_of(2) {
        return Err(object.error(format!("the head size is {size}, but must be even for rotary positions")));
    }
    Ok(size)
}

/// Refuses what no family here has, wherever it turns up.
pub(super) fn refuse_foreign(object: &Object) -> Result<()> {
    let method = |config: &serde_json::Value| config.get("quant_method").and_then(|method| method.as_str()).map(str::to_owned);
    if object.get("quantization_config").is_some_and(|config| method(config).as_deref() != Some(QUANT_METHOD)) {
        let message = "quantization_config is given, but of quantised checkpoints only those that dlmrs quantize writes are supported; use the \
                       original weights";
        return Err(object.error(message));
    }
    // The prompt of such a model is meant to be read with token-causal attention.
    object.only("use_regular_causal", &false.into())
}

/// The mask token that the config names, under either of its keys.
pub(super) fn mask_token_id(object: &Object) -> Result<Option<u32>> {
    Ok(object.id("mask_token_id")?.or(object.id("text_mask_token_id")?))
}

/// Which type the weights are said to be stored in; transformers 5 calls the key `dtype`.
pub(super) fn torch_dtype(object: &Object) -> Result<Option<String>> {
    Ok(object.text("torch_dtype")?.or(object.text("dtype")?).map(str::to_string))
}
