//! Rejection sampling on a vocabulary of six tokens: the law of the tokens is the target's in the draft's order.

use std::sync::Arc;

use dlmrs::decode::{Acceptance, BlockDiffusion, Decoding, SimSD, Strategy, Variant, VerifyLayout};
use dlmrs::pass::{Bits, Keep, Pass, Sees};
use dlmrs::speculate::layout::{Drafted, KNOWN, Laid, Prefix, no_leak};
use dlmrs::{Llm, Request, SamplingParams};

use crate::common::{MASK, golden_pair};

const V: usize = 6;
const SAMPLES: u64 = 3000;
const PROMPT: [u32; 4] = [50, 60, 70, 80];

fn params(seed: u64) -> SamplingParams {
    let banned_token_ids = (V as u32..320).filter(|&id| id != MASK).collect();
    SamplingParams { max_tokens: 2, temperature: 1.0, seed: Some(seed), ignore_eos: true, banned_token_ids, ..SamplingParams::default() }
}

fn softmax(row: &[f32]) -> Vec<f64> {
    let weights: Vec<f64> = row[..V].iter().map(|&l| f64::from(l).exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|w| w / total).collect()
}

/// How often each pair came out, over many seeds.
fn pairs(llm: &Arc<Llm>, decoding: &Decoding) -> (Vec<u64>, usize) {
    let request = |seed| Request { prompt: PROMPT.into(), params: params(seed), decoding: Some(decoding.clone()) };
    let outputs = llm.generate((0..SAMPLES).map(request).collect(), |_, _| true).unwrap();
    let mut counts = vec![0; V * V];
    for output in &outputs {
        counts[output.token_ids[0] as usize * V + output.token_ids[1] as usize] += 1;
    }
    (counts, outputs.iter().map(|output| output.stats.speculation.corrections).sum())
}

/// Cells that would hold fewer than 5 are put together.
fn chi_square(counts: &[u64], law: &[f64]) -> (f64, usize) {
    let n: u64 = counts.iter().sum();
    let (mut sum, mut cells, mut rest) = (0.0, 0, (0.0, 0.0));
    let mut add = |found: f64, wanted: f64| {
        sum += (found - wanted).powi(2) / wanted;
        cells += 1;
    };
    for (&count, p) in counts.iter().zip(law) {
        let wanted = p * n as f64;
        if wanted < 5.0 {
            rest = (rest.0 + count as f64, rest.1 + wanted);
        } else {
            add(count as f64, wanted);
        }
    }
    if rest.1 > 0.5 {
        add(rest.0, rest.1);
    }
    (sum, cells - 1)
}

/// The 99.99 % quantile, by Wilson and Hilferty. The seeds are fixed, so the test passes or fails for good.
fn bound(freedom: usize) -> f64 {
    let k = freedom as f64;
    k * (1.0 - 2.0 / (9.0 * k) + 3.719 * (2.0 / (9.0 * k)).sqrt()).powi(3)
}

fn assert_law(name: &str, counts: &[u64], law: &[f64]) {
    assert!((law.iter().sum::<f64>() - 1.0).abs() < 1e-6, "{name}");
    let (sum, freedom) = chi_square(counts, law);
    assert!(sum < bound(freedom), "{name}: chi-square {sum} with {freedom} degrees of freedom");
}

fn firsts(counts: &[u64]) -> Vec<u64> {
    counts.chunks(V).map(|row| row.iter().sum()).collect()
}

/// The law of (first, second) where slot 0 is revealed first; `second` gives the row of slot 1 after slot 0 holds a token.
fn joint(first: &[f64], second: impl Fn(u32) -> Vec<f64>) -> Vec<f64> {
    (0..V).flat_map(|a| second(a as u32).into_iter().map(move |p| (a, p))).map(|(a, p)| first[a] * p).collect()
}

fn state(llm: &Llm, block: [u32; 2], row: usize) -> Vec<f64> {
    let tokens: Vec<u32> = PROMPT.into_iter().chain(block).collect();
    let blocks = Bits::from_fn(6, 6, |row, key| key / 2 <= row / 2);
    softmax(&llm.logits(&tokens, None, Some(blocks), Some(vec![4 + row as u32])).unwrap()[0])
}

