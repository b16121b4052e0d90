//! Decoders with scripted answers and no model: progress, row accounting, what is fed and what is kept.
#![allow(clippy::unwrap_used, clippy::expect_used)] // tests

use dlmrs::SamplingParams;
use dlmrs::decode::{Answer, BlockDiffusion, Canvas, Decoder, Decoding, DreamAlg, PassKind, Remasking, Strategy, Task, Wish};
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
        drawable: u32::MAX,
        eos_token_id: None,
        stop_token_ids: vec![],
        threshold: 0.85,
        block_length: Some(4),
        shift: false,
        dream: false,
        confidence: Confidence::Raw,
        filter_order: FilterOrder::TopKFirst,
    }
}

/// A made-up answer for the slot at `position` in pass `n`.
fn stat(position: u32, n: usize) -> RowStat {
    let x = (position as usize * 31 + n * 17) % 97;
    RowStat { token: position % 50, probability: x as f32 / 97.0, entropy: x as f32 / 30.0, margin: x as f32 / 200.0 }
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
        let answers: Vec<Answer> = wishes.iter().map(|wish| Answer { stats: stats(wish) }).collect();
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
    let shifted = Task { shift: true, dream: true, ..task(vec![MASK, 1], 3) };
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
    let answers = [Answer { stats }, Answer::default()];
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
    let algs = [None, Some(DreamAlg::Origin), Some(DreamAlg::MaskgitPlus), Some(DreamAlg::TopkMargin), Some(DreamAlg::Entropy)];
    let canvas = (1usize..20, 1usize..30, proptest::option::of(-0.5f32..1.5), 0usize..5, any::<bool>(), any::<bool>(), 0f32..1.0).prop_map(
        move |(b, steps, threshold, alg, random, guided, alg_temp)| {
            Decoding::Canvas(Canvas {
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
    prop_oneof![block, canvas]
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
        let task = Task { dream, shift: dream, ..task(prompt, max_tokens) };
        let wanted = task.prompt.len() + max_tokens;
        let length = match &decoding {
            Decoding::Block(b) => wanted.next_multiple_of(b.block_length.unwrap_or(4)),
            Decoding::Canvas(_) => wanted,
        };
        let open = max_tokens > 0 || task.prompt.contains(&MASK);
        let mut decoder = decoding.decoder(task);
        prop_assert!(!open || decoder.canvas().len() == length);
        finish(&mut *decoder);
    }
}
