//! Decoders with scripted answers and no model: progress, row accounting, what is fed and what is kept.
#![allow(clippy::unwrap_used, clippy::expect_used)] // tests

mod editing;

use dlmrs::SamplingParams;
use dlmrs::decode::{
    Answer, BlockDiffusion, CacheMode, Canvas, Decoder, Decoding, DreamAlg, DropoutKind, EarlyStop, PassKind, Refresh, Remasking,
    Spotlight, Strategy, SubBlockDiffusion, Suffix, SuffixDropout, Task, WindowTail, Wish,
};
use dlmrs::pass::{Keep, Sees};
use dlmrs::sample::{Confidence, FilterOrder, RowStat};
use proptest::prelude::*;

const MASK: u32 = 99;

fn task(prompt: Vec<u32>, max_tokens: usize) -> Task {
    Task {
        prompt,
        params: SamplingParams { max_tokens, ..SamplingParams::default() },
        seed: 1,
        mask_token_id: MASK,
        vocab: 100,
        drawable: u32::MAX,
        eos_token_id: None,
        stop_token_ids: vec![],
        threshold: 0.85,
        block_length: Some(4),
        shift: false,
        alg: None,
        confidence: Confidence::Raw,
        filter_order: FilterOrder::TopKFirst,
    }
}

/// A made-up answer for the slot at `position` in pass `n`.
fn stat(position: u32, n: usize) -> RowStat {
    let x = (position as usize * 31 + n * 17) % 97;
    RowStat { token: position % 50, probability: x as f32 / 97.0, entropy: x as f32 / 30.0, margin: x as f32 / 200.0 }
}

/// A made-up attention.
fn tapped(wish: &Wish) -> Vec<Vec<f32>> {
    let row = |keys: &[u32]| keys.iter().map(|key| (key * 29 % 31) as f32).collect();
    wish.pass.tap.as_ref().map_or(Vec::new(), |tap| tap.queries.iter().map(|_| row(&tap.keys)).collect())
}

/// Runs a decoder to its end and checks, pass by pass, what every decoder must keep to.
fn finish(decoder: &mut dyn Decoder) -> Vec<Wish> {
    let given: Vec<(usize, u32)> = decoder.canvas().iter().copied().enumerate().filter(|(_, id)| *id != MASK).collect();
    let mut history = Vec::new();
    let mut cached = 0;
    while !decoder.finished() {
        let announced = decoder.next_rows();
        let wishes = decoder.next().unwrap();
        assert!(!wishes.is_empty(), "an unfinished decoder wants a pass");
        assert_eq!(wishes.iter().map(|w| w.pass.rows()).sum::<usize>(), announced);
        let before = decoder.canvas().to_vec();
        for wish in wishes.iter().filter(|w| w.cache == 0) {
            wish.pass.validate(cached, 100).unwrap();
            assert_eq!(wish.rows.total(), wish.pass.rows(), "every row is counted once");
            cached = wish.pass.kept_len();
        }
        let stats = |wish: &Wish| wish.scans.iter().map(|scan| stat(scan.rule.position, history.len())).collect();
        let answer = |wish: &Wish| Answer { stats: stats(wish), tapped: tapped(wish), ..Answer::default() };
        let answers: Vec<Answer> = wishes.iter().map(answer).collect();
        let revealed = decoder.take(&answers).unwrap();
        let scanned: usize = wishes.iter().map(|w| w.scans.len()).sum();
        assert!(scanned == 0 || !revealed.is_empty(), "a pass that reads decides something");
        for r in &revealed {
            assert_eq!(before[r.position], MASK, "only masks are decided");
            assert_eq!(decoder.canvas()[r.position], r.stat.token);
        }
        let changed = before.iter().zip(decoder.canvas()).filter(|(a, b)| a != b).count();
        assert_eq!(changed, revealed.len(), "nothing else changes");
        history.extend(wishes);
        assert!(history.len() < 5000, "no end");
    }
    assert!(!decoder.canvas().contains(&MASK));
    assert!(given.iter().all(|&(p, id)| decoder.canvas()[p] == id), "the prompt is never touched");
    assert_eq!(decoder.committed(), decoder.canvas().len());
    assert!(decoder.next().unwrap().is_empty());
    history
}

