//! Lookahead inside a canvas's block: the tokens of the dual cache alone, whatever is guessed, and never more passes.

use std::sync::{Arc, OnceLock};

use dlmrs::decode::{
    Amount, CacheMode, Canvas, Decoding, DreamAlg, DropoutKind, EarlyStop, Lookahead, PassKind, Refresh, Remasking, Spotlight, Suffix,
    SuffixDropout, Task, WindowTail,
};
use dlmrs::pass::{Keep, Pass, Sees};
use dlmrs::sample::{Confidence, FilterOrder};
use dlmrs::speculate::layout::{Around, Copy, inside};
use dlmrs::tokenizer::{ChatOptions, Message, Specials};
use dlmrs::{Llm, Output, Overrides, Request, SamplingParams};
use proptest::prelude::*;
use proptest::strategy::Strategy as Any;

use crate::common::{Garble, MASK, bundled_folder, drive, golden, options, task};

fn models() -> &'static [Arc<Llm>; 2] {
    static MODELS: OnceLock<[Arc<Llm>; 2]> = OnceLock::new();
    MODELS.get_or_init(|| ["llada", "dream"].map(golden))
}

/// Made-up times by the seed; no word of a canvas is garbled, for there is no draft model.
fn times(seed: u64) -> Garble {
    Garble { percent: 0, seed }
}

/// Stop ids that come up often enough in random text to end a canvas early.
const STOPS: [u32; 40] = {
    let mut stops = [0; 40];
    let mut i = 0;
    while i < 40 {
        stops[i] = 8 * i as u32;
        i += 1;
    }
    stops
};

fn canvas_task(dream: bool, prompt: &[u32], params: &SamplingParams, seed: u64, stops: bool) -> Task {
    Task {
        shift: dream,
        alg: dream.then_some(DreamAlg::Entropy),
        eos_token_id: Some(318),
        confidence: if dream { Confidence::Shaped } else { Confidence::Raw },
        filter_order: if dream { FilterOrder::TopPFirst } else { FilterOrder::TopKFirst },
        stop_token_ids: if stops { STOPS.into() } else { vec![] },
        ..task(prompt.to_vec(), params.clone(), seed)
    }
}

fn suffix() -> impl Any<Value = Suffix> {
    prop_oneof![
        3 => Just(Suffix::Off),
        1 => Just(Suffix::DropAll),
        1 => Just(Suffix::WindowTail(WindowTail { window: Some(3), tail: 2 })),
        1 => Just(Suffix::Spotlight(Spotlight { distance: 2, count: 3 })),
        1 => (1usize..9).prop_map(|budget| {
            Suffix::Dropout(SuffixDropout { window: Some(9), budget: Some(budget), kind: DropoutKind::Uniform, ..SuffixDropout::default() })
        }),
    ]
}

/// Every deterministic rule that a canvas has, given the seed.
fn rule() -> impl Any<Value = Canvas> {
    let strategy = || prop_oneof![2 => Just(Remasking::LowConfidence), 1 => Just(Remasking::Random)];
    let alg = prop_oneof![Just(DreamAlg::Origin), Just(DreamAlg::MaskgitPlus), Just(DreamAlg::TopkMargin), Just(DreamAlg::Entropy)];
    let canvas = Canvas::default;
    prop_oneof![
        3 => (strategy(), proptest::option::of(1usize..50)).prop_map(move |(strategy, steps)| Canvas { strategy, steps, ..canvas() }),
        2 => (strategy(), 0.005f32..0.3, proptest::option::of(1usize..5))
            .prop_map(move |(strategy, threshold, max_reveals)| Canvas { strategy, threshold: Some(threshold), max_reveals, ..canvas() }),
        1 => (strategy(), 0.5f32..6.0, any::<bool>(), proptest::option::of(2usize..5)).prop_map(
            move |(strategy, factor, factor_compat, max_reveals)| Canvas {
                strategy, factor: Some(factor), factor_compat, max_reveals, ..canvas()
            }
        ),
        2 => (alg, prop_oneof![2 => Just(0.0f32), 1 => Just(0.8)], proptest::option::of(1usize..50)).prop_map(
            move |(alg, alg_temp, steps)| Canvas {
                alg: Some(alg), alg_temp: if alg == DreamAlg::Origin { 0.0 } else { alg_temp }, steps, ..canvas()
            }
        ),
    ]
}

