//! `dlmrs quantize`.

use std::path::PathBuf;

use clap::Args;

use super::{OverrideArgs, positive};

const EXAMPLES: &str = "\
Examples:
  dlmrs quantize tiny-sdar tiny-sdar-int8
  dlmrs quantize ./SDAR-8B-Chat ./SDAR-8B-Chat-int4 --dtype int4 --prompt-file prompts.txt";

/// Write a model with its weights rounded to 8 or 4 bits, and say what that cost
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct QuantizeArgs {
    /// A model folder (config.json, *.safetensors, tokenizer files), or a bundled model: tiny-sdar, tiny-sdar-draft, tiny-llada
    pub(crate) model: String,
    /// The folder that is written; it must not be there yet. It loads without the original
    pub(crate) out: PathBuf,
    /// How weights are rounded: a byte each, or half a byte in groups of 32 or 128 (the output head a byte in any case)
    #[arg(long, default_value = "int8", value_parser = ["int8", "int4", "int4-128"])]
    pub(crate) dtype: String,
    /// Compare answers to the prompts in this UTF-8 file (may be repeated; - is standard input) [default: eight word problems]
    #[arg(long = "prompt-file", value_name = "FILE")]
    pub(crate) prompt_files: Vec<PathBuf>,
    /// Prompt files hold one JSON object a line, as for `dlmrs generate`
    #[arg(long, requires = "prompt_files")]
    pub(crate) jsonl: bool,
    /// Answers that are compared have at most this many tokens
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = positive, allow_negative_numbers = true)]
    pub(crate) max_tokens: usize,
    /// Write only: do not load the two models to compare them
    #[arg(long, conflicts_with_all = ["prompt_files", "max_tokens"])]
    pub(crate) no_compare: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Threads [default: all that the process may use]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) threads: Option<usize>,
    #[command(flatten)]
    pub(crate) overrides: OverrideArgs,
}
