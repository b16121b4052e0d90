//! How one row of logits is turned into a token and its statistics.

use std::sync::Arc;

/// Which distribution probability, entropy and margin are taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confidence {
    /// The plain softmax, before temperature and filters (LLaDA, and every family at temperature 0).
    Raw,
    /// The distribution that the token is drawn from, after temperature and filters (SDAR, Dream).
    Shaped,
}

/// In which order top-k and top-p are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterOrder {
    /// top-k, then top-p of what is left (SDAR).
    TopKFirst,
    /// top-p, then top-k of what is left (Dream).
    TopPFirst,
}

/// A change to one logit before anything else looks at it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Edit {
    /// Adds this; minus infinity bans the token.
    Add(f32),
    /// Divides a positive logit by this and multiplies a negative one (repetition penalty).
    Penalty(f32),
}

/// The rule for one row. The row depends on this rule, its logits and the key of its noise, and on nothing else.
#[derive(Clone, Debug)]
pub struct RowRule {
    /// 0 is greedy.
    pub temperature: f32,
    /// 0 is off; 1 is the same as temperature 0.
    pub top_k: usize,
    /// 1 is off.
    pub top_p: f32,
    /// See [`FilterOrder`].
    pub filter_order: FilterOrder,
    /// See [`Confidence`]; at temperature 0 it is always the plain softmax.
    pub confidence: Confidence,
    /// Never drawn. It counts in the plain softmax, as in the references, and not in the distribution that is drawn from.
    pub mask_token_id: u32,
    /// Ids from here on are never drawn either: rows of the embedding that no token of the tokenizer has.
    pub drawable: u32,
    /// Key of the noise.
    pub seed: u64,
    /// Key of the noise: the slot that is decided.
    pub position: u32,
    /// Applied in order.
    pub edits: Arc<[(u32, Edit)]>,
    /// Banned in this row besides (stop ids before `min_tokens`).
    pub banned: Arc<[u32]>,
}

impl RowRule {
    /// The argmax and the plain softmax, with nothing changed before.
    pub fn greedy(mask_token_id: u32, position: u32) -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            filter_order: FilterOrder::TopKFirst,
            confidence: Confidence::Raw,
            mask_token_id,
            drawable: u32::MAX,
            seed: 0,
            position,
            edits: Arc::from([]),
            banned: Arc::from([]),
        }
    }

    /// Whether the token is the argmax.
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0 || self.top_k == 1
    }

    /// Whether the draw needs the whole row at once.
    pub(crate) fn needs_whole_row(&self) -> bool {
        !self.is_greedy() && (self.top_k > 0 || self.top_p < 1.0)
    }
}