fn canvas() -> impl Any<Value = Canvas> {
    let early_stop = prop_oneof![Just(EarlyStop::Strict), Just(EarlyStop::Compat), Just(EarlyStop::Off)];
    let guidance = prop_oneof![4 => Just(0.0f32), 1 => Just(0.7)];
    (rule(), 1usize..12, 1usize..4, suffix(), early_stop, guidance, any::<[bool; 2]>()).prop_map(
        |(rule, length, refresh, suffix, early_stop, cfg_scale, [eos, last])| Canvas {
            block_length: Some(length),
            cache: CacheMode::Dual,
            refresh: Refresh::Blocks(refresh),
            suffix,
            early_stop,
            cfg_scale,
            logits_eos_inf: eos,
            confidence_eos_eot_inf: last,
            ..rule
        },
    )
}

fn params() -> impl Any<Value = SamplingParams> {
    let temperature = prop_oneof![2 => Just(0.0f32), 1 => Just(0.7), 1 => Just(1.5)];
    let (top_k, repetition_penalty) = (prop_oneof![3 => Just(0usize), 1 => Just(5)], prop_oneof![3 => Just(1.0f32), 1 => Just(1.4)]);
    (temperature, top_k, repetition_penalty, 1usize..40, 0usize..6).prop_map(
        |(temperature, top_k, repetition_penalty, max_tokens, min_tokens)| SamplingParams {
            max_tokens,
            min_tokens: min_tokens.min(max_tokens),
            temperature,
            top_k,
            repetition_penalty,
            ..SamplingParams::default()
        },
    )
}

fn prompt() -> impl Any<Value = Vec<u32>> {
    proptest::collection::vec(prop_oneof![5 => 0u32..300, 1 => Just(MASK)], 1..14)
}

fn max_rows() -> impl Any<Value = Option<Amount>> {
    prop_oneof![Just(None), Just(Some(Amount::All)), Just(Some(Amount::Auto)), (1usize..80).prop_map(|n| Some(Amount::AtMost(n)))]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn identical_to_the_dual_cache_alone(
        dream in any::<bool>(), canvas in canvas(), alternatives in any::<bool>(), max_rows in max_rows(),
        prompt in prompt(), params in params(), seed in 0u64..1000, stops in any::<bool>()
    ) {
        let llm = &models()[usize::from(dream)];
        let task = || canvas_task(dream, &prompt, &params, seed, stops);
        let wanted = drive(llm, &Decoding::Canvas(canvas.clone()), task(), times(seed));
        let settings = Lookahead { canvas: Some(canvas), alternatives, max_rows, ..Lookahead::default() };
        let found = drive(llm, &Decoding::Lookahead(settings), task(), times(seed));
        prop_assert_eq!(&found.canvas, &wanted.canvas);
        prop_assert!(found.passes <= wanted.passes, "{} passes, {} alone", found.passes, wanted.passes);
        prop_assert_eq!(found.decoder.kept_suffix(), wanted.decoder.kept_suffix());
    }
}

