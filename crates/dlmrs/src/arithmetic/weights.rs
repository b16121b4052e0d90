//! How weights are held: what a user asks for, and what that means for one matrix.

use dlmrs_kernels::{QuantisedRows, WeightType};

use crate::checkpoint::StoredType;
use crate::error::{Error, Result};

/// How the weights are held in memory, and on an accelerator the type of the activations too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// On a CPU as a weight is stored, if that is bf16, which changes no bit of a result, or rounded by `dlmrs quantize`, and else f32; on an
    /// accelerator the type that the checkpoint is stored in.
    #[default]
    Auto,
    /// 32-bit floats.
    F32,
    /// bfloat16. On a CPU weights and the inputs of products are rounded to it, sums and everything else stay f32.
    Bf16,
    /// 16-bit floats (accelerators only).
    F16,
    /// A byte a weight and a scale for every 128 (on plain Candle every 32); the head too.
    Int8,
    /// Half a byte a weight and a scale for every 32; the head is held as [`Precision::Int8`].
    Int4,
    /// As [`Precision::Int4`], with a scale for every 128 (our kernels only).
    Int4Wide,
}

impl Precision {
    /// The name that is parsed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
            Self::Int8 => "int8",
            Self::Int4 => "int4",
            Self::Int4Wide => "int4-128",
        }
    }

    /// Whether weights are rounded to integers.
    pub fn is_quantised(self) -> bool {
        matches!(self, Self::Int8 | Self::Int4 | Self::Int4Wide)
    }
}

impl std::str::FromStr for Precision {
    type Err = Error;
    fn from_str(s: &str) -> Result<Self> {
        match s {
            "auto" => Ok(Self::Auto),
            "f32" | "float32" => Ok(Self::F32),
            "bf16" | "bfloat16" => Ok(Self::Bf16),
            "f16" | "float16" => Ok(Self::F16),
            "int8" => Ok(Self::Int8),
            "int4" => Ok(Self::Int4),
            "int4-128" => Ok(Self::Int4Wide),
            other => Err(Error::input("dtype", format!("'{other}' is unknown; use auto, f32, bf16, f16, int8, int4 or int4-128"))),
        }
    }
}

/// What a matrix is for: not all of them bear the same rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A product of a layer.
    Layer,
    /// The output head, and the embedding where the two are one.
    Head,
    /// The embedding, whose rows are looked up.
    Embedding,
    /// The router of a mixture: f32, whatever the rest is in.
    Router,
}

/// How our kernels hold a matrix that is stored as `stored`.
pub(crate) fn weight_type(precision: Precision, role: Role, stored: StoredType) -> WeightType {
    match (precision, role) {
        (_, Role::Router) | (Precision::F32 | Precision::F16, _) => WeightType::F32,
        (Precision::Auto, _) => match stored {
            StoredType::Bf16 => WeightType::Bf16,
            other => other.rounded().unwrap_or(WeightType::F32),
        },
        // Looked up, not multiplied.
        (_, Role::Embedding) => WeightType::Bf16,
        (Precision::Bf16, _) => WeightType::Bf16Pairs,
        (Precision::Int8, _) | (Precision::Int4 | Precision::Int4Wide, Role::Head) => WeightType::Int8,
        (Precision::Int4, Role::Layer) => WeightType::Int4 { group: 32 },
        (Precision::Int4Wide, Role::Layer) => WeightType::Int4 { group: 128 },
    }
}

/// The memory that a matrix [N, K] takes in our kernels.
pub(crate) fn weight_bytes(precision: Precision, role: Role, stored: StoredType, n: usize, k: usize) -> u64 {
    let kind = weight_type(precision, role, stored);
    match role {
        Role::Embedding => (n * k * if kind == WeightType::F32 { 4 } else { 2 }) as u64,
        _ => kind.bytes(n, k) as u64,
    }
}

/// A stored matrix [N, K], read some rows at a time, so that it is never in memory as f32 as a whole.
pub(crate) trait Matrix {
    /// N, the outputs.
    fn n(&self) -> usize;
    /// K, the inputs.
    fn k(&self) -> usize;
    /// The type it is stored in.
    fn stored(&self) -> StoredType;
    /// Rows `range`, [range, K], in f32.
    fn rows(&self, range: std::ops::Range<usize>) -> Result<Vec<f32>>;
    /// Rows `range` as they are stored, if they are stored rounded.
    fn rounded(&self, range: std::ops::Range<usize>) -> Result<Option<QuantisedRows>>;
}

/// Rows that are read at once: some megabytes of f32, a multiple of 16.
pub(crate) fn rows_at_once(k: usize) -> usize {
    ((1 << 20) / k.max(1)).next_multiple_of(16)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_back() {
        use Precision::{Auto, Bf16, F16, F32, Int4, Int4Wide, Int8};
        for precision in [Auto, F32, Bf16, F16, Int8, Int4, Int4Wide] {
            assert_eq!(precision.name().parse::<Precision>().unwrap(), precision);
        }
        assert!("int2".parse::<Precision>().unwrap_err().to_string().contains("int4-128"));
    }

    #[test]
    fn what_a_matrix_is_held_in() {
        let int4 = Precision::Int4Wide;
        assert_eq!(weight_type(Precision::Auto, Role::Layer, StoredType::Bf16), WeightType::Bf16);
        assert_eq!(weight_type(Precision::Auto, Role::Layer, StoredType::F16), WeightType::F32);
        assert_eq!(weight_type(Precision::Auto, Role::Head, StoredType::Int8), WeightType::Int8);
        assert_eq!(weight_type(Precision::Auto, Role::Layer, StoredType::Int4Wide), WeightType::Int4 { group: 128 });
        assert_eq!(weight_type(Precision::Bf16, Role::Head, StoredType::F32), WeightType::Bf16Pairs);
        assert_eq!(weight_type(int4, Role::Layer, StoredType::F32), WeightType::Int4 { group: 128 });
        assert_eq!(weight_type(int4, Role::Head, StoredType::F32), WeightType::Int8);
        assert_eq!(weight_type(int4, Role::Router, StoredType::Bf16), WeightType::F32);
        assert_eq!(weight_bytes(Precision::Int8, Role::Embedding, StoredType::F32, 10, 7), 140);
    }
}
