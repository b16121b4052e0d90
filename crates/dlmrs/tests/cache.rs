//! The cache against recomputation: append, overwrite, truncate, fork, growth and limits.
#![allow(clippy::unwrap_used, clippy::expect_used)] // tests

use std::path::PathBuf;
use std::sync::Arc;

use dlmrs::cache::KvCache;
use dlmrs::pass::{Keep, Pass, Sees};
use dlmrs::{Backend, Error, Llm, LoadOptions, Overrides};
use proptest::prelude::*;

fn load(family: &str, backend: Backend) -> Arc<Llm> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(family);
    let options = LoadOptions { device: "cpu".into(), backend, threads: Some(1), ..LoadOptions::default() };
    Llm::load(folder.to_str().unwrap(), &options, &Overrides { mask_token_id: Some(317), ..Overrides::default() }).unwrap()
}

fn pass(tokens: &[u32], from: usize, base: usize, keep: Keep) -> Pass {
    let n = tokens.len() as u32;
    Pass {
        tokens: tokens.to_vec(),
        positions: (from as u32..from as u32 + n).collect(),
        base,
        sees: Sees::Causal,
        keep,
        read: (0..n).collect(),
        tap: None,
    }
}

fn all(n: usize) -> Keep {
    Keep::Append((0..n as u32).collect())
}

fn run(llm: &Llm, cache: &mut KvCache, pass: Pass) -> Vec<Vec<f32>> {
    let hidden = llm.model().forward(&mut [(pass, cache)]).unwrap();
    (0..hidden.len()).map(|row| hidden.row(row).unwrap()).collect()
}

/// What a probe of two tokens sees over a cache; equal probes mean equal caches.
fn probe(llm: &Llm, cache: &mut KvCache) -> Vec<Vec<f32>> {
    let len = cache.len();
    run(llm, cache, pass(&[5, 6], 500, len, Keep::Nothing))
}

fn close(a: &[Vec<f32>], b: &[Vec<f32>]) -> bool {
    a.len() == b.len() && a.iter().flatten().zip(b.iter().flatten()).all(|(a, b)| (a - b).abs() < 1e-4)
}

#[test]
fn truncate_and_append_again_is_as_if_it_had_never_been() {
    for backend in [Backend::Kernels, Backend::Plain] {
        let llm = load("sdar", backend);
        let (mut a, mut b) = (llm.model().new_cache(), llm.model().new_cache());
        run(&llm, &mut a, pass(&[1, 2, 3, 4, 5], 0, 0, all(5)));
        run(&llm, &mut a, pass(&[8, 9], 3, 3, all(2))); // base 3: the last two are dropped
        run(&llm, &mut b, pass(&[1, 2, 3], 0, 0, all(3)));
        run(&llm, &mut b, pass(&[8, 9], 3, 3, all(2)));
        assert_eq!(a.positions(), [0, 1, 2, 3, 4]);
        let (a, b) = (probe(&llm, &mut a), probe(&llm, &mut b));
        assert!(close(&a, &b));
        assert!(backend == Backend::Plain || a == b, "to the bit");
    }
}

#[test]
fn a_fork_goes_its_own_way() {
    let llm = load("sdar", Backend::Kernels);
    let mut a = llm.model().new_cache();
    run(&llm, &mut a, pass(&[1, 2, 3], 0, 0, all(3)));
    let before = probe(&llm, &mut a);
    let mut b = a.fork().unwrap();
    assert!(probe(&llm, &mut b) == before);
    run(&llm, &mut b, pass(&[7, 7], 1, 1, all(2)));
    assert!(probe(&llm, &mut b) != before);
    assert!(probe(&llm, &mut a) == before);
}

/// Overwriting entries of a one-layer model equals having computed them so from the start, since there keys and values depend on
/// their own token only. The rows of the overwriting pass see the new entries and not the old.
#[test]
fn overwritten_entries() {
    for backend in [Backend::Kernels, Backend::Plain] {
        let llm = load("sdar_onelayer", backend);
        let (mut a, mut b) = (llm.model().new_cache(), llm.model().new_cache());
        run(&llm, &mut a, pass(&[1, 2, 3, 4, 5, 6], 0, 0, all(6)));
        let over = Pass { sees: Sees::Full, ..pass(&[30, 40], 2, 6, Keep::Overwrite { rows: vec![0, 1], slots: vec![2, 3] }) };
        let found = run(&llm, &mut a, over);
        let whole = Pass { sees: Sees::Full, ..pass(&[1, 2, 30, 40, 5, 6], 0, 0, all(6)) };
        let wanted = run(&llm, &mut b, whole);
        assert!(close(&found, &wanted[2..4]));
        assert_eq!(a.positions(), b.positions());
        assert!(close(&probe(&llm, &mut a), &probe(&llm, &mut b)));
    }
}

#[test]
fn a_cache_that_would_grow_too_large_is_refused_before_any_work() {
    let llm = load("sdar", Backend::Kernels); // 1,024 positions
    let mut cache = llm.model().new_cache();
    run(&llm, &mut cache, pass(&[1, 2, 3], 0, 0, all(3)));
    let before = probe(&llm, &mut cache);
    let long = vec![1; 3000];
    match llm.model().forward(&mut [(pass(&long, 3, 3, all(3000)), &mut cache)]) {
        Err(Error::Capacity { message, .. }) => assert!(message.contains("3003"), "{message}"),
        other => panic!("{:?}", other.map(|h| h.len())),
    }
    assert_eq!(cache.len(), 3);
    assert!(probe(&llm, &mut cache) == before, "nothing was touched");
}

#[test]
fn growth_keeps_the_content() {
    let llm = load("sdar", Backend::Kernels);
    let (mut grown, mut whole) = (llm.model().new_cache(), llm.model().new_cache());
    whole.reserve(100).unwrap();
    for i in 0..40 {
        let tokens = [i + 1, i + 2];
        let from = 2 * i as usize;
        run(&llm, &mut grown, pass(&tokens, from, from, all(2)));
        run(&llm, &mut whole, pass(&tokens, from, from, all(2)));
    }
    assert!(grown.capacity() >= 80 && grown.capacity() < 200 && grown.bytes() > 0);
    assert_eq!(whole.capacity(), 100);
    assert!(probe(&llm, &mut grown) == probe(&llm, &mut whole));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Any sequence of passes with any rollback leaves the cache that recomputing its tokens would give, bit for bit.
    #[test]
    fn rollbacks_equal_recomputation(steps in proptest::collection::vec((1usize..6, 0usize..4, 0u32..300), 1..8)) {
        let llm = load("sdar", Backend::Kernels);
        let mut cache = llm.model().new_cache();
        let mut tokens: Vec<u32> = Vec::new();
        for (n, back, token) in steps {
            let base = tokens.len().saturating_sub(back);
            tokens.truncate(base);
            let new: Vec<u32> = (0..n as u32).map(|i| (token + i) % 300).collect();
            tokens.extend(&new);
            run(&llm, &mut cache, pass(&new, base, base, all(n)));
        }
        let mut again = llm.model().new_cache();
        run(&llm, &mut again, pass(&tokens, 0, 0, all(tokens.len())));
        prop_assert_eq!(cache.positions(), again.positions());
        prop_assert!(probe(&llm, &mut cache) == probe(&llm, &mut again));
    }
}
