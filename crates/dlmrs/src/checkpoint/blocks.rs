//! The numbers of GGUF's quantised blocks, and the order in which its rows of heads stand.
//!
//! Layouts are those of ggml; all numbers are little-endian. A scale is an f16; it is multiplied in f32, in ggml's order, so that the
//! numbers are those that its own dequantisation gives.

use half::f16;

fn half(bytes: [u8; 2]) -> f32 {
    f16::from_le_bytes(bytes).to_f32()
}

/// 34 bytes: a scale, then 32 signed bytes.
pub(super) fn q8_0(values: &mut Vec<f32>, bytes: &[u8]) {
    for [a, b, digits @ ..] in bytes.as_chunks::<34>().0 {
        let scale = half([*a, *b]);
        values.extend(digits.iter().map(|digit| f32::from(digit.cast_signed()) * scale));
    }
}

/// 18 bytes: a scale, then 16 bytes whose lower halves are the first 16 numbers and whose upper halves the others, each 8 too high.
pub(super) fn q4_0(values: &mut Vec<f32>, bytes: &[u8]) {
    for [a, b, digits @ ..] in bytes.as_chunks::<18>().0 {
        let scale = half([*a, *b]);
        let number = |digit: u8| (f32::from(digit) - 8.0) * scale;
        values.extend(digits.iter().map(|byte| number(byte & 15)));
        values.extend(digits.iter().map(|byte| number(byte >> 4)));
    }
}

/// 144 bytes: a scale of scales, a scale of offsets, 12 bytes with a scale and an offset of 6 bits for each of 8 groups, and 128 bytes of
/// digits: of each 32 bytes the lower halves are one group of 32 and the upper halves the next.
pub(super) fn q4_k(values: &mut Vec<f32>, bytes: &[u8]) {
    for [a, b, c, d, rest @ ..] in bytes.as_chunks::<144>().0 {
        let (scale, offset) = (half([*a, *b]), half([*c, *d]));
        let Some((packed, digits)) = rest.split_first_chunk::<12>() else { continue };
        for (pair, bytes) in digits.as_chunks::<32>().0.iter().enumerate() {
            for (group, shift) in [(2 * pair, 0), (2 * pair + 1, 4)] {
                let (factor, less) = six_bits(packed, group);
                let (factor, less) = (scale * f32::from(factor), offset * f32::from(less));
                values.extend(bytes.iter().map(|byte| factor * f32::from((byte >> shift) & 15) - less));
            }
        }
    }
}

/// Scale and offset of a group: those of the first four are the lower six bits of bytes 0 to 7; of the last four, bytes 8 to 11 have the
/// lower four bits, and what the first four leave free has the upper two.
fn six_bits(packed: &[u8; 12], group: usize) -> (u8, u8) {
    match group {
        0..4 => (packed[group] & 63, packed[group + 4] & 63),
        _ => {
            let (low, high) = (packed[group + 4], [packed[group - 4] >> 6, packed[group] >> 6]);
            ((low & 15) | (high[0] << 4), (low >> 4) | (high[1] << 4))
        }
    }
}

/// 210 bytes: 128 of lower halves, 64 of upper two bits, 16 signed scales of 16 numbers each, and a scale of scales. Digits are 32 too high.
pub(super) fn q6_k(values: &mut Vec<f32>, bytes: &[u8]) {
    for block in bytes.as_chunks::<210>().0 {
        let Some((low, rest)) = block.split_first_chunk::<128>() else { continue };
        let Some((high, rest)) = rest.split_first_chunk::<64>() else { continue };
        let Some((scales, [a, b])) = rest.split_first_chunk::<16>() else { continue };
        let scale = half([*a, *b]);
        // Each half of the block: four runs of 32, of which the first two share 64 bytes with the last two, and all share 32.
        for (part, (low, high)) in low.as_chunks::<64>().0.iter().zip(high.as_chunks::<32>().0).enumerate() {
            for run in 0..4 {
                let (nibbles, uppers) = (low[32 * (run % 2)..][..32].chunks_exact(16), high.chunks_exact(16));
                for (half_run, (nibbles, uppers)) in nibbles.zip(uppers).enumerate() {
                    let factor = scale * f32::from(scales[8 * part + 2 * run + half_run].cast_signed());
                    let digit = |nibble: u8, upper: u8| (nibble >> (4 * (run / 2)) & 15) | (upper >> (2 * run) & 3) << 4;
                    values.extend(nibbles.iter().zip(uppers).map(|(n, u)| factor * (f32::from(digit(*n, *u)) - 32.0)));
                }
            }
        }
    }
}

/// Where a row of a head of `head` rows stands in a file that keeps rows i and i + head / 2 side by side.
pub(super) fn place_in_pairs(row: usize, head: usize) -> usize {
    let (before, within, half) = (row / head * head, row % head, head / 2);
    before + 2 * (within % half) + within / half
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_of_a_head() {
        let places: Vec<_> = (0..12).map(|row| place_in_pairs(row, 6)).collect();
        assert_eq!(places, [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]);
    }
}
