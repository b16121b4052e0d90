//! How fast attention and the row-wise kernels are here (products: `dlmrs bench --kernels`): `cargo run --release -p dlmrs-kernels --example speed [-- threads]`.
//!
//! Times are means of CPU time for one thread, and the shortest by the clock for more.
#![allow(clippy::print_stdout, clippy::expect_used)]

use std::hint::black_box;
use std::time::Instant;

use dlmrs_kernels::{AttentionPass, Isa, Sight, Team, attention, exp_tile, rms_norm, silu_mul, tile_stats, top_two};

fn main() {
    let threads = std::env::args().nth(1).map_or(1, |n| n.parse().expect("a number of threads"));
    let team = Team::with_isa(threads, Isa::detect()).expect("a team");
    println!("{} threads, {}", team.threads(), team.isa().name());
    for (kv_heads, group, d, cached, rows) in [(8, 2, 128, 300, 4), (8, 2, 128, 300, 32), (8, 4, 128, 0, 1024), (32, 1, 128, 0, 1024)] {
        attend(&team, kv_heads, group, d, cached, rows);
    }
    rest(&team);
}

fn numbers(len: usize) -> Vec<f32> {
    (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 16) as f32 / 32768.0 - 1.0).collect()
}

/// Seconds of one call: the mean of this thread's CPU where it works alone (the kernel counts that in ticks), or else the shortest by
/// the clock.
fn time(team: &Team, mut f: impl FnMut()) -> f64 {
    let cpu = || {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        text.split(' ').next()?.parse::<f64>().ok().map(|nanoseconds| nanoseconds * 1e-9)
    };
    f();
    let (began, cpu_began) = (Instant::now(), cpu().filter(|_| team.threads() == 1));
    let (mut shortest, mut tries) = (f64::INFINITY, 0);
    while tries < 4 || began.elapsed().as_secs_f64() < 0.8 {
        let start = Instant::now();
        f();
        shortest = shortest.min(start.elapsed().as_secs_f64());
        tries += 1;
    }
    match (cpu_began, cpu()) {
        (Some(began), Some(ended)) => (ended - began) / f64::from(tries),
        _ => shortest,
    }
}

fn attend(team: &Team, kv_heads: usize, group: usize, d: usize, cached: usize, rows: usize) {
    let (heads, capacity, keys) = (kv_heads * group, cached + 64, cached + rows);
    let (q, k) = (numbers(rows * heads * d), numbers(rows * kv_heads * d));
    let cache = numbers(kv_heads * capacity * d);
    let sight = Sight { class_of_row: vec![0; rows], classes: vec![(0..keys as u32).collect()] };
    let mut out = vec![0.0; q.len()];
    let (cache_k, cache_v) = (&cache, &cache);
    let (head_dim, scale, sight) = (d, 0.1, &sight);
    let pass = AttentionPass { q: &q, cache_k, cache_v, capacity, cached, k: &k, v: &k, rows, heads, kv_heads, head_dim, scale, sight };
    let seconds = time(team, || attention(team, &mut [(pass, black_box(&mut out))]));
    let flops = 4.0 * (rows * heads * d * keys) as f64 / seconds / 1e9;
    println!("attention, H {heads} G {kv_heads} D {d} T {keys} R {rows}: {:8.3} ms  {flops:6.1} Gflop/s", seconds * 1e3);
}

fn rest(team: &Team) {
    let mut x = numbers(32 * 6144);
    let y = x.clone();
    let report =
        |name: &str, seconds: f64| println!("{name}: {:.1} us, {:.2} ns an element", seconds * 1e6, seconds * 1e9 / y.len() as f64);
    report("rms_norm 96 x 2048", time(team, || rms_norm(team, &y, &y[..2048], 1e-6, black_box(&mut x))));
    report("silu_mul 32 x 6144", time(team, || silu_mul(team, black_box(&mut x), &y)));
    report("tile_stats", time(team, || _ = black_box(tile_stats(team.isa(), black_box(&y)))));
    report("exp_tile", time(team, || exp_tile(team.isa(), black_box(&mut x), 1.0)));
    report("top_two", time(team, || _ = black_box(top_two(black_box(&y)))));
    report("an empty task for each thread (not by element)", time(team, || team.run(team.threads(), |_| ())));
}
