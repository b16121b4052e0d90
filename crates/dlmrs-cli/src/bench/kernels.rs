//! `dlmrs bench --kernels`: products of few rows by level of instructions and type of weights, beside the time that reading the weights
//! alone takes.

use std::hint::black_box;
use std::time::Instant;

use dlmrs_kernels::{Isa, PackedLinear, Team, WeightType};
use serde_json::{Value, json};

use super::statistics::median;
use crate::args::BenchArgs;
use crate::console::Console;
use crate::failure::Failure;

/// Far beyond any cache that is shared.
const FAR: usize = 256 << 20;
/// Gate and up of models of 1.7 and 8 billion weights: [N, K].
const SHAPES: [(usize, usize); 2] = [(6144, 2048), (12288, 4096)];
const ROWS: [usize; 6] = [1, 4, 8, 16, 32, 64];

/// One cell of the table.
struct Cell {
    shape: (usize, usize),
    kind: WeightType,
    isa: Isa,
    rows: usize,
    /// Milliseconds of one product, each turn's.
    product: Vec<f64>,
    /// Milliseconds of reading as many bytes as the weight has, in the same turns.
    floor: Vec<f64>,
}

impl Cell {
    /// The median over turns of product by floor.
    fn over_floor(&self) -> f64 {
        let ratios: Vec<f64> = self.product.iter().zip(&self.floor).map(|(product, floor)| product / floor).collect();
        median(&ratios).unwrap_or_default()
    }

    fn ms(&self) -> f64 {
        median(&self.product).unwrap_or_default()
    }
}

/// Measures and prints. After Ctrl-C these are the cells that were complete.
pub(super) fn run(args: &BenchArgs, console: &mut Console<'_>, interrupt: &dyn Fn() -> bool) -> Result<(), Failure> {
    let threads = args.load.options()?.threads;
    let teams = Isa::available().into_iter().map(|isa| team(threads, isa)).collect::<Result<Vec<_>, _>>()?;
    let (shapes, rows, turns): (&[_], &[_], _) = if args.quick { (&[(256, 512)], &[1, 4], 2) } else { (&SHAPES, &ROWS, args.rounds() * 3) };
    let far = vec![1u64; if args.quick { FAR / 64 } else { FAR } / size_of::<u64>()];
    let mut cells = Vec::new();
    let mut ended = Ok(());
    'all: for &shape in shapes {
        for kind in kinds() {
            let weights = copies(shape, kind, far.len() * size_of::<u64>());
            for &rows in rows {
                for team in &teams {
                    if interrupt() {
                        ended = Err(Failure::Interrupted);
                        break 'all;
                    }
                    cells.push(measure(team, &weights, shape, rows, turns, &far));
                }
            }
        }
    }
    let text = if args.json { format!("{:#}", as_json(&cells, &teams)) } else { table(&cells, &teams, rows) };
    console.print(&format!("{text}\n"))?;
    ended
}

fn team(threads: Option<usize>, isa: Isa) -> Result<Team, Failure> {
    let threads = threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    Team::with_isa(threads, isa).map_err(|message| dlmrs::Error::input("threads", message.trim_start_matches("threads ")).into())
}

fn kinds() -> [WeightType; 6] {
    let int4 = |group| WeightType::Int4 { group };
    [WeightType::F32, WeightType::Bf16, WeightType::Bf16Pairs, WeightType::Int8, int4(32), int4(128)]
}

/// As on the command line; the second of bf16 is what `--dtype bf16` multiplies with.
fn name(kind: WeightType) -> &'static str {
    match kind {
        WeightType::F32 => "f32",
        WeightType::Bf16 => "bf16 by f32",
        WeightType::Bf16Pairs => "bf16 by bf16",
        WeightType::Int8 => "int8",
        WeightType::Int4 { group: 128 } => "int4-128",
        WeightType::Int4 { .. } => "int4",
    }
}

