//! `dlmrs chat`.

use clap::Args;

/// Talk with a model
#[derive(Args, Debug)]
pub(crate) struct ChatArgs {
    /// A model folder, or a bundled model
    pub(crate) model: String,
}
