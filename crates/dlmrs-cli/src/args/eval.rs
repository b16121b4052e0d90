//! `dlmrs eval`.

use clap::Args;

/// Score a model on a task
#[derive(Args, Debug)]
pub(crate) struct EvalArgs {
    /// A model folder, or a bundled model
    pub(crate) model: String,
}
