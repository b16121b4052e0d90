//! Devices by the names that users write.

use candle_core::Device;

use crate::error::{Error, Result};

/// `cpu`, `cuda`, `cuda:N`, or `auto`: the first CUDA device if this build and this machine have one, else the CPU.
pub fn parse(name: &str) -> Result<Device> {
    let refuse = |message: &str| Err(Error::Device { name: format!("'{name}'"), message: message.into() });
    match name {
        "cpu" => Ok(Device::Cpu),
        "auto" => Ok(cuda(0).unwrap_or_else(|error| {
            if cfg!(feature = "cuda") {
                tracing::warn!("using the CPU: {error}");
            }
            Device::Cpu
        })),
        "cuda" => cuda(0),
        _ => match name.strip_prefix("cuda:").map(str::parse) {
            Some(Ok(index)) => cuda(index),
            Some(Err(_)) => refuse("the number of a CUDA device is a whole number, as in cuda:0"),
            None => refuse("is unknown; use cpu, cuda, cuda:N or auto"),
        },
    }
}

#[cfg(feature = "cuda")]
fn cuda(index: usize) -> Result<Device> {
    Device::new_cuda(index).map_err(|e| Error::Device { name: format!("'cuda:{index}'"), message: format!("cannot be opened: {e}") })
}

#[cfg(not(feature = "cuda"))]
fn cuda(index: usize) -> Result<Device> {
    let message = "this build has no CUDA support; build with the feature 'cuda' or use cpu".into();
    Err(Error::Device { name: format!("'cuda:{index}'"), message })
}

/// The name that [`parse`] takes.
pub fn name(device: &Device) -> String {
    match device.location() {
        candle_core::DeviceLocation::Cpu => "cpu".into(),
        candle_core::DeviceLocation::Cuda { gpu_id } => format!("cuda:{gpu_id}"),
        candle_core::DeviceLocation::Metal { gpu_id } => format!("metal:{gpu_id}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert!(parse("cpu").unwrap().is_cpu());
        assert_eq!(name(&parse("cpu").unwrap()), "cpu");
        for bad in ["gpu", "cuda:x", "cuda:-1", ""] {
            assert!(matches!(parse(bad), Err(Error::Device { .. })), "{bad}");
        }
    }
}
