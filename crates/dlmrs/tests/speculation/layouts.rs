//! The layouts: recorded verification passes, and what each promises.

use std::collections::HashMap;

use dlmrs::Llm;
use dlmrs::cache::KvCache;
use dlmrs::pass::{Keep, Pass, Sees};
use dlmrs::speculate::layout::{Copy, Drafted, KNOWN, Laid, Prefix, UNDRAFTED, copies_of, no_leak, paired, states};
use proptest::prelude::*;
use serde_json::Value;

use crate::common::{MASK, golden, golden_folder};

type Rows = Vec<((usize, usize), Vec<f32>)>;

fn run(llm: &Llm, pass: Pass, cache: &mut KvCache) -> Vec<Vec<f32>> {
    llm.model().forward(&mut [(pass, cache)]).unwrap().rows().unwrap()
}

fn prefilled(llm: &Llm, prefix: &[u32], block: usize) -> KvCache {
    let mut cache = llm.model().new_cache();
    let n = prefix.len() as u32;
    let pass = Pass {
        tokens: prefix.to_vec(),
        positions: (0..n).collect(),
        base: 0,
        sees: Sees::Blocks(block),
        keep: Keep::Append((0..n).collect()),
        read: vec![],
        tap: None,
    };
    if n > 0 {
        run(llm, pass, &mut cache);
    }
    cache
}

/// The rows that a layout reads, over a cached prefix; a part of the prefix rides along with the pass.
fn read(llm: &Llm, prefix: &[u32], block: usize, riding: usize, lay: impl Fn(&Prefix<'_>) -> Laid) -> Rows {
    let base = prefix.len() - riding;
    let mut cache = prefilled(llm, &prefix[..base], block);
    let laid = lay(&Prefix { base, tokens: &prefix[base..], block_length: block });
    let rows = run(llm, laid.pass.clone(), &mut cache);
    assert_eq!(cache.len(), laid.kept);
    laid.read.into_iter().zip(rows).collect()
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as u32).collect()
}

fn cases(family: &str, file: &str, kind: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(&std::fs::read_to_string(golden_folder(family).join(file)).unwrap()).unwrap();
    let cases: Vec<Value> = all["cases"].as_array().unwrap().iter().filter(|c| c["kind"] == kind).cloned().collect();
    assert!(!cases.is_empty());
    cases
}

fn recorded(family: &str, file: &str) -> HashMap<String, Vec<Vec<f32>>> {
    let tensors = candle_core::safetensors::load(golden_folder(family).join(file), &candle_core::Device::Cpu).unwrap();
    tensors.into_iter().map(|(name, t)| (name, t.to_vec2().unwrap())).collect()
}

fn drafted(case: &Value) -> (Vec<u32>, Drafted) {
    let prefix = ids(&case["prefix_ids"]);
    let tau = case["tau"].as_array().unwrap().iter().map(|t| t.as_i64().unwrap()).map(|t| if t < 0 { UNDRAFTED } else { t as u32 });
    let drafted = Drafted { start: prefix.len(), tokens: ids(&case["draft_ids"]), tau: tau.collect(), mask_token_id: MASK };
    (prefix, drafted)
}

fn worst(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn recorded_verification_passes() {
    for (family, file, logits) in [
        ("sdar", "cases.json", "logits.safetensors"),
        ("sdar_tied", "cases.json", "logits.safetensors"),
        ("sdar_onelayer", "cases.json", "logits.safetensors"),
        ("sdar", "own.json", "own.safetensors"),
    ] {
        let (llm, logits) = (golden(family), recorded(family, logits));
        for case in cases(family, file, "verify") {
            let (prefix, drafted) = drafted(&case);
            let (block, aligned) = (drafted.tokens.len(), case["aligned"].as_bool().unwrap());
            let lay = |prefix: &Prefix<'_>| match case.get("layout").and_then(Value::as_str) {
                Some("no_leak") => no_leak(prefix, &drafted),
                _ => paired(prefix, &drafted, aligned),
            };
            let wanted = &logits[case["logits"].as_str().unwrap()];
            for riding in [0, block] {
                let found = read(&llm, &prefix, block, riding, lay);
                assert_eq!(found.len(), drafted.tau.iter().filter(|&&t| t != KNOWN).count());
                for ((_, position), row) in &found {
                    let worst = worst(row, &wanted[position - drafted.start]);
                    assert!(worst <= 2e-4, "{family} {} slot {position}: {worst}", case["name"]);
                }
            }
        }
    }
}

/// The copies of `states` are the recorded states of the sequential denoiser.
#[test]
fn recorded_states() {
    for family in ["sdar", "sdar_tied", "sdar_onelayer"] {
        let (llm, logits) = (golden(family), recorded(family, "logits.safetensors"));
        for case in cases(family, "cases.json", "state") {
            let (prefix, drafted) = drafted(&case);
            let step = case["step"].as_u64().unwrap() as usize;
            let copies = copies_of(&drafted);
            assert_eq!(copies[step - 1].tokens, ids(&case["block_ids"]), "{}", case["name"]);
            let found = read(&llm, &prefix, drafted.tokens.len(), 0, |prefix| states(prefix, &copies, MASK));
            let wanted = &logits[case["logits"].as_str().unwrap()];
            for ((copy, position), row) in found.iter().filter(|((copy, _), _)| *copy == step - 1) {
                let worst = worst(row, &wanted[position - drafted.start]);
                assert!(worst <= 2e-4, "{family} {} copy {copy} slot {position}: {worst}", case["name"]);
            }
        }
    }
}