#[test]
fn a_short_prompt_rides_along_and_commits_are_folded() {
    let settings = BlockDiffusion { strategy: Strategy::LowConfidenceStatic, ..BlockDiffusion::default() };
    let mut decoder = Decoding::Block(settings).decoder(task(vec![1; 10], 9)); // blocks 0-3 4-7 | 8-11 12-15 16-19
    let wishes = finish(&mut *decoder);
    assert_eq!(wishes.len(), 2 + 4 + 4, "one pass a slot, and nothing else");
    assert!(wishes.iter().all(|w| w.kind == PassKind::Denoise));
    assert_eq!(wishes[0].pass.rows(), 12);
    assert_eq!((wishes[0].rows.get(PassKind::Prefill), wishes[0].rows.get(PassKind::Denoise)), (8, 4));
    assert_eq!(wishes[0].pass.keep, Keep::Append((0..8).collect()));
    assert_eq!(wishes[0].pass.sees, Sees::Blocks(4));
    assert_eq!(wishes[0].pass.read, [10, 11]);
    assert_eq!(wishes[1].pass.rows(), 4);
    assert_eq!((wishes[2].rows.get(PassKind::Commit), wishes[2].rows.get(PassKind::Denoise), wishes[2].pass.base), (4, 4, 8));
}

#[test]
fn long_prompts_are_prefilled_in_pieces() {
    let mut decoder = Decoding::Block(BlockDiffusion::default()).decoder(task(vec![1; 1301], 4));
    let wishes = finish(&mut *decoder);
    let prefill: Vec<usize> = wishes.iter().filter(|w| w.kind == PassKind::Prefill).map(|w| w.pass.rows()).collect();
    assert_eq!(prefill, [512, 512]);
    assert_eq!(wishes[2].rows.get(PassKind::Prefill), 1300 - 1024);
}

#[test]
fn the_sequential_rule_reads_only_what_it_reveals() {
    let settings = BlockDiffusion { strategy: Strategy::Sequential, ..BlockDiffusion::default() };
    let wishes = finish(&mut *Decoding::Block(settings).decoder(task(vec![1; 4], 8)));
    assert!(wishes.iter().all(|w| w.scans.len() == 1));
}

#[test]
fn masks_in_a_prompt_are_filled() {
    let prompt = vec![1, MASK, 3, 4, 5, 6, 7, 8, MASK, 10];
    let wishes = finish(&mut *Decoding::Block(BlockDiffusion::default()).decoder(task(prompt.clone(), 3)));
    assert_eq!(wishes[0].pass.read, [1]);
    finish(&mut *Decoding::Canvas(Canvas::default()).decoder(task(prompt.clone(), 3)));
    // Nothing but the masks of the prompt.
    finish(&mut *Decoding::Canvas(Canvas::default()).decoder(task(prompt.clone(), 0)));
    finish(&mut *Decoding::Block(BlockDiffusion::default()).decoder(task(prompt, 0)));
}

#[test]
fn nothing_to_do_costs_nothing() {
    for decoding in [Decoding::Block(BlockDiffusion::default()), Decoding::Canvas(Canvas::default())] {
        let mut decoder = decoding.decoder(task(vec![1, 2, 3], 0));
        assert!(decoder.finished() && decoder.next().unwrap().is_empty());
        assert_eq!(decoder.canvas(), [1, 2, 3]);
    }
}

