//! `dlmrs bench`.

use clap::Args;

/// Measure settings side by side
#[derive(Args, Debug)]
pub(crate) struct BenchArgs {
    /// A model folder, or a bundled model
    pub(crate) model: String,
}
