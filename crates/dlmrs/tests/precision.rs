//! How the weights are held: bf16 that changes no bit, rounding that changes little, and the promises that hold whatever it is.
#![allow(clippy::unwrap_used, clippy::expect_used)] // tests

use std::path::Path;
use std::sync::Arc;

use dlmrs::decode::{BlockDiffusion, Decoding, Lookahead, SimSD};
use dlmrs::tokenizer::Specials;
use dlmrs::{Backend, DraftSource, Error, Llm, LoadOptions, Output, Overrides, Precision, Request, SamplingParams};

const INT4: Precision = Precision::Int4;
const INT4_WIDE: Precision = Precision::Int4Wide;
const BUNDLED: [&str; 3] = ["tiny-sdar", "tiny-sdar-draft", "tiny-llada"];

fn folder(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let bundled = root.join("bundled").join(name);
    let path = if bundled.exists() { bundled } else { root.join("../../tests/golden").join(name) };
    path.to_str().unwrap().to_owned()
}

fn options(dtype: Precision, threads: usize) -> LoadOptions {
    LoadOptions { device: "cpu".into(), dtype, backend: Backend::Auto, threads: Some(threads) }
}

/// The recorded models do not name their mask.
fn overrides(name: &str) -> Overrides {
    Overrides { mask_token_id: (!BUNDLED.contains(&name)).then_some(319), ..Overrides::default() }
}

fn load(name: &str, dtype: Precision) -> Arc<Llm> {
    Llm::load(&folder(name), &options(dtype, 2), &overrides(name)).unwrap()
}

fn refused(name: &str, options: &LoadOptions) -> String {
    match Llm::load(&folder(name), options, &overrides(name)) {
        Ok(_) => panic!("{name} was loaded with {options:?}"),
        Err(error @ Error::Input { .. }) => error.to_string(),
        Err(error) => panic!("{error}"),
    }
}

/// Logits of a text with some masks.
fn logits(llm: &Llm) -> Vec<Vec<f32>> {
    let mask = llm.facts().mask_token_id;
    let vocab = llm.config().vocab as u32;
    let tokens: Vec<u32> = (0..48).map(|i| if i % 3 == 2 { mask } else { i * 7919 % (vocab - 40) + 20 }).collect();
    llm.logits(&tokens, None, None, None).unwrap()
}

fn argmax(row: &[f32]) -> usize {
    (0..row.len()).max_by(|a, b| row[*a].total_cmp(&row[*b])).unwrap()
}

/// Of rows with the same most likely token, the share; and the mean distance over the spread of the logits.
fn likeness(a: &[Vec<f32>], b: &[Vec<f32>]) -> (f64, f64) {
    let same = a.iter().zip(b).filter(|(a, b)| argmax(a) == argmax(b)).count() as f64 / a.len() as f64;
    let pairs = || a.iter().flatten().zip(b.iter().flatten()).map(|(a, b)| (f64::from(*a), f64::from(*b)));
    let n = pairs().count() as f64;
    let mean = pairs().map(|(a, _)| a).sum::<f64>() / n;
    let spread = (pairs().map(|(a, _)| (a - mean) * (a - mean)).sum::<f64>() / n).sqrt();
    (same, (pairs().map(|(a, b)| (a - b) * (a - b)).sum::<f64>() / n).sqrt() / spread)
}

#[test]
fn bf16_as_it_is_stored_changes_no_bit() {
    for name in BUNDLED {
        let (auto, wide) = (load(name, Precision::Auto), load(name, Precision::F32));
        assert_eq!((auto.model().weights(), wide.model().weights()), ("bf16", "f32"));
        assert!(logits(&auto) == logits(&wide), "{name}");
    }
    assert_eq!(load("sdar", Precision::Auto).model().weights(), "f32");
}

#[test]
fn rounded_weights_stay_close() {
    for name in BUNDLED.into_iter().chain(["dream", "llada_moe", "sdar_tied"]) {
        let exact = logits(&load(name, Precision::F32));
        for (dtype, alike, distance) in
            [(Precision::Bf16, 0.95, 0.02), (Precision::Int8, 0.9, 0.04), (INT4, 0.6, 0.35), (INT4_WIDE, 0.5, 0.45)]
        {
            let llm = load(name, dtype);
            assert_eq!(llm.model().weights(), dtype.name());
            let (same, far) = likeness(&exact, &logits(&llm));
            // Random models are never sure of a token, and rounding may send a row to other experts.
            let (alike, distance) = if BUNDLED.contains(&name) { (alike, distance) } else { (0.0, 3.0 * distance) };
            assert!(same >= alike && far <= distance, "{name} as {}: {same} the same, at a distance of {far}", dtype.name());
            assert!(far > 0.0, "{name} as {}: nothing was rounded", dtype.name());
        }
    }
}

