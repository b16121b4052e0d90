//! How a text becomes a prompt.

use clap::Args;
use dlmrs::tokenizer::Tokenizer;

/// By default a text is a user's turn wherever the model has a chat template.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct FramingArgs {
    /// Give the prompt as a user's turn in the model's chat template. This is the default wherever the model has a chat template
    #[arg(long, conflicts_with = "raw")]
    chat: bool,
    /// Give the prompt as it is, to be continued, even though the model has a chat template
    #[arg(long)]
    raw: bool,
    /// Begin the chat with this system message
    #[arg(long, value_name = "TEXT", conflicts_with = "raw")]
    pub(crate) system: Option<String>,
}

impl FramingArgs {
    /// Whether texts are turns of a chat.
    pub(crate) fn is_chat(&self, tokenizer: &Tokenizer) -> bool {
        !self.raw && (self.chat || self.system.is_some() || tokenizer.chat_template().is_some())
    }
}
