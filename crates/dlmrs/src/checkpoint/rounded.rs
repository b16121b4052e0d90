//! Weights that were rounded to integers and written so: what such tensors are called, and how their rows stand in the file.
//!
//! A rounded matrix `x.weight [N, K]` is stored as `x.weight.int8`, `x.weight.int4` or `x.weight.int4-128`, unsigned bytes
//! `[N, bytes of a row]`. A row is its scales, one bf16 for each group of inputs (128, 32, or 128 of them; the last group may be short), and
//! then its values: a signed byte each, or two to a byte, 8 added, the first one in the lower half.

use dlmrs_kernels::{QuantisedRows, WeightType};
use half::bf16;

use super::StoredType;

/// Every type that is written so, with the ending of a tensor's name.
const ENDINGS: [(&str, StoredType); 3] = [(".int8", StoredType::Int8), (".int4", StoredType::Int4), (".int4-128", StoredType::Int4Wide)];

impl StoredType {
    /// How our kernels call it; None for all others.
    pub(crate) fn rounded(self) -> Option<WeightType> {
        match self {
            Self::Int8 => Some(WeightType::Int8),
            Self::Int4 => Some(WeightType::Int4 { group: 32 }),
            Self::Int4Wide => Some(WeightType::Int4 { group: 128 }),
            _ => None,
        }
    }
}

/// The matrix that a tensor's name means, and how it is rounded; None for a name without such an ending.
pub(super) fn parse(name: &str) -> Option<(&str, StoredType)> {
    ENDINGS.into_iter().find_map(|(ending, stored)| name.strip_suffix(ending).map(|base| (base, stored)))
}

/// The name of a rounded matrix.
pub(super) fn name(base: &str, kind: WeightType) -> String {
    let ending = ENDINGS.into_iter().find(|(_, stored)| stored.rounded() == Some(kind)).map_or("", |(ending, _)| ending);
    format!("{base}{ending}")
}

/// Bytes of a row's scales, and of its values.
fn parts(kind: WeightType, k: usize) -> (usize, usize) {
    let values = if matches!(kind, WeightType::Int4 { .. }) { k.div_ceil(2) } else { k };
    (2 * kind.group().map_or(0, |group| k.div_ceil(group)), values)
}

/// Bytes of a row of K weights.
pub(super) fn row_bytes(kind: WeightType, k: usize) -> usize {
    let (scales, values) = parts(kind, k);
    scales + values
}

/// Appends rows as they are stored.
pub(super) fn write(rows: &QuantisedRows, bytes: &mut Vec<u8>) {
    let groups = rows.scales.len() / rows.count().max(1);
    for (values, scales) in rows.values.chunks(rows.k.max(1)).zip(rows.scales.chunks(groups.max(1))) {
        bytes.extend(scales.iter().flat_map(|scale| scale.to_le_bytes()));
        match rows.kind {
            WeightType::Int4 { .. } => {
                let half = |value: Option<&i8>| value.map_or(8, |value| (value + 8).cast_unsigned() & 15);
                bytes.extend(values.chunks(2).map(|pair| half(pair.first()) | half(pair.get(1)) << 4));
            }
            _ => bytes.extend(values.iter().map(|value| value.cast_unsigned())),
        }
    }
}

/// Reads whole rows; the error is the end of a sentence about them.
pub(super) fn read(kind: WeightType, k: usize, bytes: &[u8]) -> Result<QuantisedRows, &'static str> {
    let (of_scales, row) = (parts(kind, k).0, row_bytes(kind, k));
    let mut rows = QuantisedRows { kind, k, values: Vec::new(), scales: Vec::new() };
    for row in bytes.chunks_exact(row.max(1)) {
        let (scales, values) = row.split_at(of_scales);
        rows.scales.extend(scales.as_chunks::<2>().0.iter().map(|pair| u16::from_le_bytes(*pair)));
        match kind {
            WeightType::Int4 { .. } => {
                let halves = values.iter().flat_map(|byte| [byte & 15, byte >> 4]);
                rows.values.extend(halves.take(k).map(|half| half.cast_signed() - 8));
            }
            _ => rows.values.extend(values.iter().map(|byte| byte.cast_signed())),
        }
    }
    match () {
        () if rows.scales.iter().any(|scale| !bf16::from_bits(*scale).is_finite()) => Err("has a scale that is not a number"),
        () if kind == WeightType::Int8 && rows.values.contains(&i8::MIN) => Err("holds the byte -128, which no rounding gives"),
        () => Ok(rows),
    }
}

#[cfg(test)]
mod tests {
    use dlmrs_kernels::quantise_rows;

    use super::*;

    const KINDS: [WeightType; 3] = [WeightType::Int8, WeightType::Int4 { group: 32 }, WeightType::Int4 { group: 128 }];

    #[test]
    fn rows_are_read_as_they_were_written() {
        for kind in KINDS {
            for k in [1, 2, 31, 128, 129, 300] {
                let weights: Vec<f32> = (0..3 * k).map(|i| ((i * 7919) % 200) as f32 / 100.0 - 1.0).collect();
                let rows = quantise_rows(kind, &weights, k);
                let mut bytes = Vec::new();
                write(&rows, &mut bytes);
                assert_eq!(bytes.len(), 3 * row_bytes(kind, k));
                assert_eq!(read(kind, k, &bytes), Ok(rows), "{kind:?}, K {k}");
            }
        }
    }

    #[test]
    fn names_tell_the_type() {
        for kind in KINDS {
            let (base, stored) = parse(&name("a.weight", kind)).map(|(base, stored)| (base.to_owned(), stored)).unwrap_or_default();
            assert_eq!((base.as_str(), stored.rounded()), ("a.weight", Some(kind)));
        }
        assert_eq!(parse("a.weight"), None);
    }

    #[test]
    fn what_no_rounding_gives_is_refused() {
        assert_eq!(read(WeightType::Int8, 1, &[0x80, 0x3f, 0x80]), Err("holds the byte -128, which no rounding gives"));
        assert_eq!(read(WeightType::Int8, 1, &[0x80, 0x7f, 1]), Err("has a scale that is not a number"));
    }
}
