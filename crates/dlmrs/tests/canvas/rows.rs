//! Equalities of single rows of logits.

use dlmrs::decode::Suffix;
use dlmrs::pass::{Bits, Keep, Pass, Sees};
use dlmrs::{Backend, Llm};

use crate::common::*;

const P: usize = 9;
const B: usize = 8;
const L: usize = 40;

/// A canvas whose first block is being decided, and what is kept behind it.
fn canvas() -> (Vec<u32>, Vec<u32>) {
    let mut canvas = prompt(P);
    canvas.resize(P + L, 317);
    canvas[P + 2] = 5;
    let from = P + B;
    (canvas, dlmrs::decode::suffix::kept(&half(), L, 3, 0, from, P + L))
}

fn pruned() -> (Vec<u32>, Vec<u32>) {
    let (canvas, kept) = canvas();
    let places: Vec<u32> = (0..(P + B) as u32).chain(kept).collect();
    (places.iter().map(|&p| canvas[p as usize]).collect(), places)
}

fn near(a: &[Vec<f32>], b: &[Vec<f32>], most: f32) -> bool {
    a.iter().zip(b).all(|(a, b)| a.iter().zip(b).all(|(a, b)| (a - b).abs() <= most))
}

fn block_rows() -> Vec<u32> {
    (P as u32..(P + B) as u32).collect()
}

fn pruned_rows(llm: &Llm, shift: u32) -> Vec<Vec<f32>> {
    let (tokens, places) = pruned();
    llm.logits(&tokens, Some(places.iter().map(|p| p + shift).collect()), None, Some(block_rows())).unwrap()
}

/// Rows that are not there equal rows that nobody sees: to the bit with our kernels.
#[test]
fn leaving_out_equals_masking() {
    for family in FAMILIES {
        for backend in [Backend::Kernels, Backend::Plain] {
            let llm = golden_with(family, 2, backend);
            let (whole, kept) = canvas();
            let seen = |column: usize| column < P + B || kept.contains(&(column as u32));
            let mask = Bits::from_fn(P + L, P + L, |row, column| seen(column) || row == column);
            let masked = llm.logits(&whole, None, Some(mask), Some(block_rows())).unwrap();
            let pruned = pruned_rows(&llm, 0);
            match backend {
                Backend::Kernels => assert!(masked == pruned, "{family}"),
                _ => assert!(near(&masked, &pruned, 2e-4), "{family}"),
            }
        }
    }
}

/// Attention is relative: all positions may move together, but gaps may not be closed.
#[test]
fn positions_are_kept_for_their_gaps() {
    for family in FAMILIES {
        let llm = golden(family);
        let pruned_here = pruned_rows(&llm, 0);
        assert!(near(&pruned_here, &pruned_rows(&llm, 50), 1e-3), "{family}");
        let (tokens, _) = pruned();
        let closed = llm.logits(&tokens, None, None, Some(block_rows())).unwrap();
        assert!(!near(&pruned_here, &closed, 1e-2), "{family}: closing the gaps changes something");
    }
}

/// Rows behind the block may stand in any order, if their positions go with them: keys are summed in order of position.
#[test]
fn the_order_of_rows_does_not_matter() {
    for family in FAMILIES {
        let llm = golden(family);
        let (mut tokens, mut places) = pruned();
        tokens[P + B..].reverse();
        places[P + B..].reverse();
        let turned = llm.logits(&tokens, Some(places), None, Some(block_rows())).unwrap();
        assert!(turned == pruned_rows(&llm, 0), "{family}");
    }
}

/// A cached pass over unchanged tokens says what the refresh said, to the bit: prefix and dual, with and without dropout, any depth.
#[test]
fn a_cached_pass_repeats_the_refresh() {
    for family in FAMILIES {
        let llm = golden(family);
        for dropped in [false, true] {
            let (whole, kept) = canvas();
            let kept = if dropped { kept } else { ((P + B) as u32..(P + L) as u32).collect() };
            let places: Vec<u32> = (0..(P + B) as u32).chain(kept.iter().copied()).collect();
            let rows = |places: &[u32]| -> Vec<u32> { places.iter().map(|&p| whole[p as usize]).collect() };
            let n = places.len() as u32;
            let refresh = |keep: usize| Pass {
                tokens: rows(&places),
                positions: places.clone(),
                base: 0,
                sees: Sees::Full,
                keep: Keep::Append((0..keep as u32).collect()),
                read: (P as u32..n).collect(),
                tap: None,
            };
            let read = |pass: Pass, cache: &mut dlmrs::cache::KvCache| llm.model().forward(&mut [(pass, cache)]).unwrap().rows().unwrap();
            let mut cache = llm.model().new_cache();
            let said = read(refresh(P), &mut cache);
            let prefix = Pass {
                tokens: rows(&places[P..]),
                positions: places[P..].to_vec(),
                base: P,
                keep: Keep::Nothing,
                read: (0..n - P as u32).collect(),
                ..refresh(0)
            };
            assert!(read(prefix, &mut cache) == said, "{family} prefix");
            let mut cache = llm.model().new_cache();
            read(refresh(places.len()), &mut cache);
            let block = &places[P..P + B];
            let keep = Keep::Overwrite { rows: (0..B as u32).collect(), slots: block.to_vec() };
            let dual = Pass {
                tokens: rows(block),
                positions: block.to_vec(),
                base: places.len(),
                keep,
                read: (0..B as u32).collect(),
                ..refresh(0)
            };
            assert!(read(dual, &mut cache) == said[..B], "{family} dual");
        }
    }
}

/// The draw of a request is the pure function's.
#[test]
fn the_draw_is_the_functions() {
    let llm = golden("llada");
    let output = run(&llm, with(dlmrs::decode::CacheMode::None, half()));
    for (block, kept) in output.trace.unwrap().kept_suffix.iter().enumerate() {
        let from = P + B * (block + 1);
        assert_eq!(*kept, dlmrs::decode::suffix::kept(&half(), L, 7, block, from, P + L));
        assert_eq!(dlmrs::decode::suffix::kept(&Suffix::Off, L, 7, block, from, P + L).len(), P + L - from);
    }
}