#[test]
fn a_canvas_feeds_everything_and_reads_the_masks_of_its_block() {
    let settings = Canvas { block_length: Some(8), ..Canvas::default() };
    let wishes = finish(&mut *Decoding::Canvas(settings).decoder(task(vec![1; 5], 20)));
    assert_eq!(wishes.len(), 20);
    assert!(wishes.iter().all(|w| w.pass.rows() == 25 && w.pass.keep == Keep::Nothing));
    assert_eq!(wishes[0].pass.read, (5..13).collect::<Vec<u32>>());
    assert_eq!(wishes[16].pass.read, (21..25).collect::<Vec<u32>>(), "the last block is shorter");
}

#[test]
fn the_shift_reads_the_row_before() {
    let settings = Canvas { block_length: Some(4), threshold: Some(0.0), ..Canvas::default() };
    let shifted = Task { shift: true, alg: Some(DreamAlg::Entropy), ..task(vec![MASK, 1], 3) };
    let wishes = finish(&mut *Decoding::Canvas(settings).decoder(shifted));
    assert_eq!(wishes[0].pass.read, [0, 1, 2, 3], "slot 0 has no row before it");
    assert_eq!(wishes[0].scans.iter().map(|s| s.rule.position).collect::<Vec<_>>(), [0, 2, 3, 4]);
}

#[test]
fn guidance_hides_what_was_given_and_only_that() {
    let settings = Canvas { cfg_scale: 1.0, block_length: Some(4), ..Canvas::default() };
    let mut decoder = Decoding::Canvas(settings).decoder(task(vec![7, MASK, 8], 2));
    assert_eq!(decoder.caches(), 2);
    let first = decoder.next().unwrap();
    assert_eq!(first[0].pass.tokens, [7, MASK, 8, MASK, MASK]);
    assert_eq!(first[1].pass.tokens, [MASK; 5]);
    assert!(first[1].scans.is_empty() && first[0].scans[0].guide == Some((1, 0, 1.0)));
    let stats = first[0].scans.iter().map(|s| stat(s.rule.position, 0)).collect();
    let answers = [Answer { stats, ..Answer::default() }, Answer::default()];
    let revealed = decoder.take(&answers).unwrap();
    let second = decoder.next().unwrap();
    assert_eq!(second[1].pass.tokens[revealed[0].position], revealed[0].stat.token, "what was decided is shown to both");
}

