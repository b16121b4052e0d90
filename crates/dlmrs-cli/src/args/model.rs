//! Options about how a model is loaded.

use clap::Args;
use dlmrs::{DraftSource, LoadOptions, Overrides};

use crate::failure::Failure;

/// Where and how the arithmetic runs.
#[derive(Args, Debug)]
#[command(next_help_heading = "Device")]
pub(crate) struct LoadArgs {
    /// cpu, cuda, cuda:N, or auto: the first CUDA device if there is one
    #[arg(long, default_value = "auto")]
    device: String,
    /// How the weights are held. auto: on a CPU bf16 where the model is stored so (which changes no result), else f32; elsewhere as
    /// stored. int8, int4 and int4-128 round them as they are read
    #[arg(long, default_value = "auto", value_parser = ["auto", "f32", "bf16", "f16", "int8", "int4", "int4-128"])]
    dtype: String,
    /// Who multiplies. auto: our kernels on a CPU, plain Candle elsewhere
    #[arg(long, default_value = "auto", value_parser = ["auto", "kernels", "plain"])]
    backend: String,
    /// Threads on the CPU [default: all that the process may use]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    threads: Option<usize>,
    /// A second model that drafts for --method simsd: a folder, a GGUF file or a bundled model with the same tokens, or the model's own name
    /// again for the same weights
    #[arg(long, value_name = "MODEL")]
    draft: Option<String>,
    /// Where the draft model runs, as --device [default: the same]
    #[arg(long, value_name = "DEVICE", requires = "draft")]
    draft_device: Option<String>,
}

impl LoadArgs {
    /// The draft model as it was typed.
    pub(crate) fn draft_name(&self) -> Option<&str> {
        self.draft.as_deref()
    }

    /// The draft model for `model`, if one is wanted.
    pub(crate) fn draft(&self, model: &str) -> Result<Option<DraftSource>, Failure> {
        let Some(name) = &self.draft else { return Ok(None) };
        if name == model && self.draft_device.is_none() {
            return Ok(Some(DraftSource::Itself));
        }
        let own = self.options()?;
        let options = LoadOptions { device: self.draft_device.clone().unwrap_or_else(|| own.device.clone()), ..own };
        Ok(Some(DraftSource::Model { name: name.clone(), options }))
    }

    /// As the library wants them.
    pub(crate) fn options(&self) -> Result<LoadOptions, Failure> {
        let (dtype, backend) = (self.dtype.parse()?, self.backend.parse()?);
        Ok(LoadOptions { device: self.device.clone(), dtype, backend, threads: self.threads })
    }
}

/// What the user knows better than the checkpoint.
#[derive(Args, Debug)]
#[command(next_help_heading = "Model")]
pub(crate) struct OverrideArgs {
    /// The token that marks an undecided slot, for models that do not name it
    #[arg(long, value_name = "ID", allow_negative_numbers = true)]
    mask_token_id: Option<u32>,
    /// A token that ends an answer, in place of all that the model names (may be repeated)
    #[arg(long = "stop-token-id", value_name = "ID")]
    stop_token_ids: Option<Vec<u32>>,
    /// The longest sequence, prompt and answer together, up to the model's own
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max_model_len: Option<usize>,
}

impl OverrideArgs {
    /// As the library wants them.
    pub(crate) fn overrides(&self) -> Overrides {
        Overrides {
            mask_token_id: self.mask_token_id,
            block_length: None,
            stop_token_ids: self.stop_token_ids.clone(),
            max_model_len: self.max_model_len,
        }
    }
}