/// Rows of a state, fed alone.
fn alone(llm: &Llm, prefix: &[u32], copy: &Copy) -> Rows {
    read(llm, prefix, copy.tokens.len(), 0, |prefix| states(prefix, std::slice::from_ref(copy), MASK))
}

fn some_draft() -> impl proptest::strategy::Strategy<Value = (Vec<u32>, Drafted)> {
    (1usize..7, 0usize..3).prop_flat_map(|(length, blocks)| {
        let tau = proptest::collection::vec(prop_oneof![1 => Just(KNOWN), 5 => 1u32..5, 1 => Just(UNDRAFTED)], length);
        let tokens = proptest::collection::vec(0u32..300, length);
        (proptest::collection::vec(0u32..300, length * blocks), tokens, tau).prop_map(|(prefix, tokens, tau)| {
            let start = prefix.len();
            (prefix, Drafted { start, tokens, tau: dense(tau), mask_token_id: MASK })
        })
    })
}

/// Steps without gaps, as a draft has them.
fn dense(mut tau: Vec<u32>) -> Vec<u32> {
    let mut steps: Vec<u32> = tau.iter().copied().filter(|&t| t != KNOWN && t != UNDRAFTED).collect();
    steps.sort_unstable();
    steps.dedup();
    for t in &mut tau {
        if let Some(i) = steps.iter().position(|step| step == t) {
            *t = i as u32 + 1;
        }
    }
    tau
}