#[test]
fn random_remasking_is_a_function_of_the_seed() {
    let order = |seed| {
        let settings = Canvas { strategy: Remasking::Random, block_length: Some(16), ..Canvas::default() };
        let mut decoder = Decoding::Canvas(settings).decoder(Task { seed, ..task(vec![1], 16) });
        finish(&mut *decoder).iter().map(|w| w.scans[0].rule.position).collect::<Vec<_>>()
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
}

/// The random slot order is uniform: over many seeds each slot comes first about equally often.
#[test]
fn random_remasking_is_fair() {
    let mut first = [0u32; 8];
    for seed in 0..4000 {
        let settings = Canvas { strategy: Remasking::Random, block_length: Some(8), ..Canvas::default() };
        let mut decoder = Decoding::Canvas(settings).decoder(Task { seed, ..task(vec![1], 8) });
        first[decoder.next().unwrap()[0].scans[0].rule.position as usize - 1] += 1;
    }
    // 4,000 / 8 = 500, standard deviation 21.
    assert!(first.iter().all(|&n| n.abs_diff(500) < 105), "{first:?}");
}

fn any_cache() -> impl Strategy2Base<Value = CacheMode> {
    prop_oneof![Just(CacheMode::None), Just(CacheMode::Prefix), Just(CacheMode::Dual)]
}

fn any_suffix() -> impl Strategy2Base<Value = Suffix> {
    let kinds = [DropoutKind::Gaussian, DropoutKind::Uniform, DropoutKind::Exponential, DropoutKind::Linear, DropoutKind::Step];
    let dropout =
        (proptest::option::of(1usize..30), 0usize..5, proptest::option::of(0usize..20)).prop_map(move |(window, kind, budget)| {
            let budget = budget.map(|budget| budget.min(window.unwrap_or(64)));
            Suffix::Dropout(SuffixDropout { window, kind: kinds[kind], budget, ..SuffixDropout::default() })
        });
    let tail = (proptest::option::of(1usize..30), 0usize..4).prop_map(|(window, tail)| Suffix::WindowTail(WindowTail { window, tail }));
    let spotlight = (0usize..12, 1usize..5).prop_map(|(distance, count)| Suffix::Spotlight(Spotlight { distance, count }));
    prop_oneof![Just(Suffix::Off), Just(Suffix::KeepAll), Just(Suffix::DropAll), dropout, tail, spotlight]
}

fn any_decoding() -> impl Strategy2 {
    let strategies =
        [Strategy::Sequential, Strategy::LowConfidenceStatic, Strategy::LowConfidenceDynamic, Strategy::EntropyBounded, Strategy::Margin];
    let block = (1usize..12, 1usize..15, 0usize..5, -0.5f32..1.5, 0f32..4.0).prop_map(move |(b, steps, s, threshold, bound)| {
        Decoding::Block(BlockDiffusion {
            block_length: Some(b),
            steps: Some(steps),
            strategy: strategies[s],
            threshold: Some(threshold),
            entropy_bound: Some(bound),
        })
    });
    let algs = [
        None,
        Some(DreamAlg::Origin),
        Some(DreamAlg::MaskgitPlus),
        Some(DreamAlg::TopkMargin),
        Some(DreamAlg::Entropy),
        Some(DreamAlg::EvenEntropy),
    ];
    let rules = (proptest::option::of(-0.5f32..1.5), proptest::option::of(0f32..3.0), any::<bool>(), proptest::option::of(1usize..6));
    let caches = (any_cache(), prop_oneof![2 => (1usize..4).prop_map(Refresh::Blocks), 1 => Just(Refresh::Step)], any_suffix());
    let canvas = (1usize..20, 1usize..30, rules, 0usize..6, any::<bool>(), any::<bool>(), 0f32..1.0, caches).prop_map(
        move |(b, steps, (threshold, factor, factor_compat, max_reveals), alg, random, guided, alg_temp, (cache, refresh, suffix))| {
            Decoding::Canvas(Canvas {
                factor,
                factor_compat,
                max_reveals,
                cache,
                refresh,
                suffix,
                block_length: Some(b),
                steps: Some(steps),
                threshold,
                alg: algs[alg],
                strategy: if random { Remasking::Random } else { Remasking::LowConfidence },
                cfg_scale: if guided { 0.5 } else { 0.0 },
                alg_temp,
                ..Canvas::default()
            })
        },
    );
    let sub_blocks = (1usize..4, 1usize..5, 0f32..1.0, any::<bool>()).prop_map(|(sub_blocks, sub_block, threshold, sub_block_cache)| {
        let (block_length, sub_block, threshold) = (Some(sub_blocks * sub_block), Some(sub_block), Some(threshold));
        Decoding::SubBlock(SubBlockDiffusion { block_length, sub_block, threshold, sub_block_cache })
    });
    prop_oneof![block, canvas, sub_blocks]
}

use proptest::strategy::Strategy as Strategy2Base;
trait Strategy2: Strategy2Base<Value = Decoding> {}
impl<T: Strategy2Base<Value = Decoding>> Strategy2 for T {}

proptest! {
    #[test]
    fn every_method_ends_and_keeps_the_rules(
        decoding in any_decoding(),
        prompt in proptest::collection::vec(prop_oneof![4 => 0u32..90, 1 => Just(MASK)], 1..30),
        max_tokens in 0usize..40,
        dream in any::<bool>(),
    ) {
        decoding.validate().unwrap();
        let task = Task { alg: dream.then_some(DreamAlg::Entropy), shift: dream, ..task(prompt, max_tokens) };
        let wanted = task.prompt.len() + max_tokens;
        let length = match &decoding {
            Decoding::Block(b) => wanted.next_multiple_of(b.block_length.unwrap_or(4)),
            Decoding::SubBlock(s) => wanted.next_multiple_of(s.block_length.unwrap_or(4)),
            _ => wanted,
        };
        let open = max_tokens > 0 || task.prompt.contains(&MASK);
        let mut decoder = decoding.decoder(task);
        prop_assert!(!open || decoder.canvas().len() == length);
        finish(&mut *decoder);
    }
}

fn canvas_of(cache: CacheMode, refresh: Refresh, suffix: Suffix) -> Decoding {
    Decoding::Canvas(Canvas { block_length: Some(4), threshold: Some(2.0), cache, refresh, suffix, ..Canvas::default() })
}

/// Where the keys of each pass come from, cache by cache: a block of 4, three blocks, 5 tokens before them.
#[test]
fn a_prefix_cache_holds_what_stands_before_the_block() {
    let wishes = finish(&mut *canvas_of(CacheMode::Prefix, Refresh::default(), Suffix::Off).decoder(task(vec![1; 5], 12)));
    assert_eq!(wishes.len(), 12);
    let (first, second, fifth) = (&wishes[0], &wishes[1], &wishes[4]);
    assert_eq!((first.kind, first.pass.rows(), first.pass.base), (PassKind::Refresh, 17, 0));
    assert_eq!(first.pass.keep, Keep::Append((0..5).collect()));
    assert_eq!((second.kind, second.pass.rows(), second.pass.base, &second.pass.keep), (PassKind::Denoise, 12, 5, &Keep::Nothing));
    assert_eq!(second.pass.positions, (5..17).collect::<Vec<u32>>());
    assert_eq!((fifth.kind, fifth.pass.rows(), &fifth.pass.keep), (PassKind::Refresh, 17, &Keep::Append((0..9).collect())));
    assert_eq!(wishes[11].pass.rows(), 4, "nothing is behind the last block");
}

#[test]
fn a_dual_cache_holds_everything_and_overwrites_the_block() {
    let kept = Suffix::Kept(vec![vec![9, 12, 16], vec![13], vec![]]);
    let wishes = finish(&mut *canvas_of(CacheMode::Dual, Refresh::default(), kept).decoder(task(vec![1; 5], 12)));
    let (first, second) = (&wishes[0], &wishes[1]);
    assert_eq!(first.pass.positions, (0..9).chain([9, 12, 16]).collect::<Vec<u32>>());
    assert_eq!(first.pass.keep, Keep::Append((0..12).collect()));
    assert_eq!((second.pass.base, second.pass.positions.as_slice()), (12, &[5, 6, 7, 8][..]));
    assert_eq!(second.pass.keep, Keep::Overwrite { rows: (0..4).collect(), slots: (5..9).collect() });
    assert_eq!((wishes[4].pass.rows(), wishes[8].pass.rows()), (14, 17));
}

/// Between refreshes the finished block, the new one and what is behind it are fed from the finished block's start on.
#[test]
fn between_refreshes_a_finished_block_is_appended() {
    for (cache, kept) in [(CacheMode::Prefix, 4), (CacheMode::Dual, 4 + 4 + 4)] {
        let wishes = finish(&mut *canvas_of(cache, Refresh::Blocks(3), Suffix::Off).decoder(task(vec![1; 5], 12)));
        let refreshes = wishes.iter().filter(|wish| wish.kind == PassKind::Refresh).count();
        assert_eq!(refreshes, 1, "three blocks, every third");
        let extension = &wishes[4];
        assert_eq!((extension.pass.base, extension.pass.positions.as_slice()), (5, &(5..17).collect::<Vec<u32>>()[..]));
        assert_eq!((extension.rows.get(PassKind::Commit), extension.rows.get(PassKind::Denoise)), (4, 8));
        assert_eq!(extension.pass.keep, Keep::Append((0..kept).collect()));
        assert_eq!(extension.pass.read, [4, 5, 6, 7]);
        assert_eq!(wishes[5].pass.base, if cache == CacheMode::Prefix { 9 } else { 17 });
        assert_eq!(wishes[8].pass.base, 9, "the third block begins where the second stood");
    }
}

/// With the shift the row before a block is fed in its first pass only, so that pass decides the first slot, and it alone.
#[test]
fn the_shift_takes_the_first_slot_from_the_first_pass() {
    for cache in [CacheMode::Prefix, CacheMode::Dual] {
        let shifted = |refresh| {
            let shifted = Task { shift: true, alg: Some(DreamAlg::Entropy), ..task(vec![1; 5], 12) };
            finish(&mut *canvas_of(cache, refresh, Suffix::Off).decoder(shifted))
        };
        for refresh in [Refresh::Blocks(1), Refresh::Blocks(2)] {
            let wishes = shifted(refresh);
            let first: Vec<_> = wishes.iter().filter(|wish| wish.scans[0].rule.position % 4 == 1).collect();
            assert_eq!(first.len(), 3);
            assert!(first.iter().all(|wish| wish.scans.len() == 1), "only what is decided is read");
        }
        assert_eq!(shifted(Refresh::Step)[0].scans.len(), 4, "here every pass feeds the row before");
    }
}

/// Masks of a prompt belong to block 0: their rows are fed with it, the tokens between them are cached.
#[test]
fn masks_of_a_prompt_are_rows_of_the_first_block() {
    let prompt = vec![7, MASK, 8, MASK, 9];
    for (cache, rows) in [(CacheMode::Prefix, 2 + 4 + 8), (CacheMode::Dual, 2 + 4)] {
        for dream in [false, true] {
            let asked = Task { shift: dream, alg: dream.then_some(DreamAlg::Entropy), ..task(prompt.clone(), 12) };
            let wishes = finish(&mut *canvas_of(cache, Refresh::default(), Suffix::Off).decoder(asked));
            assert_eq!((wishes[0].pass.rows(), wishes[1].pass.rows()), (17, rows));
            assert_eq!(wishes[1].pass.positions[..6], [1, 3, 5, 6, 7, 8]);
            if dream {
                assert_eq!(wishes[0].scans.len(), 3, "three slots whose row before is fed once");
            }
        }
    }
}

#[test]
fn compat_leaves_after_a_finished_block_with_a_stop_anywhere() {
    // The made-up token of a slot is its place modulo 50: 11 stands in the middle of the second block (9..13).
    let leave = |early_stop, ignore_eos| {
        let settings = Canvas { block_length: Some(4), early_stop, ..Canvas::default() };
        let mut asked = Task { stop_token_ids: vec![11], ..task(vec![1; 5], 16) };
        asked.params.ignore_eos = ignore_eos;
        let mut decoder = Decoding::Canvas(settings).decoder(asked);
        let mut passes = 0;
        while !decoder.finished() {
            let wishes = decoder.next().unwrap();
            let stats = wishes[0].scans.iter().map(|scan| stat(scan.rule.position, passes)).collect();
            decoder.take(&[Answer { stats, ..Answer::default() }]).unwrap();
            passes += 1;
            let finished_blocks = decoder.committed();
            match early_stop {
                EarlyStop::Strict => assert_eq!(decoder.watched(), 21),
                EarlyStop::Compat => assert_eq!(decoder.watched(), finished_blocks),
                EarlyStop::Off => assert_eq!(decoder.watched(), if decoder.finished() { 21 } else { 0 }),
            }
        }
        (passes, decoder.canvas()[13..].to_vec())
    };
    assert_eq!(leave(EarlyStop::Compat, false), (8, vec![11; 8]));
    assert_eq!(leave(EarlyStop::Compat, true).0, 16, "ignore_eos switches it off");
    assert_eq!(leave(EarlyStop::Off, false).0, 16);
    assert_eq!(leave(EarlyStop::Strict, false).0, 16, "strict stops are the engine's");
}
