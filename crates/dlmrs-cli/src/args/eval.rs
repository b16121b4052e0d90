//! `dlmrs eval`.

use std::path::PathBuf;

use clap::Args;

use super::{DecodingArgs, FramingArgs, LoadArgs, OverrideArgs, SamplingArgs, positive};

const EXAMPLES: &str = "\
Examples:
  dlmrs eval tiny-sdar --limit 50                    the word problems that are built in
  dlmrs eval --list-tasks                            tasks, and where their data are published
  dlmrs eval ./SDAR-1.7B-Chat --task gsm8k --data test.jsonl \\
      --shots-data train.jsonl --out runs/dynamic    a folder with every answer
  dlmrs eval ./SDAR-1.7B-Chat --task gsm8k --data test.jsonl \\
      --shots-data train.jsonl --out runs/dynamic --resume
  dlmrs eval tiny-sdar --strategy sequential --against runs/tiny";

/// Score a model on a task
#[derive(Args, Debug)]
#[command(override_usage = "dlmrs eval [OPTIONS] <MODEL>\n       dlmrs eval --list-tasks", after_help = EXAMPLES)]
pub(crate) struct EvalArgs {
    /// A model folder (config.json, *.safetensors, tokenizer files), a GGUF file, or a bundled model: tiny-sdar, tiny-sdar-draft, tiny-llada
    #[arg(required_unless_present = "list_tasks")]
    pub(crate) model: Option<String>,
    /// Say which tasks there are, what data they need and where those are published
    #[arg(long, conflicts_with = "json")]
    pub(crate) list_tasks: bool,
    /// How the data are read, asked and judged [default: word_problems]
    #[arg(long, value_name = "NAME")]
    pub(crate) task: Option<String>,
    /// The problems, JSON lines or parquet as they are published; hub:OWNER/NAME/PATH is a file of a data set on the Hugging Face hub
    /// [default for word_problems: those that are built in]
    #[arg(long, value_name = "FILE")]
    pub(crate) data: Option<String>,
    /// Worked examples before each question [default: the task's]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) shots: Option<usize>,
    /// Where worked examples come from, written as for --data: the first N records, of the problem's own group where the task has groups
    #[arg(long, value_name = "FILE")]
    pub(crate) shots_data: Option<String>,
    /// Ask at most so many problems
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    pub(crate) limit: Option<usize>,
    /// Leave out so many problems at the beginning
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub(crate) offset: usize,
    #[command(flatten)]
    pub(crate) framing: FramingArgs,
    /// Run programs that the model wrote with python3, where the task judges by that. Read docs/code_execution.md first
    #[arg(long)]
    pub(crate) allow_code_execution: bool,
    /// Write manifest.json, results.jsonl (a line a problem, as it is done) and summary.json into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Go on with the run in --out where it was interrupted; the settings must be the same
    #[arg(long, requires = "out")]
    pub(crate) resume: bool,
    /// Compare with another run on the same data: its folder, or its results.jsonl
    #[arg(long, value_name = "DIR_OR_RESULTS")]
    pub(crate) against: Option<PathBuf>,
    /// Print the summary as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// How many problems are worked on together. It changes speed and memory, not the results
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = positive, allow_negative_numbers = true)]
    pub(crate) batch: usize,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
    #[command(flatten)]
    pub(crate) decoding: DecodingArgs,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    #[command(flatten)]
    pub(crate) overrides: OverrideArgs,
}
