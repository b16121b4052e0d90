//! Our decoder layer under `Sees::Causal` against candle-transformers' Qwen3, Qwen2 and Llama.
//!
//! A diffusion model's body is that of a causal model with another visibility: SDAR's is Qwen3, Dream's is Qwen2, LLaDA's is Llama.
//! So with the causal visibility and the same weights, our one layer has to compute what three models that share no code with it do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

#[path = "causal/checkpoint.rs"]
mod checkpoint;
#[path = "causal/oracle.rs"]
mod oracle;

use dlmrs::cache::KvCache;
use dlmrs::pass::{Keep, Pass, Sees};
use dlmrs::{Backend, Llm, LoadOptions, Overrides};

use checkpoint::{Body, Checkpoint, VOCAB};
use oracle::Oracle;

const BACKENDS: [Backend; 2] = [Backend::Kernels, Backend::Plain];
const TOLERANCE: f32 = 2e-4;

/// Ids without a pattern, so that no two prefixes look alike.
fn tokens() -> Vec<u32> {
    (0..37u32).map(|i| (i * i * 7 + 13 * i + 5) % VOCAB as u32).collect()
}

fn run(llm: &Llm, cache: &mut KvCache, tokens: &[u32], from: usize, keep: Keep) -> Vec<Vec<f32>> {
    let n = tokens.len() as u32;
    let positions = (from as u32..from as u32 + n).collect();
    let pass = Pass { tokens: tokens.to_vec(), positions, base: from, sees: Sees::Causal, keep, read: (0..n).collect(), tap: None };
    let hidden = llm.model().forward(&mut [(pass, cache)]).unwrap();
    (0..hidden.len()).map(|row| hidden.row(row).unwrap()).collect()
}

/// All rows of the whole sequence as one pass.
fn whole(llm: &Llm, tokens: &[u32]) -> Vec<Vec<f32>> {
    run(llm, &mut llm.model().new_cache(), tokens, 0, Keep::Nothing)
}

/// All rows, in pieces of several lengths, each piece over the kept ones. Before each piece a wrong one is appended, and then dropped
/// by the base of the right one.
fn pieces(llm: &Llm, tokens: &[u32]) -> Vec<Vec<f32>> {
    let mut cache = llm.model().new_cache();
    let (mut rows, mut from) = (Vec::new(), 0);
    for length in [1, 5, 2, 1, 16].into_iter().cycle() {
        let to = (from + length).min(tokens.len());
        let all = || Keep::Append((0..(to - from) as u32).collect());
        let wrong: Vec<u32> = tokens[from..to].iter().map(|id| (id + 1) % VOCAB as u32).collect();
        run(llm, &mut cache, &wrong, from, all());
        rows.extend(run(llm, &mut cache, &tokens[from..to], from, all()));
        from = to;
        if from == tokens.len() {
            break;
        }
    }
    rows
}

/// The oracle gives the last row only: once for each prefix from scratch, once token by token over its own cache.
fn wanted(oracle: &mut Oracle, tokens: &[u32]) -> Vec<Vec<f32>> {
    let prefixes: Vec<_> = (1..=tokens.len()).map(|n| oracle.restart().last_row(&tokens[..n], 0)).collect();
    oracle.restart();
    let cached: Vec<_> = tokens.iter().enumerate().map(|(i, &id)| oracle.last_row(&[id], i)).collect();
    close("the oracle with and without its cache", &cached, &prefixes);
    prefixes
}

fn close(name: &str, found: &[Vec<f32>], wanted: &[Vec<f32>]) {
    assert_eq!(found.len(), wanted.len(), "{name}: rows");
    let mut worst = 0f32;
    for (row, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        assert_eq!((found.len(), wanted.len()), (VOCAB, VOCAB), "{name}: columns");
        // `f32::max` passes over a NaN, so it is made a difference that counts.
        let difference = found.iter().zip(wanted).map(|(f, w)| if f.is_nan() || w.is_nan() { f32::INFINITY } else { (f - w).abs() });
        let difference = difference.fold(0.0, f32::max);
        assert!(difference <= TOLERANCE, "{name}: row {row} differs by {difference}");
        worst = worst.max(difference);
    }
    let largest = wanted.iter().flatten().fold(0.0, |m: f32, l| m.max(l.abs()));
    assert!(largest > 1.0, "{name}: the logits are too small to tell anything apart");
    eprintln!("{name}: at most {worst:.1e} off, in logits up to {largest:.1}");
}

fn compare(body: Body, tied: bool) {
    let checkpoint = Checkpoint::random(body, tied);
    let tokens = tokens();
    let wanted = wanted(&mut Oracle::new(&checkpoint), &tokens);
    for backend in BACKENDS {
        let options = LoadOptions { device: "cpu".into(), backend, threads: Some(2), ..LoadOptions::default() };
        let overrides = Overrides { mask_token_id: Some(VOCAB as u32 - 2), ..Overrides::default() };
        let llm = Llm::load(checkpoint.folder().to_str().unwrap(), &options, &overrides).unwrap();
        let name = |how: &str| format!("{body:?}{} {backend:?} {how}", if tied { " tied" } else { "" });
        close(&name("in one pass"), &whole(&llm, &tokens), &wanted);
        close(&name("in pieces"), &pieces(&llm, &tokens), &wanted);
    }
}

/// Norms of query and key heads, and a head size that is not C / H.
#[test]
fn sdar_is_qwen3() {
    compare(Body::Sdar, false);
}

#[test]
fn sdar_without_a_stored_head_is_tied_qwen3() {
    compare(Body::Sdar, true);
}

/// Biases on q, k and v.
#[test]
fn dream_is_qwen2() {
    compare(Body::Dream, false);
}

#[test]
fn dream_without_a_stored_head_is_tied_qwen2() {
    compare(Body::Dream, true);
}

/// Other tensor names, as many key heads as query heads, another epsilon.
#[test]
fn llada_is_llama() {
    compare(Body::Llada, false);
}

#[test]
fn llada_without_a_stored_head_is_tied_llama() {
    compare(Body::Llada, true);
}
