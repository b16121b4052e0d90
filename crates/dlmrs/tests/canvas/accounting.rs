//! Rows and passes by kind, against the formulas of the cost model: P tokens of prompt, L slots in blocks of B, block b begins at
//! s = P + b B and has n_b kept masks behind it.
//!
//! | | first pass of a block | those that follow |
//! |---|---|---|
//! | no cache | s + B + n_b | s + B + n_b |
//! | prefix | s + B + n_b | B + n_b |
//! | dual | s + B + n_b | B |

use dlmrs::decode::{CacheMode, Canvas, PassKind, Refresh, Suffix, WindowTail};
use dlmrs::engine::Trace;

use crate::common::*;

/// Rows by (refresh, commit, denoise) and passes by (refresh, denoise).
type Cost = ((usize, usize, usize), (usize, usize));

/// The formulas, for the passes that each block took.
fn predicted(p: usize, l: usize, b: usize, cache: CacheMode, refresh: Refresh, kept: &[Vec<u32>], passes: &[usize]) -> Cost {
    let ((mut refreshed, mut committed, mut denoised), mut counted) = ((0, 0, 0), (0, 0));
    for (i, (kept, &passes)) in kept.iter().zip(passes).enumerate() {
        let (n, length) = (kept.len(), b.min(l - i * b));
        let whole = p + i * b + length + n;
        let next = match cache {
            CacheMode::None => whole,
            CacheMode::Prefix => length + n,
            CacheMode::Dual => length,
        };
        let at_start = matches!(refresh, Refresh::Blocks(blocks) if i % blocks == 0);
        match cache {
            CacheMode::None => denoised += passes * whole,
            _ if refresh == Refresh::Step => refreshed += passes * whole,
            _ if at_start => (refreshed, denoised) = (refreshed + whole, denoised + (passes - 1) * next),
            _ => (committed, denoised) = (committed + b, denoised + length + n + (passes - 1) * next),
        }
        let fresh = match cache {
            CacheMode::None => 0,
            _ if refresh == Refresh::Step => passes,
            _ => usize::from(at_start),
        };
        counted = (counted.0 + fresh, counted.1 + passes - fresh);
    }
    ((refreshed, committed, denoised), counted)
}

/// Passes of each block, from the trace: a block takes as many as it has different ones, since each reveals something.
fn passes_by_block(trace: &Trace, p: usize, l: usize, b: usize) -> Vec<usize> {
    let of_block = |from: usize| {
        let mut passes: Vec<_> =
            trace.slots.iter().filter(|slot| (from..from + b).contains(&slot.position)).map(|slot| slot.pass).collect();
        passes.sort_unstable();
        passes.dedup();
        passes.len()
    };
    (p..p + l).step_by(b).map(of_block).collect()
}

#[test]
fn rows_and_passes_are_those_of_the_cost_model() {
    let policies = [Suffix::Off, half(), Suffix::DropAll, Suffix::WindowTail(WindowTail { window: Some(5), tail: 1 })];
    for family in FAMILIES {
        let llm = golden(family);
        for (p, l, b) in [(9, 40, 8), (21, 37, 8), (5, 16, 16), (3, 10, 4)] {
            for suffix in &policies {
                for cache in CACHES {
                    for refresh in [Refresh::Blocks(1), Refresh::Blocks(2), Refresh::Blocks(7), Refresh::Step] {
                        if cache == CacheMode::None && refresh != Refresh::default() {
                            continue;
                        }
                        for threshold in [Some(0.3), Some(2.0)] {
                            let canvas = Canvas { block_length: Some(b), refresh, threshold, ..with(cache, suffix.clone()) };
                            let output = one(&llm, request(prompt(p), l, canvas));
                            let (stats, trace) = (&output.stats, output.trace.as_ref().unwrap());
                            let passes = passes_by_block(trace, p, l, b);
                            let ((refreshed, committed, denoised), counted) =
                                predicted(p, l, b, cache, refresh, &trace.kept_suffix, &passes);
                            let rows = |kind| stats.rows.get(kind);
                            let name = format!("{family} {p} {l} {b} {suffix:?} {cache:?} {refresh:?} {threshold:?}");
                            assert_eq!(
                                (rows(PassKind::Refresh), rows(PassKind::Commit), rows(PassKind::Denoise)),
                                (refreshed, committed, denoised),
                                "{name}"
                            );
                            assert_eq!((stats.passes.get(PassKind::Refresh), stats.passes.get(PassKind::Denoise)), counted, "{name}");
                            assert_eq!(stats.total_passes(), passes.iter().sum::<usize>(), "{name}");
                            // Whatever is cached, each pass sees all of what its block's first pass fed.
                            if matches!(refresh, Refresh::Step | Refresh::Blocks(1)) {
                                let seen = |(i, kept): (usize, &Vec<u32>)| passes[i] * ((p + (i + 1) * b).min(p + l) + kept.len());
                                assert_eq!(stats.keys.total(), trace.kept_suffix.iter().enumerate().map(seen).sum::<usize>(), "{name}");
                            }
                            assert_eq!(stats.revealed, l, "{name}");
                            assert_eq!(stats.blocks, l.div_ceil(b), "{name}");
                            let sum: usize = trace.kept_suffix.iter().map(Vec::len).sum();
                            assert_eq!(stats.mean_kept_suffix(), sum as f64 / stats.blocks as f64, "{name}");
                        }
                    }
                }
            }
        }
    }
}

/// Logits are computed of masks of the block alone; with Dream's shift a cached block's first pass reads one row.
#[test]
fn the_head_runs_on_rows_that_are_read() {
    for family in FAMILIES {
        let llm = golden(family);
        for cache in CACHES {
            let output = run(&llm, Canvas { threshold: Some(2.0), ..with(cache, half()) });
            // 8 + 7 + ... + 1 masks are left in the passes of a block; Dream's first pass reads 1 of 8.
            let a_block = if family == "dream" && cache != CacheMode::None { 1 + 28 } else { 36 };
            assert_eq!(output.stats.scanned_rows, 5 * a_block, "{family} {cache:?}");
        }
    }
}
