//! Weights put into panels, and taken out again.

use super::format::{from_bf16, pair};
use super::groups::{Groups, IN_WORD};
use super::{PackedLinear, QuantisedRows, WeightType, quantise_rows};
use crate::Team;
use crate::disjoint::Disjoint;
use crate::simd::{LANES, Words, high_half, low_half};

/// See [`PackedLinear::fill`]. The threads share the panels.
pub(super) fn fill(packed: &mut PackedLinear, team: &Team, first: usize, rows: &[f32]) {
    let (kind, k, lines) = (packed.kind, packed.k, packed.kind.lines(packed.k));
    if k == 0 {
        return;
    }
    let panels = Disjoint::new(&mut packed.panels[first / LANES * lines..]);
    team.run(rows.len().div_ceil(LANES * k), |index| {
        let rows = &rows[index * LANES * k..((index + 1) * LANES * k).min(rows.len())];
        // SAFETY: each task has a panel of its own, and `fill` has compared the number of rows with the weight's.
        let panel = unsafe { panels.part(index * lines..(index + 1) * lines) };
        match kind {
            WeightType::F32 => put_f32(panel, rows, k),
            WeightType::Bf16 | WeightType::Bf16Pairs => put_bf16(panel, rows, k),
            WeightType::Int8 | WeightType::Int4 { .. } => put_quantised(panel, &quantise_rows(kind, rows, k), 0..rows.len() / k),
        }
    });
}

/// See [`PackedLinear::fill_quantised`].
pub(super) fn fill_quantised(packed: &mut PackedLinear, first: usize, rows: &QuantisedRows) {
    assert_eq!((rows.kind, rows.k), (packed.kind, packed.k), "the type and K of rows");
    let lines = packed.kind.lines(packed.k);
    for from in (0..rows.count()).step_by(LANES) {
        let panel = &mut packed.panels[(first + from) / LANES * lines..][..lines];
        put_quantised(panel, rows, from..(from + LANES).min(rows.count()));
    }
}

fn put_f32(panel: &mut [Words], rows: &[f32], k: usize) {
    for (lane, row) in rows.chunks_exact(k).enumerate() {
        for (line, value) in panel.iter_mut().zip(row) {
            line.0[lane] = value.to_bits();
        }
    }
}

fn put_bf16(panel: &mut [Words], rows: &[f32], k: usize) {
    for (lane, row) in rows.chunks_exact(k).enumerate() {
        for (line, values) in panel.iter_mut().zip(row.chunks(2)) {
            line.0[lane] = pair(values[0], values.get(1).copied().unwrap_or(0.0));
        }
    }
}

fn put_quantised(panel: &mut [Words], rows: &QuantisedRows, outputs: std::ops::Range<usize>) {
    let groups = Groups::of(rows.kind, rows.k);
    let count = groups.count();
    for (lane, output) in outputs.enumerate() {
        let values = &rows.values[output * rows.k..][..rows.k];
        for (g, scale) in rows.scales[output * count..][..count].iter().enumerate() {
            let from = groups.line(g);
            let word = &mut panel[scale_line(groups, g)].0[lane];
            *word = if g % 2 == 0 { *word & 0xffff_0000 | u32::from(*scale) } else { *word & 0xffff | u32::from(*scale) << 16 };
            let lines = &mut panel[from..from + groups.lines_of(g)];
            for (line, values) in lines.iter_mut().zip(values[groups.inputs(g)].chunks(groups.in_line)) {
                line.0[lane] = if groups.in_line == IN_WORD { whole_bytes(values) } else { half_bytes(values) };
            }
        }
    }
}

/// The line with the scale of group `g`: in the lower halves those of even groups.
fn scale_line(groups: Groups, g: usize) -> usize {
    groups.line(g - g % 2) - 1
}

fn whole_bytes(values: &[i8]) -> u32 {
    let byte = |i: usize| values.get(i).map_or(0, |value| *value as u8);
    u32::from_le_bytes([byte(0), byte(1), byte(2), byte(3)])
}

/// The first four in the lower halves of the bytes, with 8 added; x is zero where there is no value, so anything may stand there.
fn half_bytes(values: &[i8]) -> u32 {
    let half = |i: usize| values.get(i).map_or(8, |value| (value + 8) as u8 & 15);
    u32::from_le_bytes(std::array::from_fn(|i| half(i) | half(i + 4) << 4))
}

/// See [`PackedLinear::output`].
pub(super) fn output(packed: &PackedLinear, index: usize, weights: &mut [f32]) {
    let (panel, lane) = (packed.panel(index / LANES), index % LANES);
    match packed.kind {
        WeightType::F32 => weights.iter_mut().zip(panel).for_each(|(weight, line)| *weight = f32::from_bits(line.0[lane])),
        WeightType::Bf16 | WeightType::Bf16Pairs => {
            for (pair, line) in weights.chunks_mut(2).zip(panel) {
                let halves = [low_half(line.0[lane]), high_half(line.0[lane])];
                pair.iter_mut().zip(halves).for_each(|(weight, half)| *weight = half);
            }
        }
        WeightType::Int8 | WeightType::Int4 { .. } => quantised_output(Groups::of(packed.kind, packed.k), panel, lane, weights),
    }
}

fn quantised_output(groups: Groups, panel: &[Words], lane: usize, weights: &mut [f32]) {
    for g in 0..groups.count() {
        let scales = panel[scale_line(groups, g)].0[lane];
        let scale = from_bf16(if g % 2 == 0 { scales as u16 } else { (scales >> 16) as u16 });
        let lines = &panel[groups.line(g)..];
        for (weights, line) in weights[groups.inputs(g)].chunks_mut(groups.in_line).zip(lines) {
            let bytes = line.0[lane].to_le_bytes();
            for (i, weight) in weights.iter_mut().enumerate() {
                let value = match groups.in_line {
                    IN_WORD => bytes[i] as i8,
                    _ => (bytes[i % IN_WORD] >> (i / IN_WORD * 4) & 15) as i8 - 8,
                };
                *weight = f32::from(value) * scale;
            }
        }
    }
}
