//! Products of few rows beside the time that reading the weights takes: `cargo run --release -p dlmrs-kernels --example few_rows`.
#![allow(clippy::print_stdout, clippy::expect_used)]

use std::hint::black_box;
use std::time::Instant;

use dlmrs_kernels::{Isa, PackedLinear, Team, WeightType};

fn main() {
    let threads = std::env::args().nth(1).map_or(2, |n| n.parse().expect("a number of threads"));
    let team = Team::with_isa(threads, Isa::detect()).expect("a team");
    println!("{} threads, {}", team.threads(), team.isa().name());
    let far: Vec<u64> = vec![1; 32 << 20];
    for (n, k) in [(6144, 2048), (12288, 4096)] {
        for kind in [
            WeightType::F32,
            WeightType::Bf16,
            WeightType::Bf16Pairs,
            WeightType::Int8,
            WeightType::Int4 { group: 32 },
            WeightType::Int4 { group: 128 },
        ] {
            let copies = (200 << 20) / kind.bytes(n, k) + 1;
            let weights: Vec<PackedLinear> = (0..copies)
                .map(|i| {
                    let mut w = PackedLinear::zeros(kind, n, k);
                    let rows: Vec<f32> =
                        (0..(16 * k) as u32).map(|j| ((j + i as u32).wrapping_mul(2_654_435_761) >> 16) as f32 / 32768.0 - 1.0).collect();
                    (0..n).step_by(16).for_each(|first| w.fill(&Team::alone(), first, &rows));
                    w
                })
                .collect();
            print!("{n}x{k} {kind:?} {} MB:", weights[0].bytes() >> 20);
            for rows in [1, 4, 8, 16, 32, 64, 128, 512] {
                let (x, mut out) = (vec![0.5f32; rows * k], vec![0.0; rows * n]);
                let (mut best, mut floor, mut turn) = (f64::INFINITY, f64::INFINITY, 0);
                for _ in 0..if rows > 64 { 3 } else { 15 } {
                    let start = Instant::now();
                    let part = far.len() / team.threads();
                    team.run(team.threads(), |t| {
                        let sum: u64 = far[t * part..][..part]
                            .chunks_exact(8)
                            .fold([0u64; 8], |mut s, c| {
                                for i in 0..8 {
                                    s[i] ^= c[i];
                                }
                                s
                            })
                            .iter()
                            .sum();
                        black_box(sum);
                    });
                    floor = floor.min(start.elapsed().as_secs_f64() / (far.len() * 8) as f64 * weights[0].bytes() as f64);
                    for _ in 0..3 {
                        turn = (turn + 1) % copies;
                        let start = Instant::now();
                        weights[turn].matmul(&team, &x, rows, None, black_box(&mut out));
                        best = best.min(start.elapsed().as_secs_f64());
                    }
                }
                print!("  {rows}: {:.2} ms {:.2}x", best * 1e3, best / floor);
            }
            println!();
        }
    }
}
