//! On what it ran.

use dlmrs::{Backend, Llm, device};
use dlmrs_kernels::Isa;

/// What numbers depend on besides the settings.
pub(super) struct Machine {
    /// The processor's name; None where the system does not tell.
    pub(super) cpu: Option<String>,
    /// Threads that compute.
    pub(super) threads: usize,
    /// The level of instructions.
    pub(super) isa: &'static str,
    pub(super) device: String,
    /// How the weights are held.
    pub(super) dtype: &'static str,
    /// Who multiplies.
    pub(super) backend: &'static str,
    /// Operating system and architecture.
    pub(super) system: String,
    /// "release" or "debug".
    pub(super) build: &'static str,
}

impl Machine {
    /// The one that this model runs on; `backend` is what was asked for.
    pub(super) fn of(llm: &Llm, backend: Backend) -> Self {
        let model = llm.model();
        let backend = match backend {
            Backend::Auto | Backend::Kernels if model.device().is_cpu() => "kernels",
            _ => "plain",
        };
        Self {
            cpu: std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| processor(&text)),
            threads: model.team().threads(),
            isa: Isa::detect().name(),
            device: device::name(model.device()),
            dtype: model.weights(),
            backend,
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            build: if cfg!(debug_assertions) { "debug" } else { "release" },
        }
    }
}

fn processor(cpuinfo: &str) -> Option<String> {
    let (_, name) = cpuinfo.lines().filter_map(|line| line.split_once(':')).find(|(key, _)| key.trim() == "model name")?;
    Some(name.split_whitespace().collect::<Vec<_>>().join(" ")).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_has_a_name() {
        let text = "processor\t: 0\nmodel\t\t: 1\nmodel name\t: Some  CPU @ 2: GHz\nmodel name\t: other\n";
        assert_eq!(processor(text).as_deref(), Some("Some CPU @ 2: GHz"));
        assert_eq!(processor("Features : fp asimd\n"), None);
        assert_eq!(processor("model name\t:\n"), None);
    }
}