fn simsd(layout: VerifyLayout, accept: Acceptance) -> Decoding {
    let block = BlockDiffusion { block_length: Some(2), strategy: Strategy::Sequential, ..BlockDiffusion::default() };
    Decoding::SimSD(SimSD { block, layout, accept, ..SimSD::default() })
}

#[test]
fn rejection_draws_from_the_target() {
    let llm = golden_pair("sdar", "sdar_onelayer").unwrap();
    let first = state(&llm, [MASK; 2], 0);
    let law = joint(&first, |a| state(&llm, [a, MASK], 1));
    for layout in [VerifyLayout::States, VerifyLayout::Sequential] {
        let (counts, corrections) = pairs(&llm, &simsd(layout, Acceptance::Rejection));
        assert!(corrections > SAMPLES as usize / 20, "the draft is another model: {corrections}");
        assert_law("first", &firsts(&counts), &first);
        assert_law("pairs", &counts, &law);
    }
    // Against the test itself: the draft's own law is another.
    let drafts = llm.draft_model().unwrap();
    let mut cache = drafts.new_cache();
    let tokens: Vec<u32> = PROMPT.into_iter().chain([MASK; 2]).collect();
    let pass = Pass { tokens, positions: (0..6).collect(), base: 0, sees: Sees::Blocks(2), keep: Keep::Nothing, read: vec![4], tap: None };
    let other = softmax(&drafts.forward(&mut [(pass, &mut cache)]).unwrap().row(0).unwrap());
    let (counts, _) = pairs(&llm, &simsd(VerifyLayout::States, Acceptance::Rejection));
    let (sum, freedom) = chi_square(&firsts(&counts), &other);
    assert!(sum > bound(freedom), "the two models are too alike to tell");
}

/// `no_leak` draws from the model that its layout defines: the first token is the target's, the second that layout's.
#[test]
fn no_leak_is_a_sampler_for_its_own_model() {
    let llm = golden_pair("sdar", "sdar_onelayer").unwrap();
    let first = state(&llm, [MASK; 2], 0);
    let second = |a: u32| {
        let drafted = Drafted { start: 4, tokens: vec![a, 0], tau: vec![1, 2], mask_token_id: MASK };
        let Laid { pass, read, .. } = no_leak(&Prefix { base: 0, tokens: &PROMPT, block_length: 2 }, &drafted);
        assert!(read[1] == (0, 5) && drafted.tau.iter().all(|&t| t != KNOWN));
        let hidden = llm.model().forward(&mut [(pass, &mut llm.model().new_cache())]).unwrap();
        softmax(&hidden.row(1).unwrap())
    };
    let (counts, _) = pairs(&llm, &simsd(VerifyLayout::NoLeak, Acceptance::Rejection));
    assert_law("first", &firsts(&counts), &first);
    assert_law("pairs", &counts, &joint(&first, second));
}

/// S2D2's exact variant, always verifying, draws from the model at block length 1.
#[test]
fn exact_self_speculation_draws_from_the_left_to_right_model() {
    let llm = golden_pair("sdar", "sdar_onelayer").unwrap();
    let row = |tokens: &[u32]| {
        let n = tokens.len();
        let causal = Bits::from_fn(n, n, |row, key| key <= row);
        softmax(&llm.logits(tokens, None, Some(causal), Some(vec![n as u32 - 1])).unwrap()[0])
    };
    let with = |more: &[u32]| PROMPT.iter().copied().chain(more.iter().copied()).collect::<Vec<u32>>();
    let first = row(&with(&[MASK]));
    let law = joint(&first, |a| row(&with(&[a, MASK])));
    let block = BlockDiffusion { block_length: Some(2), ..BlockDiffusion::default() };
    let settings = dlmrs::S2D2 { block, variant: Variant::Exact, ..dlmrs::S2D2::default() };
    let (counts, corrections) = pairs(&llm, &Decoding::S2D2(settings));
    assert!(corrections > SAMPLES as usize / 20, "{corrections}");
    assert_law("pairs", &counts, &law);
}