/// A mixed batch of both ways, each as alone, and the one as the other, up to the stop.
#[test]
fn batches() {
    for (dream, llm) in [false, true].into_iter().zip(models()) {
        let canvases = [
            Canvas { block_length: Some(8), ..dual() },
            Canvas { block_length: Some(8), threshold: Some(0.1), refresh: Refresh::Blocks(2), ..dual() },
            Canvas { block_length: Some(5), cfg_scale: 0.5, early_stop: EarlyStop::Compat, ..dual() },
            Canvas { alg: dream.then_some(DreamAlg::TopkMargin), suffix: Suffix::DropAll, ..dual() },
        ];
        for temperature in [0.0, 1.0] {
            let request = |(i, decoding): (usize, Decoding)| Request {
                prompt: (0..6 + i as u32).map(|t| 41 * t % 300).collect(),
                params: SamplingParams {
                    max_tokens: 30,
                    temperature,
                    seed: Some(i as u64),
                    stop_token_ids: STOPS.into(),
                    ..SamplingParams::default()
                },
                decoding: Some(decoding),
            };
            let ahead = |canvas: &Canvas| Lookahead { canvas: Some(canvas.clone()), ..Lookahead::default() };
            let alone: Vec<Request> = canvases.iter().cloned().map(Decoding::Canvas).enumerate().map(request).collect();
            let guessed: Vec<Request> = canvases.iter().map(ahead).map(Decoding::Lookahead).enumerate().map(request).collect();
            let mixed: Vec<Request> = guessed.iter().chain(&alone).cloned().collect();
            let together = llm.generate(mixed, |_, _| true).unwrap();
            let (found, wanted) = together.split_at(canvases.len());
            for ((found, wanted), request) in found.iter().zip(wanted).zip(guessed) {
                assert_eq!((&found.token_ids, &found.finish_reason), (&wanted.token_ids, &wanted.finish_reason));
                let by_itself = llm.generate(vec![request], |_, _| true).unwrap().remove(0);
                assert_eq!((&by_itself.canvas_token_ids, by_itself.stats.passes), (&found.canvas_token_ids, found.stats.passes));
                assert_eq!(by_itself.stats.speculation, found.stats.speculation);
            }
        }
    }
}

fn dual() -> Canvas {
    Canvas { cache: CacheMode::Dual, ..Canvas::default() }
}

/// A pass of several copies: each row is that of its copy alone, and the cache is left as the present state alone leaves it.
#[test]
fn copies_do_not_meet() {
    for (shift, llm) in [false, true].into_iter().zip(models()) {
        let vocab = llm.config().vocab;
        // A cache of places 0 to 11, with those of the block, 4, 5, 6, 7, as a state that has passed, and 9 dropped.
        let places = [4usize, 5, 6, 7];
        let order: Vec<u32> = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11].into();
        let filled = || {
            let mut cache = llm.model().new_cache();
            let pass = Pass {
                tokens: order.iter().map(|&place| if place < 4 { 10 + place } else { MASK }).collect(),
                positions: order.clone(),
                base: 0,
                sees: Sees::Full,
                keep: Keep::Append((0..12).collect()),
                read: vec![],
                tap: None,
            };
            llm.model().forward(&mut [(pass, &mut cache)]).unwrap();
            cache
        };
        let around = Around { base: 12, own: 4, dropped: &[9], places: &places, shift };
        let states = [[7, MASK, MASK, MASK], [7, 8, MASK, MASK], [7, MASK, 9, MASK], [7, 8, 9, MASK]];
        let copy = |tokens: [u32; 4]| Copy { start: 0, tokens: tokens.into() };
        let run = |copies: &[Copy]| {
            let mut cache = filled();
            let laid = inside(&around, copies, MASK);
            laid.pass.validate(cache.len(), vocab).unwrap();
            let hidden = llm.model().forward(&mut [(laid.pass.clone(), &mut cache)]).unwrap();
            (laid.read.into_iter().zip(hidden.rows().unwrap()).collect::<Vec<_>>(), cache)
        };
        let (together, mut left) = run(&states.map(copy));
        assert_eq!(together.len(), 3 + 2 + 2 + 1);
        for (c, tokens) in states.into_iter().enumerate() {
            let (alone, mut cache) = run(&[copy(tokens)]);
            let own: Vec<_> =
                together.iter().filter(|((copy, _), _)| *copy == c).map(|((_, slot), row)| ((0, *slot), row.clone())).collect();
            assert!(own == alone, "copy {c}");
            // What a later row sees of the block in the cache tells which state was kept.
            let later = |cache: &mut _| {
                let pass = Pass {
                    tokens: vec![5],
                    positions: vec![12],
                    base: 12,
                    sees: Sees::Full,
                    keep: Keep::Nothing,
                    read: vec![0],
                    tap: None,
                };
                llm.model().forward(&mut [(pass, cache)]).unwrap().row(0).unwrap()
            };
            assert_eq!(later(&mut cache) == later(&mut left), c == 0, "copy {c}");
        }
    }
}

