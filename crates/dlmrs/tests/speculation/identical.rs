//! Whatever is guessed, the tokens are those of the target alone, and it never takes more passes.

use std::sync::{Arc, OnceLock};

use dlmrs::decode::{Acceptance, Amount, BlockDiffusion, Decoding, Fallback, Lookahead, Role, SimSD, Strategy, Took, VerifyLayout};
use dlmrs::speculate::cost::Pace;
use dlmrs::{Llm, SamplingParams};
use proptest::prelude::*;
use proptest::strategy::Strategy as Any;

use crate::common::{Garble, MASK, drive, golden, task};

const RULES: [Strategy; 5] =
    [Strategy::Sequential, Strategy::LowConfidenceStatic, Strategy::LowConfidenceDynamic, Strategy::EntropyBounded, Strategy::Margin];

fn models() -> &'static [Arc<Llm>] {
    static MODELS: OnceLock<Vec<Arc<Llm>>> = OnceLock::new();
    MODELS.get_or_init(|| ["sdar", "sdar_tied", "sdar_onelayer"].map(golden).into())
}

pub(crate) fn rule() -> impl Any<Value = BlockDiffusion> {
    (1usize..9, 1usize..10, 0usize..5, 0.01f32..0.6, 0.1f32..9.0).prop_map(|(length, steps, strategy, threshold, bound)| BlockDiffusion {
        block_length: Some(length),
        steps: Some(steps),
        strategy: RULES[strategy],
        threshold: (RULES[strategy] == Strategy::LowConfidenceDynamic).then_some(threshold),
        entropy_bound: (RULES[strategy] == Strategy::EntropyBounded).then_some(bound),
    })
}

pub(crate) fn params() -> impl Any<Value = SamplingParams> {
    (
        prop_oneof![Just(0.0f32), Just(0.7), Just(1.5)],
        prop_oneof![3 => Just(0usize), 1 => Just(5)],
        prop_oneof![3 => Just(1.0f32), 1 => Just(1.4)],
        1usize..20,
    )
        .prop_map(|(temperature, top_k, repetition_penalty, max_tokens)| SamplingParams {
            max_tokens,
            temperature,
            top_k,
            repetition_penalty,
            ignore_eos: true,
            ..SamplingParams::default()
        })
}

pub(crate) fn prompt() -> impl Any<Value = Vec<u32>> {
    proptest::collection::vec(prop_oneof![9 => 0u32..300, 1 => Just(MASK)], 1..20)
}

pub(crate) fn simsd() -> impl Any<Value = SimSD> {
    let gamma = (1usize..9, any::<bool>(), prop_oneof![4 => Just(false), 1 => Just(true)]);
    let rest = (proptest::option::of(1usize..4), any::<bool>(), proptest::option::of(1usize..60), any::<bool>(), any::<bool>());
    (rule(), gamma, 1usize..4, rest).prop_map(
        |(block, (gamma, limited, auto), blocks, (draft_steps, own_guesses, max_rows, target, sequential))| {
            let length = block.block_length.unwrap_or(1);
            SimSD {
                block,
                gamma: if auto { Amount::Auto } else { limited.then_some(gamma.min(length)).into() },
                blocks: if sequential { 1 } else { blocks },
                draft_steps,
                own_guesses,
                max_rows: match max_rows {
                    _ if sequential => Amount::All,
                    Some(rows) if rows % 4 == 0 => Amount::Auto,
                    rows => rows.into(),
                },
                alternatives: target,
                overlap: blocks % 2 == 0 && !sequential,
                layout: if sequential { VerifyLayout::Sequential } else { VerifyLayout::States },
                accept: Acceptance::Identical,
                fallback: if target { Fallback::Target } else { Fallback::Draft },
                ..SimSD::default()
            }
        },
    )
}

fn alone(block: &BlockDiffusion) -> Decoding {
    Decoding::Block(block.clone())
}

