//! Rows of logits: `forward`, `verify` and `state` cases, in one pass and through a cache.

use dlmrs::cache::KvCache;
use dlmrs::model::Hidden;
use dlmrs::pass::{Bits, Keep, Pass, Sees};
use dlmrs::{Backend, Llm};
use serde_json::Value;

use crate::common::{BACKENDS, assert_close, cases, ids, load, recorded, size};

const SDAR: [&str; 3] = ["sdar", "sdar_tied", "sdar_onelayer"];

fn rows(hidden: &Hidden) -> Vec<Vec<f32>> {
    (0..hidden.len()).map(|row| hidden.row(row).unwrap()).collect()
}

fn pass(tokens: &[u32], from: usize, base: usize, sees: Sees, keep: Keep) -> Pass {
    let n = tokens.len() as u32;
    Pass {
        tokens: tokens.to_vec(),
        positions: (from as u32..from as u32 + n).collect(),
        base,
        sees,
        keep,
        read: (0..n).collect(),
        tap: None,
    }
}

fn run(llm: &Llm, pass: Pass, cache: &mut KvCache) -> Vec<Vec<f32>> {
    rows(&llm.model().forward(&mut [(pass, cache)]).unwrap())
}

fn prefilled(llm: &Llm, prefix: &[u32], block: usize) -> KvCache {
    let mut cache = llm.model().new_cache();
    let keep = Keep::Append((0..prefix.len() as u32).collect());
    run(llm, Pass { read: vec![], ..pass(prefix, 0, 0, Sees::Blocks(block), keep) }, &mut cache);
    assert_eq!(cache.len(), prefix.len());
    cache
}

#[test]
fn every_row_of_a_sequence() {
    for family in ["sdar", "sdar_tied", "sdar_onelayer", "llada", "dream", "sdar_moe", "llada_moe", "rnd1", "llada2_moe", "fast_dllm_v2"] {
        let logits = recorded(family, "logits.safetensors");
        for backend in BACKENDS {
            let llm = load(family, backend);
            for case in cases(family, "cases.json", "forward") {
                let tokens = ids(&case["input_ids"]);
                let sees = case["block_length"].as_u64().map_or(Sees::Full, |b| Sees::Blocks(b as usize));
                let found = run(&llm, pass(&tokens, 0, 0, sees, Keep::Nothing), &mut llm.model().new_cache());
                let name = format!("{family} {backend:?} {}", case["name"]);
                assert_close(&name, &found, &logits[case["logits"].as_str().unwrap()]);
            }
        }
    }
}

/// Prefill in pieces, then block by block through the cache, equals one masked pass.
#[test]
fn pieces_through_a_cache_equal_one_pass() {
    for family in SDAR.into_iter().chain(["fast_dllm_v2"]) {
        let logits = recorded(family, "logits.safetensors");
        for backend in BACKENDS {
            let llm = load(family, backend);
            for case in cases(family, "cases.json", "forward") {
                let (tokens, block) = (ids(&case["input_ids"]), size(&case, "block_length"));
                let mut cache = llm.model().new_cache();
                let mut found = Vec::new();
                let mut from = 0;
                for blocks in [2, 1, 1, 3, 1, 1, 1, 9].into_iter().cycle() {
                    let to = (from + blocks * block).min(tokens.len());
                    let keep = Keep::Append((0..(to - from) as u32).collect());
                    found.extend(run(&llm, pass(&tokens[from..to], from, from, Sees::Blocks(block), keep), &mut cache));
                    from = to;
                    if from == tokens.len() {
                        break;
                    }
                }
                assert_eq!(cache.positions(), (0..tokens.len() as u32).collect::<Vec<_>>());
                let name = format!("{family} {backend:?} {}", case["name"]);
                assert_close(&name, &found, &logits[case["logits"].as_str().unwrap()]);
            }
        }
    }
}

/// The block as the sequential denoiser sees it, over a cached prefix.
#[test]
fn states_of_a_block() {
    for family in SDAR {
        let logits = recorded(family, "logits.safetensors");
        for backend in BACKENDS {
            let llm = load(family, backend);
            for case in cases(family, "cases.json", "state") {
                let (prefix, block) = (ids(&case["prefix_ids"]), size(&case, "block_length"));
                let mut cache = prefilled(&llm, &prefix, block);
                let p = pass(&ids(&case["block_ids"]), prefix.len(), prefix.len(), Sees::Blocks(block), Keep::Nothing);
                let found = run(&llm, p, &mut cache);
                assert_eq!(cache.len(), prefix.len(), "a pass that keeps nothing leaves the cache as it was");
                let name = format!("{family} {backend:?} {}", case["name"]);
                assert_close(&name, &found, &logits[case["logits"].as_str().unwrap()]);
            }
        }
    }
}

/// tau of a slot; an undrafted one (-1) comes after everything.
fn taus(case: &Value) -> Vec<i64> {
    case["tau"].as_array().unwrap().iter().map(|t| t.as_i64().unwrap()).map(|t| if t < 0 { i64::MAX } else { t }).collect()
}