fn word_problems(llm: &Arc<Llm>, n: usize, decoding: &Decoding, temperature: f32) -> Vec<Output> {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../dlmrs-tasks/data/word_problems.jsonl");
    let question = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["question"].as_str().unwrap().to_string();
    let text = std::fs::read_to_string(file).unwrap();
    let prompt = |question: String| {
        llm.tokenizer().unwrap().encode_chat(&[Message::new("user", &question)], &ChatOptions::default(), Specials::AsText).unwrap()
    };
    let params = SamplingParams { max_tokens: 128, seed: Some(1), temperature, ..SamplingParams::default() };
    let request = |line| Request { prompt: prompt(question(line)), params: params.clone(), decoding: Some(decoding.clone()) };
    llm.generate(text.lines().take(n).map(request).collect(), |_, _| true).unwrap()
}

/// The bundled model on word problems, 128 slots in blocks of 32: the same texts, in far fewer cached passes.
#[test]
fn word_problems_take_fewer_passes() {
    let llm = Llm::load(&bundled_folder("tiny-llada"), &options(), &Overrides::default()).unwrap();
    let cached = |outputs: &[Output]| {
        let of = |kind| outputs.iter().map(|output| output.stats.passes.get(kind)).sum::<usize>();
        (of(PassKind::Denoise) + of(PassKind::Verify), of(PassKind::Refresh))
    };
    for (threshold, temperature, most) in [(None, 0.0, 0.5), (Some(0.9), 0.0, 0.9), (None, 1.0, 0.5)] {
        let canvas = Canvas { threshold, ..dual() };
        let wanted = word_problems(&llm, 6, &Decoding::Canvas(canvas.clone()), temperature);
        let found = word_problems(&llm, 6, &Decoding::Lookahead(Lookahead { canvas: Some(canvas), ..Lookahead::default() }), temperature);
        assert!(found.iter().zip(&wanted).all(|(a, b)| a.text == b.text && a.token_ids == b.token_ids));
        let ((fewer, refreshes), (alone, same)) = (cached(&found), cached(&wanted));
        assert_eq!(refreshes, same);
        assert!(fewer as f64 <= most * alone as f64, "{fewer} passes, {alone} alone");
        let tally = found.iter().fold(0, |sum, output| sum + output.stats.speculation.accepted);
        assert!(tally > 0 && found.iter().all(|output| output.stats.speculation.accepted <= output.stats.speculation.drafted));
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let llada = &models()[0];
    let sdar = golden("sdar");
    let refused = |llm: &Arc<Llm>, settings: Lookahead, words: &str| {
        let request = Request { prompt: vec![5], decoding: Some(Decoding::Lookahead(settings.clone())), ..Request::default() };
        let found = llm.engine().submit(request).err().unwrap_or_else(|| panic!("{settings:?} was taken")).to_string();
        assert!(found.contains(words), "{found}");
    };
    let with = |canvas: Canvas| Lookahead { canvas: Some(canvas), ..Lookahead::default() };
    refused(llada, with(Canvas::default()), "cache: is \"none\", but lookahead on a canvas needs cache=\"dual\"");
    refused(llada, with(Canvas { cache: CacheMode::Prefix, ..dual() }), "cache: is \"prefix\", but lookahead");
    refused(llada, with(Canvas { refresh: Refresh::Step, ..dual() }), "refresh: is \"step\"");
    refused(llada, with(Canvas { steps: Some(0), ..dual() }), "steps: is 0");
    refused(llada, with(Canvas { factor_compat: true, ..dual() }), "factor_compat: has an effect with a factor only");
    refused(llada, with(Canvas { suffix: Suffix::Kept(vec![]), ..dual() }), "suffix: has 0 lists");
    refused(llada, Lookahead { blocks: 3, ..with(dual()) }, "blocks: has no effect with a canvas");
    refused(llada, Lookahead { probes: 0, ..with(dual()) }, "probes: has no effect with a canvas");
    refused(llada, Lookahead { max_rows: Some(Amount::AtMost(0)), ..with(dual()) }, "max_rows: is 0");
    let mut ruled = with(dual());
    ruled.block.threshold = Some(0.5);
    refused(llada, ruled, "canvas: has a reveal rule of its own");
    refused(llada, Lookahead::default(), "use Canvas, or give Lookahead a canvas with cache=\"dual\"");
    refused(&sdar, with(dual()), "is Lookahead, but sdar is block-causal; use BlockDiffusion, or leave out canvas");
}