fn bits(pass: &Pass) -> &dlmrs::pass::Bits {
    match &pass.sees {
        Sees::Mask(bits) => bits,
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Every row of the block sees the whole prefix and of each slot exactly one copy.
    #[test]
    fn one_copy_of_each_slot((prefix, drafted) in some_draft(), riding in any::<bool>()) {
        let length = drafted.tokens.len();
        let base = if riding && !prefix.is_empty() { prefix.len() - length } else { prefix.len() };
        let before = Prefix { base, tokens: &prefix[base..], block_length: length };
        for laid in [paired(&before, &drafted, true), no_leak(&before, &drafted), states(&before, &copies_of(&drafted), MASK)] {
            laid.pass.validate(base, 320).unwrap();
            let first = prefix.len() - base;
            for row in first..laid.pass.rows() {
                let mut seen = vec![0; length];
                for key in 0..base + laid.pass.rows() {
                    match (bits(&laid.pass).get(row, key), key < prefix.len()) {
                        (sees, true) => prop_assert!(sees, "the prefix"),
                        (true, false) => seen[laid.pass.positions[key - base] as usize - drafted.start] += 1,
                        (false, false) => {}
                    }
                }
                prop_assert!(seen.iter().all(|&n| n == 1), "{:?}", seen);
            }
        }
    }

    /// `states` gives the rows of the sequential states to the bit, and the finished copy commits the block to the bit.
    #[test]
    fn states_are_the_sequential_states((prefix, drafted) in some_draft()) {
        let llm = model();
        let copies = copies_of(&drafted);
        let together = read(&llm, &prefix, drafted.tokens.len(), 0, |prefix| states(prefix, &copies, MASK));
        for (c, copy) in copies.iter().enumerate().filter(|(_, copy)| !copy.finished(MASK)) {
            let own: Vec<_> = together.iter().filter(|((copy, _), _)| *copy == c).map(|(_, row)| row.clone()).collect();
            let lone: Vec<_> = alone(&llm, &prefix, copy).into_iter().map(|(_, row)| row).collect();
            prop_assert!(own == lone, "copy {}", c);
        }
    }

    /// Flipping a draft moves no row of `no_leak` or `states` that judges it or an earlier one, by one bit, on three layers.
    #[test]
    fn no_row_learns_of_later_drafts((prefix, drafted) in some_draft(), slot in 0usize..6, token in 0u32..300) {
        let slot = slot % drafted.tokens.len();
        let tau = drafted.tau[slot];
        prop_assume!(tau != KNOWN && tau != UNDRAFTED && token != drafted.tokens[slot]);
        let llm = model();
        let mut flipped = drafted.clone();
        flipped.tokens[slot] = token;
        let length = drafted.tokens.len();
        let of = |d: &Drafted| read(&llm, &prefix, length, 0, |prefix| no_leak(prefix, d));
        for ((_, position), row) in of(&drafted).iter().filter(|((_, p), _)| drafted.tau[p - drafted.start] <= tau) {
            let other = of(&flipped).into_iter().find(|((_, p), _)| p == position).unwrap().1;
            prop_assert!(*row == other, "slot {}", position);
        }
        let of = |d: &Drafted| read(&llm, &prefix, length, 0, |prefix| states(prefix, &copies_of(d), MASK));
        let (a, b) = (of(&drafted), of(&flipped));
        for (one, other) in a.iter().zip(&b).filter(|(((copy, _), _), _)| (*copy as u32) < tau) {
            prop_assert!(one == other);
        }
    }

    /// Where one step reveals everything, and where the model has one layer, `paired` has the sequential rows to the bit.
    #[test]
    fn one_layer_or_one_step_is_exact((prefix, mut drafted) in some_draft()) {
        let length = drafted.tokens.len();
        let one = Drafted { tau: drafted.tau.iter().map(|&t| if t == KNOWN { KNOWN } else { 1 }).collect(), ..drafted.clone() };
        let state = &copies_of(&one)[0];
        let lone = alone(&model(), &prefix, state);
        for ((_, position), row) in read(&model(), &prefix, length, 0, |prefix| paired(prefix, &one, true)) {
            let wanted = &lone.iter().find(|((_, p), _)| *p == position).unwrap().1;
            prop_assert!(row == *wanted, "one step");
        }
        drafted.tau = dense(drafted.tau.iter().map(|&t| if t == UNDRAFTED { 4 } else { t }).collect());
        let copies = copies_of(&drafted);
        let shallow = one_layer();
        for ((_, position), row) in read(&shallow, &prefix, length, 0, |prefix| paired(prefix, &drafted, true)) {
            let tau = drafted.tau[position - drafted.start] as usize;
            let lone = alone(&shallow, &prefix, &copies[tau - 1]);
            let wanted = &lone.iter().find(|((_, p), _)| *p == position).unwrap().1;
            prop_assert!(row == *wanted, "one layer");
        }
    }
}

fn model() -> std::sync::Arc<Llm> {
    static MODEL: std::sync::OnceLock<std::sync::Arc<Llm>> = std::sync::OnceLock::new();
    MODEL.get_or_init(|| golden("sdar")).clone()
}

fn one_layer() -> std::sync::Arc<Llm> {
    static MODEL: std::sync::OnceLock<std::sync::Arc<Llm>> = std::sync::OnceLock::new();
    MODEL.get_or_init(|| golden("sdar_onelayer")).clone()
}

/// From two layers on a mask row of `paired` depends on the draft that it judges; and mask rows off their slots' positions mean nothing.
#[test]
fn paired_leaks_and_needs_aligned_positions() {
    let llm = model();
    let draft = |token| Drafted { start: 8, tokens: vec![token, 20, 30, 40], tau: vec![1, 2, 3, 4], mask_token_id: MASK };
    let prefix: Vec<u32> = (50..58).collect();
    let judged = |d: &Drafted, aligned: bool| read(&llm, &prefix, 4, 0, |prefix| paired(prefix, d, aligned))[0].1.clone();
    assert!(worst(&judged(&draft(10), true), &judged(&draft(11), true)) > 1e-3, "the row that judges slot 0 saw its draft");
    let state = alone(&llm, &prefix, &copies_of(&draft(10))[0]);
    let (aligned, unaligned) = (judged(&draft(10), true), judged(&draft(10), false));
    assert!(worst(&unaligned, &state[0].1) > worst(&aligned, &state[0].1));
}

/// Several blocks: a start state behind a finished copy is what the target alone would see, and the finished copies stay in the cache.
#[test]
fn blocks_behind_finished_copies() {
    let llm = model();
    let prefix: Vec<u32> = (50..58).collect();
    let copy = |start: usize, tokens: [u32; 4]| Copy { start, tokens: tokens.into() };
    let (m, f0, f1) = (MASK, [1, 2, 3, 4], [5, 6, 7, 8]);
    let copies = [copy(8, [m; 4]), copy(8, f0), copy(12, [m; 4]), copy(12, f1), copy(16, [m, 9, m, m]), copy(20, [m; 4])];
    let mut cache = prefilled(&llm, &prefix, 4);
    let laid = states(&Prefix { base: 8, tokens: &[], block_length: 4 }, &copies, MASK);
    assert_eq!(laid.kept, 16);
    let rows = run(&llm, laid.pass.clone(), &mut cache);
    let whole: Vec<u32> = prefix.iter().copied().chain(f0).chain(f1).collect();
    assert_eq!((cache.len(), cache.positions()), (16, &(0..16).collect::<Vec<u32>>()[..]));
    let lone = alone(&llm, &whole, &copies[4]);
    let together: Vec<_> = laid.read.iter().zip(&rows).filter(|((c, _), _)| *c == 4).map(|(_, row)| row.clone()).collect();
    assert!(together == lone.into_iter().map(|(_, row)| row).collect::<Vec<_>>());
    // The cache that the pass left serves as the one that a plain prefill makes.
    let next = |cache: &mut KvCache| {
        let laid = states(&Prefix { base: 16, tokens: &[], block_length: 4 }, &copies[4..5], MASK);
        run(&llm, laid.pass, cache)
    };
    assert!(next(&mut cache) == next(&mut prefilled(&llm, &whole, 4)));
}
