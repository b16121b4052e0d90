//! How much memory weights take, by the config or the headers of the files.

use candle_core::DType;

use super::names;
use super::{ExpertLayout, ModelConfig, Names, StoredType, Weights};
use crate::arithmetic::{self, Precision, Role};

/// Candle's name of a stored type of plain numbers; f32 stands for the rest, which is widened to it.
pub(crate) fn number_type(stored: Option<StoredType>) -> DType {
    match stored {
        Some(StoredType::Bf16) => DType::BF16,
        Some(StoredType::F16) => DType::F16,
        _ => DType::F32,
    }
}

/// The memory that the weights take on a CPU in `precision`, in bytes: every tensor as our kernels hold it. Without files the config
/// says what there would be, in f32.
pub(crate) fn weight_bytes(config: &ModelConfig, weights: Option<&Weights>, precision: Precision) -> u64 {
    let names = weights.map_or_else(|| Names::of(config.family), |weights| *weights.names());
    let tied = weights.map_or(config.tied, |weights| !weights.has_head());
    let bytes = |name: &str, shape: &[usize], stored: StoredType| match shape {
        [n, k] => arithmetic::weight_bytes(precision, role(name, &names, tied), stored, *n, *k),
        // The experts of a layer in one tensor [E, N, K].
        [e, n, k] => *e as u64 * arithmetic::weight_bytes(precision, Role::Layer, stored, *n, *k),
        vector => 4 * vector.iter().product::<usize>() as u64,
    };
    match weights {
        Some(weights) => weights.tensors().map(|(name, shape, stored)| bytes(name, shape, stored)).sum(),
        None => names::expected(config, &names, ExpertLayout::default())
            .filter(|(name, _)| !(tied && name == names.head))
            .map(|(name, shape)| bytes(&name, &shape, StoredType::F32))
            .sum(),
    }
}

pub(super) fn role(name: &str, names: &Names, tied: bool) -> Role {
    match name {
        _ if name == names.head || tied && name == names.embedding => Role::Head,
        _ if name == names.embedding => Role::Embedding,
        _ => Role::Layer,
    }
}