/// Rows of a verification: copies of the block one after the other; `sees` is asked for (copy, slot) and (copy, slot), and says
/// whether the first sees the second.
fn verify(
    llm: &Llm,
    case: &Value,
    copies: usize,
    tokens: Vec<u32>,
    sees: impl Fn(usize, usize, usize, usize) -> bool,
    read: usize,
) -> Vec<Vec<f32>> {
    let (prefix, block) = (ids(&case["prefix_ids"]), size(case, "block_length"));
    let mut cache = prefilled(llm, &prefix, block);
    let (p, n) = (prefix.len(), copies * block);
    let position = |row: usize| match case["aligned"].as_bool().unwrap() {
        true => p + row % block,
        false => p + row,
    };
    let visible = |row: usize, key: usize| match key.checked_sub(p) {
        None => true,
        Some(key) => sees(row / block, row % block, key / block, key % block),
    };
    let pass = Pass {
        tokens,
        positions: (0..n).map(|row| position(row) as u32).collect(),
        base: p,
        sees: Sees::Mask(Bits::from_fn(n, p + n, visible)),
        keep: Keep::Nothing,
        read: (read * block..(read + 1) * block).map(|row| row as u32).collect(),
        tap: None,
    };
    run(llm, pass, &mut cache)
}

/// SimSD's pass: data half and mask half, visibility by the paper's four quadrants.
fn paired(llm: &Llm, case: &Value) -> Vec<Vec<f32>> {
    let (tau, mask) = (taus(case), 317);
    let mut tokens = ids(&case["draft_ids"]);
    tokens.extend(vec![mask; tau.len()]);
    let sees = |copy: usize, i: usize, other: usize, j: usize| match (copy, other) {
        (0, 0) => tau[j] <= tau[i],
        (0, _) => tau[j] > tau[i],
        (_, 0) => tau[j] < tau[i],
        (_, _) => tau[j] >= tau[i],
    };
    verify(llm, case, 2, tokens, sees, 1)
}

/// Data, mask and never-informed mask: a layout that is causal in tau at any depth.
fn no_leak(llm: &Llm, case: &Value) -> Vec<Vec<f32>> {
    let (tau, mask) = (taus(case), 317);
    let mut tokens = ids(&case["draft_ids"]);
    tokens.extend(vec![mask; 2 * tau.len()]);
    let sees = |copy: usize, i: usize, other: usize, j: usize| match (copy, other) {
        (0, 0) => tau[j] <= tau[i],
        (0, 2) => tau[j] > tau[i],
        (1, 0) => tau[j] < tau[i],
        (1, 1) => tau[j] == tau[i],
        (1, _) => tau[j] > tau[i],
        (2, 0) => tau[j] == 0,
        (2, 2) => tau[j] > 0,
        _ => false,
    };
    verify(llm, case, 3, tokens, sees, 1)
}

#[test]
fn paired_verification() {
    for family in SDAR {
        let logits = recorded(family, "logits.safetensors");
        for backend in BACKENDS {
            let llm = load(family, backend);
            for case in cases(family, "cases.json", "verify") {
                let name = format!("{family} {backend:?} {}", case["name"]);
                assert_close(&name, &paired(&llm, &case), &logits[case["logits"].as_str().unwrap()]);
            }
        }
    }
}

#[test]
fn verification_with_undrafted_slots_and_without_leak() {
    let logits = recorded("sdar", "own.safetensors");
    for backend in BACKENDS {
        let llm = load("sdar", backend);
        let mut seen = [0, 0];
        for case in cases("sdar", "own.json", "verify") {
            let found = match case["layout"].as_str().unwrap() {
                "paired" => {
                    seen[0] += 1;
                    paired(&llm, &case)
                }
                "no_leak" => {
                    seen[1] += 1;
                    no_leak(&llm, &case)
                }
                other => panic!("layout {other}"),
            };
            assert_close(&format!("{backend:?} {}", case["name"]), &found, &logits[case["logits"].as_str().unwrap()]);
        }
        assert!(seen[0] > 0 && seen[1] > 0);
    }
}

/// Several passes in one forward give what each gives alone; with our kernels to the bit.
#[test]
fn passes_do_not_touch_each_other() {
    for backend in BACKENDS {
        let llm = load("sdar", backend);
        let cases = cases("sdar", "cases.json", "forward");
        let alone: Vec<_> = cases
            .iter()
            .map(|c| run(&llm, pass(&ids(&c["input_ids"]), 0, 0, Sees::Blocks(4), Keep::Nothing), &mut llm.model().new_cache()))
            .collect();
        let mut caches: Vec<_> = cases.iter().map(|_| llm.model().new_cache()).collect();
        let mut passes: Vec<_> = cases
            .iter()
            .zip(&mut caches)
            .map(|(c, cache)| (pass(&ids(&c["input_ids"]), 0, 0, Sees::Blocks(4), Keep::Nothing), cache))
            .collect();
        let together = rows(&llm.model().forward(&mut passes).unwrap());
        let alone: Vec<Vec<f32>> = alone.into_iter().flatten().collect();
        match backend {
            Backend::Kernels => assert!(together == alone),
            _ => assert_close("together", &together, &alone),
        }
    }
}
