//! The extension module `dlmrs._dlmrs`: it converts types and errors, nothing else. What Python code needs no Rust for (settings,
//! outputs, exceptions) is defined in Python, in `python/dlmrs`; this crate reads and makes these objects.

mod chat;
mod command;
mod decoding;
mod errors;
mod events;
mod forward;
mod generate;
mod inspect;
mod json;
mod llm;
mod loaded;
mod logging;
mod notify;
mod output;
mod params;
mod prompts;
mod stream;
mod suffix;
mod trace;
mod value;

/// The engine behind the package `dlmrs`.
#[pyo3::pymodule]
mod _dlmrs {
    #[pymodule_export]
    use crate::{
        command::run_cli,
        decoding::{block_preset, block_presets, check_decoding},
        inspect::{bundled_models, inspect},
        llm::Llm,
        params::check_params,
        stream::Stream,
        suffix::{check_suffix, kept_probabilities, suffix_preset, suffix_presets},
    };

    /// The version of the package.
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_init]
    fn init(_module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        crate::logging::install();
        Ok(())
    }
}
