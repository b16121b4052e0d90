//! `dlmrs bench`.

use std::path::PathBuf;

use clap::builder::ArgPredicate;
use clap::{Args, Parser};

use super::{DecodingArgs, LoadArgs, OverrideArgs, SamplingArgs, positive};

const EXAMPLES: &str = "\
Examples:
  dlmrs bench tiny-sdar
  dlmrs bench tiny-sdar --setting \"careful: --threshold 0.95\" --setting \"bold: --threshold 0.5\"
  dlmrs bench ./LLaDA-8B-Instruct --prompt-tokens 512 --max-tokens 128 --ignore-eos --rounds 3 \\
      --setting \"one a step: --block-length 32\" --setting \"0.9: --block-length 32 --threshold 0.9\"
  dlmrs bench tiny-sdar --batch 4 --prompts 8 --json > bench.json
  dlmrs bench --kernels";

/// Measure settings side by side
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchArgs {
    /// A model folder (config.json, *.safetensors, tokenizer files), a GGUF file, or a bundled model: tiny-sdar, tiny-sdar-draft, tiny-llada
    #[arg(required = false, required_unless_present = "kernels", default_value_if("kernels", ArgPredicate::IsPresent, ""))]
    pub(crate) model: String,
    /// A setting to measure: its name, a colon, and options of `dlmrs generate` about sampling and decoding, quoted as in a shell (may be
    /// repeated; the first is the baseline) [default: the model's own way]
    #[arg(long = "setting", value_name = "NAME: OPTIONS", allow_hyphen_values = true)]
    pub(crate) settings: Vec<String>,
    /// Read a prompt from this UTF-8 file (may be repeated; - is standard input) [default: word problems]
    #[arg(long = "prompt-file", value_name = "FILE")]
    pub(crate) prompt_files: Vec<PathBuf>,
    /// Prompt files hold one JSON object a line, as for `dlmrs generate`
    #[arg(long, requires = "prompt_files")]
    pub(crate) jsonl: bool,
    /// Prompts of so many random tokens, always the same ones; works without a tokenizer
    #[arg(long, value_name = "N", value_parser = positive, conflicts_with = "prompt_files", allow_negative_numbers = true)]
    pub(crate) prompt_tokens: Option<usize>,
    /// How many prompts [default: 4, with --quick 2; of files all]
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    pub(crate) prompts: Option<usize>,
    /// At most this many tokens, unless a setting says otherwise [default: 96, with --quick 16]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) max_tokens: Option<usize>,
    /// Go on to --max-tokens whatever comes, in every setting
    #[arg(long)]
    pub(crate) ignore_eos: bool,
    /// Of every setting that does not say otherwise
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub(crate) seed: u64,
    /// How many prompts are worked on together
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = positive, allow_negative_numbers = true)]
    pub(crate) batch: usize,
    /// Rounds that count; in each one every setting answers all prompts. One more comes before them as a warm-up
    /// [default: 5, with --quick 2]
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    pub(crate) rounds: Option<usize>,
    /// The smallest run that shows whether everything works; its times mean little
    #[arg(long)]
    pub(crate) quick: bool,
    /// Measure no model but the products of few rows that models are made of, at every level of instructions that the processor has
    #[arg(long, conflicts_with_all = ["model", "settings", "prompt_files", "prompt_tokens", "prompts", "max_tokens", "ignore_eos", "seed",
        "batch", "device", "dtype", "backend", "draft", "mask_token_id", "stop_token_ids", "max_model_len"])]
    pub(crate) kernels: bool,
    /// Print JSON: all that the table says, and every round's own numbers
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    #[command(flatten)]
    pub(crate) overrides: OverrideArgs,
}

impl BenchArgs {
    /// The chosen one, the one of `--quick`, or the usual one.
    fn or(&self, chosen: Option<usize>, quick: usize, usual: usize) -> usize {
        chosen.unwrap_or(if self.quick { quick } else { usual })
    }

    /// Rounds that count.
    pub(crate) fn rounds(&self) -> usize {
        self.or(self.rounds, 2, 5)
    }

    /// Prompts, where there is no end of them.
    pub(crate) fn prompts(&self) -> usize {
        self.or(self.prompts, 2, 4)
    }

    /// Tokens of an answer, unless a setting says otherwise.
    pub(crate) fn max_tokens(&self) -> usize {
        self.or(self.max_tokens, 16, 96)
    }
}

/// The options of a setting. A later one takes the place of an earlier one, so that a setting goes before the command's own options.
#[derive(Parser, Debug)]
#[command(no_binary_name = true, args_override_self = true, disable_help_flag = true)]
pub(crate) struct SettingArgs {
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
    #[command(flatten)]
    pub(crate) decoding: DecodingArgs,
}