const QUIET: Garble = Garble { percent: 0, seed: 0 };

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn with_a_draft(
        model in 0usize..3, settings in simsd(), prompt in prompt(), params in params(), seed in 0u64..100, percent in prop_oneof![Just(0u64), 5u64..40]
    ) {
        let llm = &models()[model];
        let task = || task(prompt.clone(), params.clone(), seed);
        let wanted = drive(llm, &alone(&settings.block), task(), QUIET);
        let sequential = settings.layout == VerifyLayout::Sequential;
        let found = drive(llm, &Decoding::SimSD(settings), task(), Garble { percent, seed });
        prop_assert_eq!(&found.canvas, &wanted.canvas);
        prop_assert!(sequential || found.passes <= wanted.passes, "{} passes, {} alone", found.passes, wanted.passes);
    }

    #[test]
    fn with_own_guesses(
        model in 0usize..3, block in rule(), blocks in 1usize..5, probes in 0usize..4, max_rows in proptest::option::of(1usize..80),
        prompt in prompt(), params in params(), seed in 0u64..100
    ) {
        let llm = &models()[model];
        let task = || task(prompt.clone(), params.clone(), seed);
        let wanted = drive(llm, &alone(&block), task(), QUIET);
        let max_rows = if seed % 5 == 0 { Amount::Auto } else { max_rows.into() };
        let settings = Lookahead { block, blocks, probes, alternatives: seed % 2 == 0, max_rows: Some(max_rows), ..Lookahead::default() };
        let found = drive(llm, &Decoding::Lookahead(settings), task(), QUIET);
        prop_assert_eq!(&found.canvas, &wanted.canvas);
        prop_assert!(found.passes <= wanted.passes, "{} passes, {} alone", found.passes, wanted.passes);
    }
}

/// A request that begins knowing what passes take does not try a draft that cannot pay, and tries one that does.
#[test]
fn what_others_took_decides_the_first_draft() {
    let llm = golden("sdar");
    for (seconds, drafts) in [(50.0, false), (0.01, true)] {
        let mut pace = Pace::default();
        for rows in [4, 12, 40, 8, 24] {
            pace.add(Role::Target, Took { rows, seconds: 1.0 + 0.001 * rows as f64 });
            pace.add(Role::Draft, Took { rows: 4, seconds });
        }
        let settings = SimSD { gamma: Amount::Auto, ..SimSD::default() };
        let params = SamplingParams { max_tokens: 8, ignore_eos: true, ..SamplingParams::default() };
        let mut decoder = Decoding::SimSD(settings).decoder(task(vec![5, 6, 7, 8], params, 0));
        assert_eq!(decoder.next_rows(), 8);
        decoder.told(pace);
        let wishes = decoder.next().unwrap();
        assert_eq!(wishes.iter().map(|wish| wish.model).collect::<Vec<_>>(), [if drafts { Role::Draft } else { Role::Target }]);
        wishes[0].pass.validate(0, llm.config().vocab).unwrap();
    }
}

/// A draft that is the target itself is accepted whole: one pass a block, and nothing wasted.
#[test]
fn a_perfect_draft_takes_one_pass_a_block() {
    let llm = golden("sdar");
    for strategy in RULES {
        for (temperature, length) in [(0.0, 4), (0.9, 4), (0.0, 8)] {
            let block = BlockDiffusion { block_length: Some(length), strategy, ..BlockDiffusion::default() };
            let params = SamplingParams { max_tokens: 24, temperature, ignore_eos: true, ..SamplingParams::default() };
            let task = || task(vec![5, 6, 7, 8, 9, 10, 11, 12], params.clone(), 3);
            let settings = SimSD { block: block.clone(), own_guesses: false, ..SimSD::default() };
            let run = drive(&llm, &Decoding::SimSD(settings.clone()), task(), QUIET);
            assert_eq!(run.canvas, drive(&llm, &alone(&block), task(), QUIET).canvas);
            let tally = run.decoder.tally();
            assert_eq!((run.passes, tally.rounds), (24 / length, 24 / length), "{strategy:?}");
            assert_eq!((tally.drafted, tally.accepted, tally.corrections, tally.wasted), (24, 24, 0, 0));
            let several = SimSD { blocks: 3, ..settings };
            assert_eq!(drive(&llm, &Decoding::SimSD(several), task(), QUIET).passes, (24 / length).div_ceil(3), "{strategy:?}");
        }
    }
}