fn requests(llm: &Llm, decoding: Option<&Decoding>) -> Vec<Request> {
    let questions =
        ["Tom has 3 apples and buys 4 more. How many?", "What is 12 plus 30?", "A short one.", "Ann has 9 books and gives 2 away."];
    let request = |(i, text): (usize, &&str)| {
        let prompt = llm.tokenizer().unwrap().encode(text, Specials::AsText).unwrap();
        let temperature = if i % 2 == 0 { 0.0 } else { 0.8 };
        let params = SamplingParams { max_tokens: 24, temperature, seed: Some(i as u64), ignore_eos: true, ..SamplingParams::default() };
        Request { prompt, params, decoding: decoding.cloned() }
    };
    questions.iter().enumerate().map(request).collect()
}

fn tokens(outputs: &[Output]) -> Vec<Vec<u32>> {
    outputs.iter().map(|output| output.token_ids.clone()).collect()
}

#[test]
fn requests_together_are_as_requests_alone() {
    for name in ["tiny-sdar", "tiny-llada"] {
        for dtype in [Precision::Bf16, Precision::Int8, INT4] {
            let llm = load(name, dtype);
            let together = tokens(&llm.generate(requests(&llm, None), |_, _| true).unwrap());
            let one_thread = Llm::load(&folder(name), &options(dtype, 1), &Overrides::default()).unwrap();
            for (i, request) in requests(&llm, None).into_iter().enumerate() {
                let alone = tokens(&one_thread.generate(vec![request], |_, _| true).unwrap());
                assert_eq!(alone[0], together[i], "{name} as {}, request {i}", dtype.name());
            }
        }
    }
}

/// What is promised of speculation holds for whatever the target computes.
#[test]
fn speculation_is_identical_with_rounded_weights() {
    for dtype in [Precision::Bf16, Precision::Int8, INT4] {
        let draft = DraftSource::Model { name: folder("tiny-sdar-draft"), options: options(INT4, 1) };
        let pair = Llm::load_pair(&folder("tiny-sdar"), &draft, &options(dtype, 2), &Overrides::default(), &mut |_, _| true).unwrap();
        let alone = Decoding::Block(BlockDiffusion { block_length: Some(8), ..BlockDiffusion::default() });
        let want = pair.generate(requests(&pair, Some(&alone)), |_, _| true).unwrap();
        let rule = BlockDiffusion { block_length: Some(8), ..BlockDiffusion::default() };
        for method in [
            Decoding::SimSD(SimSD { block: rule.clone(), ..SimSD::default() }),
            Decoding::Lookahead(Lookahead { block: rule.clone(), ..Lookahead::default() }),
        ] {
            let found = pair.generate(requests(&pair, Some(&method)), |_, _| true).unwrap();
            assert_eq!(tokens(&found), tokens(&want), "{} with {method:?}", dtype.name());
        }
    }
}

#[test]
fn plain_candle_rounds_too() {
    for name in BUNDLED {
        let exact = logits(&load(name, Precision::F32));
        for (dtype, distance) in [(Precision::Int8, 0.04), (INT4, 0.45)] {
            let llm =
                Llm::load(&folder(name), &LoadOptions { backend: Backend::Plain, ..options(dtype, 2) }, &Overrides::default()).unwrap();
            let (_, far) = likeness(&exact, &logits(&llm));
            assert!(far > 0.0 && far <= distance, "{name} as {}: at a distance of {far}", dtype.name());
        }
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let plain = |dtype| LoadOptions { backend: Backend::Plain, ..options(dtype, 1) };
    for (name, options, message) in [
        ("tiny-sdar", options(Precision::F16, 1), "dtype: f16 is not available on a CPU; use auto, f32, bf16, int8 or int4"),
        (
            "tiny-sdar",
            plain(Precision::Bf16),
            "dtype: bf16 is not available with plain Candle on a CPU; use f32 (or auto), or another backend",
        ),
        ("tiny-sdar", plain(INT4_WIDE), "dtype: int4-128 is for a CPU's kernels; use int4 with plain Candle"),
        ("sdar", plain(Precision::Int8), "dtype: int8 needs rows of a multiple of 32 with plain Candle, but one has 48"),
    ] {
        assert_eq!(refused(name, &options), message);
    }
}
