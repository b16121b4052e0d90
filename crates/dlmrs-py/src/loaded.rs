//! A loaded model with the engine that its streams share.

use std::sync::{Arc, OnceLock};

use dlmrs::Llm;
use dlmrs::engine::Service;

/// Lives until the `LLM` is closed; running calls keep it a little longer.
pub(crate) struct Loaded {
    llm: Arc<Llm>,
    /// Made for the first stream: who only calls `generate` has no use for its thread.
    service: OnceLock<Service>,
}

impl Loaded {
    pub(crate) fn new(llm: Arc<Llm>) -> Self {
        Self { llm, service: OnceLock::new() }
    }

    /// The model.
    pub(crate) fn llm(&self) -> &Arc<Llm> {
        &self.llm
    }

    /// The engine of the streams.
    pub(crate) fn service(&self) -> Result<&Service, dlmrs::Error> {
        if let Some(service) = self.service.get() {
            return Ok(service);
        }
        // If another thread was quicker, its service is used and this one ends at once.
        let service = Service::start(self.llm.clone())?;
        Ok(self.service.get_or_init(|| service))
    }
}
