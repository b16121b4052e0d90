//! `dlmrs chat`.

use std::path::PathBuf;

use clap::Args;

use super::{DecodingArgs, LoadArgs, OverrideArgs, SamplingArgs, TemplateArgs};

const EXAMPLES: &str = "\
On a terminal the text appears as it becomes final. Elsewhere each line of standard input is a message, and the answers are \
printed one after the other. A backslash at the end of a line continues the message on the next line. Lines that begin with a \
slash are commands: /help lists them.

Examples:
  dlmrs chat tiny-sdar                   type a message; /help lists the commands
  dlmrs chat ./SDAR-1.7B-Chat --watch    see the canvas fill while it answers
  dlmrs chat ./SDAR-4B-Chat --system \"Answer in one sentence.\" --temperature 0.7
  dlmrs chat ./SDAR-4B-Chat --load yesterday.jsonl
      where each line is like {\"role\": \"user\", \"content\": \"...\"}, as /save writes it
  dlmrs chat tiny-sdar --json < messages.txt > answers.jsonl
      where each line of messages.txt is a message or a command such as /reset";

/// Talk with a model
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
// An answer in a conversation may think first.
#[command(mut_arg("max_tokens", |arg| arg.default_value("512").help("At most this many tokens in an answer")))]
pub(crate) struct ChatArgs {
    /// A model folder (config.json, *.safetensors, tokenizer files), a GGUF file, or a bundled model: tiny-sdar, tiny-sdar-draft, tiny-llada
    pub(crate) model: String,
    /// Begin with this system message, in place of that of --load
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,
    /// Go on with this conversation: one JSON object with "role" and "content" a line, as /save writes it
    #[arg(long = "load", value_name = "FILE")]
    pub(crate) conversation: Option<PathBuf>,
    /// Print one JSON object for each answer: text, token ids, why it ended, seed, passes, rows, seconds
    #[arg(long)]
    pub(crate) json: bool,
    /// Say on standard error what each answer cost
    #[arg(long)]
    pub(crate) stats: bool,
    /// Show the canvas while it fills, on a terminal: undecided slots are dots, slots of the last pass are reversed (bold where a guess
    /// was corrected), other slots that are not final yet are underlined
    #[arg(long, conflicts_with = "json")]
    pub(crate) watch: bool,
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
