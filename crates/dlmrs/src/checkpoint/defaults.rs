//! What a config often leaves out: mask id, block length, stop ids, and the longest sequence.
//!
//! Each is looked for in a fixed order - the caller, the config, the tokenizer, the folder's name, the family's table - and each
//! answer says where it was found.

use super::json::Object;
use super::{Folder, ModelConfig, NativeAttention};
use crate::{Error, Result};

const CALLER: &str = "the caller";
const CONFIG: &str = "config.json";
const METADATA: &str = "the file's metadata";
const GENERATION_CONFIG: &str = "generation_config.json";
const BOTH_CONFIGS: &str = "generation_config.json and config.json";
const TOKENIZER: &str = "the tokenizer";
const FOLDER_NAME: &str = "the folder's name";
const FAMILY: &str = "the family's default";
const NOWHERE: &str = "nowhere";

/// What the caller says, which goes before everything else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// The mask token.
    pub mask_token_id: Option<u32>,
    /// The block length.
    pub block_length: Option<usize>,
    /// The tokens that end an answer, in place of all that the checkpoint and its family say; may be empty.
    pub stop_token_ids: Option<Vec<u32>>,
    /// The longest sequence that is to be allowed; at most the model's own.
    pub max_model_len: Option<usize>,
}

/// What has been settled, and where each came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The token that marks an undecided slot; below V.
    pub mask_token_id: u32,
    /// Where the mask token was found.
    pub mask_token_id_from: &'static str,
    /// B; None for families without a grid of blocks, unless the caller gave one.
    pub block_length: Option<usize>,
    /// Where the block length was found.
    pub block_length_from: &'static str,
    /// Whether the weights were trained for one block length, so that another degrades them (SDAR).
    pub block_length_baked: bool,
    /// Tokens that end an answer, ascending; below V. May be empty.
    pub stop_token_ids: Vec<u32>,
    /// Where the stop tokens were found.
    pub stop_token_ids_from: &'static str,
    /// The longest sequence, prompt and answer together.
    pub max_model_len: usize,
    /// Where the longest sequence was found.
    pub max_model_len_from: &'static str,
}

/// What a config is called in this kind of checkpoint.
fn config_of(folder: &Folder) -> &'static str {
    if matches!(folder, Folder::Gguf(_)) { METADATA } else { CONFIG }
}

/// Settles everything. `tokenizer_mask_id` and `tokenizer_eos` are what the tokenizer's own files call mask and end of sequence.
pub fn facts(
    folder: &Folder,
    config: &ModelConfig,
    tokenizer_mask_id: Option<u32>,
    tokenizer_eos: Option<u32>,
    overrides: &Overrides,
) -> Result<Facts> {
    let Some((mask_token_id, mask_token_id_from)) = mask_token(folder, config, tokenizer_mask_id, overrides)? else {
        return Err(Error::input(
            "mask_token_id",
            format!(
                "not found in {} nor in the tokenizer, and the usual one of {}, {}, is beyond this vocabulary of {}; give mask_token_id",
                folder.describe(CONFIG),
                config.family,
                config.family.profile().mask_token_id,
                config.vocab
            ),
        ));
    };
    let (stop_token_ids, stop_token_ids_from) = stop_tokens(folder, config, tokenizer_eos, overrides)?;
    if stop_token_ids.contains(&mask_token_id) {
        return Err(Error::input(
            "mask_token_id",
            format!("{mask_token_id} (from {mask_token_id_from}) is also a stop token (from {stop_token_ids_from}); it must be another"),
        ));
    }
    let (block_length, block_length_from) = block_length(folder, config, overrides)?;
    let (max_model_len, max_model_len_from) = max_model_len(folder, config, overrides)?;
    Ok(Facts {
        mask_token_id,
        mask_token_id_from,
        block_length,
        block_length_from,
        block_length_baked: config.family.profile().block_length_baked,
        stop_token_ids,
        stop_token_ids_from,
        max_model_len,
        max_model_len_from,
    })
}

/// The mask token and where it was found; None if nobody knows it.
pub(super) fn mask_token(
    folder: &Folder,
    config: &ModelConfig,
    tokenizer: Option<u32>,
    overrides: &Overrides,
) -> Result<Option<(u32, &'static str)>> {
    if let Some(id) = overrides.mask_token_id {
        return within(id, config).map(|id| Some((id, CALLER))).map_err(|message| Error::input("mask_token_id", message));
    }
    if let Some(id) = config.mask_token_id {
        let id = within(id, config).map_err(|message| Error::checkpoint(folder.describe(CONFIG), format!("mask_token_id {message}")))?;
        return Ok(Some((id, config_of(folder))));
    }
    if let Some(id) = tokenizer {
        let id = within(id, config).map_err(|message| Error::Tokenizer(format!("the mask token's id {message}")))?;
        return Ok(Some((id, TOKENIZER)));
    }
    // The table is about the public checkpoints; a smaller vocabulary is another one, where the id would mean nothing.
    Ok(within(config.family.profile().mask_token_id, config).ok().map(|id| (id, FAMILY)))
}

