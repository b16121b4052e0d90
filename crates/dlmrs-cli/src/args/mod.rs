//! What can be typed.

mod acceleration;
mod bench;
mod chat;
mod decoding;
mod editing;
mod eval;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod examples;
mod framing;
mod model;
mod quantize;
mod sampling;
mod speculation;
mod sub_blocks;
mod template;

use std::path::PathBuf;

use clap::{ArgGroup, Args, Parser, Subcommand};
use clap_complete::Shell;

use acceleration::AccelerationArgs;
pub(crate) use bench::{BenchArgs, SettingArgs};
pub(crate) use chat::ChatArgs;
pub(crate) use decoding::DecodingArgs;
use editing::EditingArgs;
pub(crate) use eval::EvalArgs;
pub(crate) use framing::FramingArgs;
pub(crate) use model::{LoadArgs, OverrideArgs};
pub(crate) use quantize::QuantizeArgs;
pub(crate) use sampling::SamplingArgs;
pub(crate) use speculation::SpeculationArgs;
use sub_blocks::SubBlockArgs;
pub(crate) use template::TemplateArgs;

const EXAMPLES: &str = "\
Examples:
  dlmrs demo                             see it work: needs no model and no network
  dlmrs generate tiny-sdar \\
      \"Mia has 63 beads. Mia gives 54 to Dan. How many beads does Mia have now?\"
  dlmrs generate ./SDAR-1.7B-Chat \"Why is the sky blue?\" --watch
  dlmrs chat ./SDAR-1.7B-Chat            talk with it
  dlmrs eval tiny-sdar --limit 20        how often is it right?
  dlmrs bench tiny-sdar --quick          how fast is it?
  dlmrs inspect ./SDAR-1.7B-Chat         what a model folder holds
  dlmrs quantize ./SDAR-1.7B-Chat ./SDAR-1.7B-Chat-int8";

const GENERATE_EXAMPLES: &str = "\
Examples:
  dlmrs generate tiny-sdar \\
      \"Mia has 63 beads. Mia gives 54 to Dan. How many beads does Mia have now?\"
  dlmrs generate tiny-llada --prompt-file problem.txt --threshold 0.9 --watch
  dlmrs generate ./LLaDA-8B-Instruct \"Write a haiku.\" --temperature 0.7 --seed 1
  dlmrs generate ./SDAR-8B-Chat --draft ./SDAR-1.7B-Chat --method simsd --blocks 2 \"Why is the sky blue?\"
  dlmrs generate tiny-sdar --jsonl --prompt-file prompts.jsonl --json > answers.jsonl
      where each line of prompts.jsonl is like {\"prompt\": \"...\"}
      or like {\"messages\": [{\"role\": \"user\", \"content\": \"...\"}]}";

const INSPECT_EXAMPLES: &str = "\
Examples:
  dlmrs inspect tiny-sdar
  dlmrs inspect ./LLaDA-8B-Instruct --json";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  dlmrs completions bash > ~/.local/share/bash-completion/completions/dlmrs
  dlmrs completions zsh > ~/.zfunc/_dlmrs
      where ~/.zfunc is in zsh's fpath
  dlmrs completions fish > ~/.config/fish/completions/dlmrs.fish
  dlmrs completions powershell >> $PROFILE
  dlmrs completions elvish > ~/.config/elvish/lib/dlmrs.elv";

const DEMO_EXAMPLES: &str = "\
Examples:
  dlmrs demo
  dlmrs demo --problems 20 --model tiny-llada
  dlmrs demo --plain > demo.txt";

/// Generate text with diffusion language models.
#[derive(Debug, Parser)]
#[command(name = "dlmrs", version, after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Generate(Box<GenerateArgs>),
    Chat(Box<ChatArgs>),
    Eval(Box<EvalArgs>),
    Bench(Box<BenchArgs>),
    Inspect(InspectArgs),
    Quantize(QuantizeArgs),
    Demo(DemoArgs),
    Completions(CompletionsArgs),
}

/// Answer prompts with a model
#[derive(Args, Debug)]
#[command(override_usage = "dlmrs generate [OPTIONS] <MODEL> <PROMPT>\n       dlmrs generate [OPTIONS] <MODEL> --prompt-file <FILE>")]
#[command(after_help = GENERATE_EXAMPLES)]
#[command(group = ArgGroup::new("input").required(true).args(["prompt", "prompt_files"]))]
pub(crate) struct GenerateArgs {
    /// A model folder (config.json, *.safetensors, tokenizer files), a GGUF file, or a bundled model: tiny-sdar, tiny-sdar-draft, tiny-llada
    pub(crate) model: String,
    /// What to answer
    pub(crate) prompt: Option<String>,
    /// Read the prompt from this UTF-8 file instead (may be repeated; - is standard input). One line end at its end is not part of it
    #[arg(long = "prompt-file", value_name = "FILE")]
    pub(crate) prompt_files: Vec<PathBuf>,
    /// Prompt files hold one JSON object a line: {"prompt": TEXT}, {"prompt": [TOKEN IDS]} or {"messages": [{"role": ..., "content": ...}]}
    #[arg(long, requires = "prompt_files", conflicts_with = "prompt")]
    pub(crate) jsonl: bool,
    #[command(flatten)]
    pub(crate) framing: FramingArgs,
    /// Text in a prompt that spells a special token, such as <|MASK|>, is that token. Without this it stays text. Masks in a prompt are
    /// slots to fill: the prompt is printed too, filled in
    #[arg(long)]
    pub(crate) parse_specials: bool,
    /// Print one JSON object for each output: text, token ids, why it ended, seed, passes, rows, seconds
    #[arg(long)]
    pub(crate) json: bool,
    /// Say on standard error what each output cost
    #[arg(long)]
    pub(crate) stats: bool,
    /// Show the canvas while it fills, on a terminal: undecided slots are dots, slots of the last pass are reversed (bold where a guess
    /// was corrected), other slots that are not final yet are underlined
    #[arg(long)]
    pub(crate) watch: bool,
    /// How many prompts are worked on together. It changes speed and memory, not the outputs
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = positive, allow_negative_numbers = true)]
    pub(crate) batch: usize,
    #[command(flatten)]
    pub(crate) template: TemplateArgs,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
    #[command(flatten)]
    pub(crate) decoding: DecodingArgs,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    #[command(flatten)]
    pub(crate) overrides: OverrideArgs,
}

/// Say what a model folder or file holds, without loading its weights
#[derive(Args, Debug)]
#[command(after_help = INSPECT_EXAMPLES)]
pub(crate) struct InspectArgs {
    /// A model folder, a GGUF file, or a bundled model: tiny-sdar, tiny-sdar-draft, tiny-llada
    pub(crate) model: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) overrides: OverrideArgs,
}

/// Solve word problems with the bundled models, and show how the canvas fills
#[derive(Args, Debug)]
#[command(after_help = DEMO_EXAMPLES)]
pub(crate) struct DemoArgs {
    /// How many problems each model solves, up to 20
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=20))]
    pub(crate) problems: u8,
    /// Only this model: a bundled one, a folder or a GGUF file [default: tiny-sdar and then tiny-llada]
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Plain lines at full speed, even on a terminal
    #[arg(long)]
    pub(crate) plain: bool,
}

/// Print what a shell needs to complete options and file names when Tab is pressed
#[derive(Args, Debug)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: Shell,
}

/// A whole number from 1.
fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least 1 is needed".into()),
        Ok(number) => Ok(number),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn clap_finds_no_fault() {
        super::Cli::command().debug_assert();
    }
}
