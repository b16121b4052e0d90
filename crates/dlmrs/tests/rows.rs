//! A row's arithmetic depends on nothing but that row's own inputs: the same row alone, among others, at other places, beside other
//! passes, with more threads and as one of several copies of a block has equal bits (our kernels), however the weights are held.
#![allow(clippy::unwrap_used, clippy::expect_used)] // tests

use std::path::PathBuf;
use std::sync::Arc;

use dlmrs::cache::KvCache;
use dlmrs::pass::{Bits, Keep, Pass, Sees};
use dlmrs::{Backend, Llm, LoadOptions, Overrides, Precision};

const PREFIX: usize = 12;
const MASK: u32 = 3;

const DTYPES: [Precision; 5] = [Precision::F32, Precision::Auto, Precision::Bf16, Precision::Int8, Precision::Int4];

fn load(threads: usize, dtype: Precision) -> Arc<Llm> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("bundled/tiny-sdar");
    let options = LoadOptions { device: "cpu".into(), backend: Backend::Kernels, threads: Some(threads), dtype };
    Llm::load(folder.to_str().unwrap(), &options, &Overrides::default()).unwrap()
}

fn token(seed: usize) -> u32 {
    (seed * 7919 % 600 + 20) as u32
}

fn prefix(llm: &Llm) -> KvCache {
    let mut cache = llm.model().new_cache();
    let pass = Pass {
        tokens: (0..PREFIX).map(token).collect(),
        positions: (0..PREFIX as u32).collect(),
        base: 0,
        sees: Sees::Blocks(4),
        keep: Keep::Append((0..PREFIX as u32).collect()),
        read: vec![],
        tap: None,
    };
    llm.model().forward(&mut [(pass, &mut cache)]).unwrap();
    cache
}

/// A row at position PREFIX that sees the cache and itself, at place `place` among `others` rows that see more.
fn among(others: usize, place: usize) -> Pass {
    let n = others + 1;
    let own = |row: usize| row == place;
    let sees = move |row: usize, key: usize| key < PREFIX || if own(row) { key - PREFIX == row } else { key - PREFIX <= row };
    Pass {
        tokens: (0..n).map(|row| if own(row) { MASK } else { token(100 + row) }).collect(),
        positions: (0..n).map(|row| if own(row) { PREFIX } else { PREFIX + row } as u32).collect(),
        base: PREFIX,
        sees: Sees::Mask(Bits::from_fn(n, PREFIX + n, sees)),
        keep: Keep::Nothing,
        read: vec![place as u32],
        tap: None,
    }
}

/// `states` copies of a block of four, each seeing the cache and itself; copy `read` is read. The last copy is the same whatever stands
/// before it.
fn copies(states: usize) -> Pass {
    let block = [MASK, token(1), MASK, token(2)];
    let n = 4 * states;
    Pass {
        tokens: (0..n).map(|row| if row / 4 + 1 == states { block[row % 4] } else { token(row) }).collect(),
        positions: (0..n).map(|row| (PREFIX + row % 4) as u32).collect(),
        base: PREFIX,
        sees: Sees::Mask(Bits::from_fn(n, PREFIX + n, |row, key| key < PREFIX || (key - PREFIX) / 4 == row / 4)),
        keep: Keep::Nothing,
        read: (n as u32 - 4..n as u32).collect(),
        tap: None,
    }
}

fn run(llm: &Llm, cache: &mut KvCache, pass: Pass) -> Vec<Vec<f32>> {
    let hidden = llm.model().forward(&mut [(pass, cache)]).unwrap();
    (0..hidden.len()).map(|row| hidden.row(row).unwrap()).collect()
}

#[test]
fn alone_and_among_others() {
    for (threads, dtype) in [1, 2].into_iter().flat_map(|threads| DTYPES.map(|dtype| (threads, dtype))) {
        let llm = load(threads, dtype);
        let mut cache = prefix(&llm);
        let alone = run(&llm, &mut cache, among(0, 0));
        for (others, places) in [(3, vec![0, 1, 3]), (17, vec![0, 9, 17]), (64, vec![0, 31, 32, 64])] {
            for place in places {
                assert!(run(&llm, &mut cache, among(others, place)) == alone, "{dtype:?}, {threads} threads, place {place} among {others}");
            }
        }
    }
}

#[test]
fn threads() {
    for dtype in DTYPES {
        let found: Vec<_> = [1, 2, 3].into_iter().map(|n| load(n, dtype)).map(|llm| run(&llm, &mut prefix(&llm), copies(3))).collect();
        assert!(found[0] == found[1] && found[0] == found[2], "{dtype:?}");
    }
}

#[test]
fn as_one_of_several_copies_of_a_block() {
    for dtype in DTYPES {
        let llm = load(2, dtype);
        let mut cache = prefix(&llm);
        let mut lone = copies(1);
        let alone = run(&llm, &mut cache, lone.clone());
        for states in 2..=5 {
            assert!(run(&llm, &mut cache, copies(states)) == alone, "{dtype:?}, {states} copies");
        }
        lone.sees = Sees::Blocks(4);
        assert!(run(&llm, &mut cache, lone) == alone, "{dtype:?}, the same sight from another rule");
    }
}

#[test]
fn beside_other_passes() {
    for dtype in DTYPES {
        let llm = load(2, dtype);
        let mut cache = prefix(&llm);
        let alone = run(&llm, &mut cache, copies(2));
        let (mut a, mut b, mut c) = (prefix(&llm), prefix(&llm), llm.model().new_cache());
        let stranger = Pass {
            tokens: (0..40).map(token).collect(),
            positions: (0..40).collect(),
            base: 0,
            sees: Sees::Causal,
            keep: Keep::Append((0..40).collect()),
            read: vec![0, 39, 5],
            tap: None,
        };
        let mut passes = [(among(17, 4), &mut a), (copies(2), &mut b), (stranger, &mut c)];
        let hidden = llm.model().forward(&mut passes).unwrap();
        let found: Vec<_> = (0..4).map(|read| hidden.row(hidden.row_of(1, read)).unwrap()).collect();
        assert!(found == alone, "{dtype:?}");
    }
}

/// Which rows are read, and whether the prefix came in one piece, changes nothing either.
#[test]
fn read_rows_and_pieces() {
    for dtype in DTYPES {
        let llm = load(2, dtype);
        let mut cache = prefix(&llm);
        let all = run(&llm, &mut cache, copies(1));
        let mut one = copies(1);
        one.read = vec![2];
        assert!(run(&llm, &mut cache, one)[0] == all[2], "{dtype:?}");

        let mut pieces = llm.model().new_cache();
        for from in (0..PREFIX).step_by(4) {
            let pass = Pass {
                tokens: (from..from + 4).map(token).collect(),
                positions: (from as u32..from as u32 + 4).collect(),
                base: from,
                sees: Sees::Blocks(4),
                keep: Keep::Append(vec![0, 1, 2, 3]),
                read: vec![],
                tap: None,
            };
            llm.model().forward(&mut [(pass, &mut pieces)]).unwrap();
        }
        assert!(run(&llm, &mut pieces, copies(1)) == all, "{dtype:?}");
    }
}