/// The stop tokens and where they were found. What the family is known to end a turn with always counts too, as far as the vocabulary
/// reaches: LLaDA's files name the end of text and not the end of a turn.
pub(super) fn stop_tokens(
    folder: &Folder,
    config: &ModelConfig,
    tokenizer: Option<u32>,
    overrides: &Overrides,
) -> Result<(Vec<u32>, &'static str)> {
    if let Some(given) = &overrides.stop_token_ids {
        let mut ids = given.clone();
        ids.sort_unstable();
        ids.dedup();
        for id in &ids {
            within(*id, config).map_err(|message| Error::input("stop_token_ids", message))?;
        }
        return Ok((ids, CALLER));
    }
    let (mut ids, from) = named_stop_tokens(folder, config, tokenizer)?;
    let family = config.family.profile().stop_token_ids.iter().copied().filter(|id| within(*id, config).is_ok());
    let more: Vec<u32> = family.filter(|id| !ids.contains(id)).collect();
    let from = match (from, more.is_empty()) {
        (from, true) => from,
        (NOWHERE, false) => FAMILY,
        (BOTH_CONFIGS, false) => "generation_config.json, config.json and the family's default",
        (GENERATION_CONFIG, false) => "generation_config.json and the family's default",
        (CONFIG, false) => "config.json and the family's default",
        (METADATA, false) => "the file's metadata and the family's default",
        (_, false) => "the tokenizer and the family's default",
    };
    ids.extend(more);
    ids.sort_unstable();
    ids.dedup();
    Ok((ids, from))
}

/// What the checkpoint's files say.
fn named_stop_tokens(folder: &Folder, config: &ModelConfig, tokenizer: Option<u32>) -> Result<(Vec<u32>, &'static str)> {
    let mut ids = Vec::new();
    if let Some(object) = Object::read(folder, GENERATION_CONFIG)? {
        ids = object.ids("eos_token_id")?;
        for id in &ids {
            within(*id, config).map_err(|message| object.error(format!("eos_token_id {message}")))?;
        }
    }
    let from = match (ids.is_empty(), config.eos_token_ids.is_empty()) {
        (false, false) => BOTH_CONFIGS,
        (false, true) => GENERATION_CONFIG,
        (true, false) => config_of(folder),
        (true, true) => match tokenizer {
            Some(id) => {
                ids.push(within(id, config).map_err(|message| Error::Tokenizer(format!("the id of the end of sequence {message}")))?);
                TOKENIZER
            }
            None => NOWHERE,
        },
    };
    ids.extend(&config.eos_token_ids);
    Ok((ids, from))
}

/// The block length and where it was found.
pub(super) fn block_length(folder: &Folder, config: &ModelConfig, overrides: &Overrides) -> Result<(Option<usize>, &'static str)> {
    let max = config.max_positions;
    if let Some(length) = overrides.block_length {
        if !(1..=max).contains(&length) {
            let message = format!("is {length}, but must be from 1 to {max}, the model's longest sequence");
            return Err(Error::input("block_length", message));
        }
        return Ok((Some(length), CALLER));
    }
    if config.attention != NativeAttention::BlockCausal {
        return Ok((None, NOWHERE));
    }
    if let Some(length) = config.block_length {
        return Ok((Some(length), config_of(folder)));
    }
    if let Some(length) = suffix(&folder.name()).filter(|length| (1..=max).contains(length)) {
        return Ok((Some(length), FOLDER_NAME));
    }
    Ok((config.family.profile().block_length, FAMILY))
}

/// 8 from `SDAR-8B-Chat-b8`.
fn suffix(name: &str) -> Option<usize> {
    let (_, digits) = name.rsplit_once("-b")?;
    // `parse` alone would take "+8".
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

pub(super) fn max_model_len(folder: &Folder, config: &ModelConfig, overrides: &Overrides) -> Result<(usize, &'static str)> {
    let max = config.max_positions;
    match overrides.max_model_len {
        None => Ok((max, config_of(folder))),
        Some(length) if (1..=max).contains(&length) => Ok((length, CALLER)),
        Some(length) => {
            Err(Error::input("max_model_len", format!("is {length}, but must be from 1 to {max}, the model's longest sequence")))
        }
    }
}

/// A token id, if the embedding has a row for it; else the rest of a sentence.
fn within(id: u32, config: &ModelConfig) -> Result<u32, String> {
    if (id as usize) < config.vocab {
        return Ok(id);
    }
    Err(format!("is {id}, but must be below {}, the rows of the embedding", config.vocab))
}