/// So many of a weight that each comes from memory when its turn comes again.
fn copies((n, k): (usize, usize), kind: WeightType, far: usize) -> Vec<PackedLinear> {
    let numbers = |seed: u32| (0..(16 * k) as u32).map(move |i| ((i + seed).wrapping_mul(2_654_435_761) >> 16) as f32 / 32768.0 - 1.0);
    let one = |seed| {
        let (mut weight, rows) = (PackedLinear::zeros(kind, n, k), numbers(seed).collect::<Vec<_>>());
        (0..n).step_by(16).for_each(|first| weight.fill(&Team::alone(), first, &rows[..(n - first).min(16) * k]));
        weight
    };
    (0..(far / kind.bytes(n, k).max(1)) as u32 + 1).map(one).collect()
}

fn measure(team: &Team, weights: &[PackedLinear], shape: (usize, usize), rows: usize, turns: usize, far: &[u64]) -> Cell {
    let (n, k) = shape;
    let (x, mut out) = (vec![0.5; rows * k], vec![0.0; rows * n]);
    let (mut product, mut floor) = (Vec::new(), Vec::new());
    let kind = weights.first().map_or(WeightType::F32, PackedLinear::kind);
    for (turn, weight) in weights.iter().cycle().take(turns + 1).enumerate() {
        let started = Instant::now();
        read(team, far);
        let reading = started.elapsed().as_secs_f64() * kind.bytes(n, k) as f64 / size_of_val(far) as f64;
        let started = Instant::now();
        weight.matmul(team, &x, rows, None, black_box(&mut out));
        let multiplying = started.elapsed().as_secs_f64();
        // The first turn is the warm-up.
        if turn > 0 {
            floor.push(reading * 1e3);
            product.push(multiplying * 1e3);
        }
    }
    Cell { shape, kind, isa: team.isa(), rows, product, floor }
}

/// Reads all of it once, the threads sharing it.
fn read(team: &Team, far: &[u64]) {
    let part = far.len().div_ceil(team.threads()).max(1);
    team.run(team.threads(), |thread| {
        let own = far.chunks(part).nth(thread).unwrap_or_default();
        let mut sums = [0u64; 16];
        for chunk in own.chunks_exact(16) {
            sums.iter_mut().zip(chunk).for_each(|(sum, value)| *sum ^= value);
        }
        black_box(sums);
    });
}

fn table(cells: &[Cell], teams: &[Team], rows: &[usize]) -> String {
    let threads = teams.first().map_or(0, Team::threads);
    let mut lines = vec![
        format!("products [R, K] by [N, K], {threads} threads; ms, and how many times as long as reading the weight alone"),
        format!(
            "{:>13} {:>13} {:>11} {}",
            "N x K",
            "weights",
            "level",
            rows.iter().map(|rows| format!("{:>17}", format!("R {rows}"))).collect::<String>()
        ),
    ];
    for line in cells.iter().filter(|cell| cells.iter().find(|other| same_line(cell, other)).is_some_and(|first| first.rows == cell.rows)) {
        let of_line: String = cells
            .iter()
            .filter(|cell| same_line(cell, line))
            .map(|cell| format!("{:>9.3} {:>6.2}x", cell.ms(), cell.over_floor()))
            .collect();
        let shape = format!("{} x {}", line.shape.0, line.shape.1);
        lines.push(format!("{shape:>13} {:>13} {:>11} {of_line}", name(line.kind), line.isa.name()));
    }
    lines.join("\n")
}

fn same_line(a: &Cell, b: &Cell) -> bool {
    a.shape == b.shape && a.kind == b.kind && a.isa == b.isa
}

fn as_json(cells: &[Cell], teams: &[Team]) -> Value {
    let cell = |cell: &Cell| {
        json!({
            "n": cell.shape.0, "k": cell.shape.1, "weights": name(cell.kind), "bytes": cell.kind.bytes(cell.shape.0, cell.shape.1),
            "isa": cell.isa.name(), "rows": cell.rows, "ms": cell.ms(), "over_floor": cell.over_floor(),
            "turns_ms": cell.product, "floor_ms": cell.floor,
        })
    };
    json!({
        "threads": teams.first().map_or(0, Team::threads),
        "levels": teams.iter().map(|team| team.isa().name()).collect::<Vec<_>>(),
        "cells": cells.iter().map(cell).collect::<Vec<_>>(),
    })
}
