//! Bad input: a sentence each, and nothing is computed.

use dlmrs::decode::{CacheMode, Canvas, Decoding, DreamAlg, DropoutKind, Refresh, Spotlight, Suffix, SuffixDropout, WindowTail};
use dlmrs::{BlockDiffusion, Error};

use crate::common::*;

fn refused(family: &str, canvas: Canvas, name: &str, says: &str) {
    let llm = golden(family);
    match llm.engine().submit(request(prompt(9), 40, Canvas { block_length: Some(8), ..canvas })) {
        Err(Error::Input { name: found, message }) => {
            assert_eq!(found, name, "{message}");
            assert!(message.contains(says), "{name}: {message}");
        }
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("{name} was taken"),
    }
}

fn dropout(change: &dyn Fn(&mut SuffixDropout)) -> Canvas {
    let mut dropout = SuffixDropout::default();
    change(&mut dropout);
    with(CacheMode::None, Suffix::Dropout(dropout))
}

#[test]
fn suffix_policies() {
    refused("llada", dropout(&|d| d.window = Some(0)), "window", "is 0; at least 1 is needed");
    for k in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        refused("llada", dropout(&|d| d.k = Some(k)), "k", "a number above 0 is needed");
    }
    for a in [-0.1, f32::NAN, f32::INFINITY] {
        refused("llada", dropout(&|d| d.a = Some(a)), "a", "a finite number of at least 0 is needed");
    }
    for kind in [DropoutKind::Uniform, DropoutKind::Gaussian, DropoutKind::Linear] {
        let says = "is 17, more than the window of 16 holds";
        refused("llada", dropout(&|d| (d.kind, d.window, d.budget) = (kind, Some(16), Some(17))), "budget", says);
    }
    refused("llada", dropout(&|d| (d.a, d.budget) = (Some(1.0), Some(3))), "budget", "settles a");
    refused("llada", dropout(&|d| (d.kind, d.a) = (DropoutKind::Uniform, Some(1.0))), "a", "no effect with kind=\"uniform\"");
    refused("llada", dropout(&|d| (d.kind, d.k) = (DropoutKind::Linear, Some(1.0))), "k", "no effect with kind=\"linear\"");
    let policy = |policy| with(CacheMode::Dual, policy);
    refused("dream", policy(Suffix::WindowTail(WindowTail { window: Some(0), tail: 1 })), "window", "is 0");
    refused("dream", policy(Suffix::Spotlight(Spotlight { distance: 0, count: 0 })), "count", "is 0");
    let lists =
        |first: &[u32], n: usize| policy(Suffix::Kept(std::iter::once(first.to_vec()).chain(std::iter::repeat_n(vec![], n - 1)).collect()));
    refused("llada", lists(&[17], 4), "suffix", "has 4 lists, but the canvas has 5 blocks");
    refused("llada", lists(&[16], 5), "suffix", "keeps place 16 for block 0, which is followed by 17 to 48");
    refused("llada", lists(&[49], 5), "suffix", "keeps place 49 for block 0");
    refused("llada", lists(&[18, 17], 5), "suffix", "do not rise");
    refused("llada", lists(&[18, 18], 5), "suffix", "do not rise");
    let last = Suffix::Kept(vec![vec![], vec![], vec![], vec![], vec![48]]);
    refused("llada", policy(last), "suffix", "block 4, which has nothing behind it");
}

#[test]
fn caches_and_rules() {
    let canvas = Canvas::default;
    refused("llada", Canvas { cache: CacheMode::Dual, refresh: Refresh::Blocks(0), ..canvas() }, "refresh", "is 0; at least 1");
    refused("llada", Canvas { refresh: Refresh::Blocks(2), ..canvas() }, "refresh", "has an effect with a cache only");
    refused("llada", Canvas { refresh: Refresh::Step, ..canvas() }, "refresh", "has an effect with a cache only");
    for factor in [-1.0, f32::NAN, f32::INFINITY] {
        refused("llada", Canvas { factor: Some(factor), ..canvas() }, "factor", "a finite number of at least 0");
    }
    refused("llada", Canvas { factor: Some(1.0), threshold: Some(0.9), ..canvas() }, "factor", "in place of a threshold");
    refused("dream", Canvas { factor: Some(1.0), alg: Some(DreamAlg::Entropy), ..canvas() }, "alg", "no effect with a factor");
    refused("dream", Canvas { factor: Some(1.0), eps: 0.1, ..canvas() }, "eps", "leave out factor");
    let even = Canvas { alg: Some(DreamAlg::EvenEntropy), eps: 0.1, ..canvas() };
    refused("dream", even.clone(), "eps", "which has no time line");
    refused("rnd1", Canvas { alg: None, ..even }, "eps", "which has no time line");
    refused("llada", Canvas { factor_compat: true, ..canvas() }, "factor_compat", "with a factor only");
    refused("llada", Canvas { max_reveals: Some(2), ..canvas() }, "max_reveals", "a threshold or a factor only");
    refused("llada", Canvas { max_reveals: Some(0), threshold: Some(0.9), ..canvas() }, "max_reveals", "is 0");
}

/// A model whose finished blocks never change needs none of it: the message says what to use.
#[test]
fn caches_on_a_block_causal_model() {
    for cache in CACHED {
        let says = "is Canvas, but sdar is block-causal; use BlockDiffusion, which caches finished blocks exactly";
        refused("sdar", with(cache, Suffix::Off), "decoding", says);
    }
    let llm = golden("sdar");
    let mut fine = request(prompt(9), 8, Canvas::default());
    fine.decoding = Some(Decoding::Block(BlockDiffusion { block_length: Some(4), ..BlockDiffusion::default() }));
    assert_eq!(one(&llm, fine).token_ids.len(), 8);
}

#[test]
fn words() {
    let said = |error: Error| error.to_string();
    assert_eq!(said("both".parse::<CacheMode>().unwrap_err()), "cache: 'both' is unknown; use none, prefix or dual");
    assert!(said("never".parse::<Refresh>().unwrap_err()).contains("use block, step, or a number"));
    assert_eq!("4".parse::<Refresh>().unwrap(), Refresh::Blocks(4));
    assert!(said("eager".parse::<dlmrs::decode::EarlyStop>().unwrap_err()).contains("use strict, compat or off"));
    for name in ["none", "prefix", "dual"] {
        assert_eq!(name.parse::<CacheMode>().unwrap().name(), name);
    }
    for name in ["block", "step", "3"] {
        assert_eq!(name.parse::<Refresh>().unwrap().name(), name);
    }
    for name in ["strict", "compat", "off"] {
        assert_eq!(name.parse::<dlmrs::decode::EarlyStop>().unwrap().name(), name);
    }
}
