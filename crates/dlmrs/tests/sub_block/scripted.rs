//! Scripted answers and no model: which rows are fed, seen, kept and read, pass by pass.

use dlmrs::SamplingParams;
use dlmrs::decode::{Answer, Decoder, Decoding, How, PassKind, SubBlockDiffusion, Task, Wish};
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
        threshold: 0.9,
        block_length: Some(8),
        shift: true,
        alg: None,
        confidence: Confidence::Shaped,
        filter_order: FilterOrder::TopKFirst,
    }
}

/// Slots get the token place % 50; the surest is the rightmost, and above 0.9 are those at places that 5 divides.
fn stat(position: u32) -> RowStat {
    let probability = if position.is_multiple_of(5) { 0.95 } else { position as f32 / 1000.0 };
    RowStat { token: position % 50, probability, entropy: 1.0, margin: 0.1 }
}

/// Runs a decoder to its end, with the checks that every decoder must pass.
fn finish(settings: &SubBlockDiffusion, task: Task) -> Vec<Wish> {
    let given: Vec<(usize, u32)> = task.prompt.iter().copied().enumerate().filter(|(_, id)| *id != MASK).collect();
    let mut decoder = Decoding::SubBlock(settings.clone()).decoder(task);
    let mut history: Vec<Wish> = Vec::new();
    let (mut cached, mut committed) = (0, 0);
    while !decoder.finished() {
        let announced = decoder.next_rows();
        let wishes = decoder.next().unwrap();
        let [wish] = wishes.as_slice() else { panic!("one pass at a time") };
        assert_eq!((wish.pass.rows(), wish.rows.total()), (announced, announced), "rows are announced, and counted once");
        wish.pass.validate(cached, 100).unwrap();
        cached = wish.pass.kept_len();
        let before = decoder.canvas().to_vec();
        let stats = wish.scans.iter().map(|scan| stat(scan.rule.position)).collect();
        for scan in &wish.scans {
            let row = wish.pass.positions[wish.pass.read[scan.read] as usize];
            assert_eq!(row, scan.rule.position.saturating_sub(1), "the row before the slot is read");
        }
        let revealed = decoder.take(&[Answer { stats, ..Answer::default() }]).unwrap();
        assert!(wish.scans.is_empty() || revealed.iter().filter(|slot| slot.how == How::Ranked).count() == 1);
        assert!(revealed.iter().all(|slot| before[slot.position] == MASK && decoder.canvas()[slot.position] == slot.stat.token));
        assert_eq!(before.iter().zip(decoder.canvas()).filter(|(a, b)| a != b).count(), revealed.len(), "nothing else changes");
        assert!(decoder.committed() >= committed && !decoder.canvas()[..decoder.committed()].contains(&MASK));
        committed = decoder.committed();
        history.extend(wishes);
        assert!(history.len() < 2000, "no end");
    }
    assert!(!decoder.canvas().contains(&MASK) && committed_all(&*decoder));
    assert!(given.iter().all(|&(p, id)| decoder.canvas()[p] == id), "the prompt is never touched");
    assert!(decoder.next().unwrap().is_empty() && decoder.next_rows() == 0);
    history
}

fn committed_all(decoder: &dyn Decoder) -> bool {
    decoder.committed() == decoder.canvas().len()
}

fn with(sub_block: usize, sub_block_cache: bool) -> SubBlockDiffusion {
    SubBlockDiffusion { sub_block: Some(sub_block), sub_block_cache, ..SubBlockDiffusion::default() }
}

fn slots(wish: &Wish) -> Vec<u32> {
    wish.scans.iter().map(|scan| scan.rule.position).collect()
}

/// What a pass feeds, over how many entries, and what it keeps.
fn fed(wish: &Wish) -> (Vec<u32>, usize, Keep) {
    (wish.pass.positions.clone(), wish.pass.base, wish.pass.keep.clone())
}

#[test]
fn a_block_is_filled_sub_block_by_sub_block_and_hands_over() {
    let wishes = finish(&with(4, false), task(vec![1; 13], 12)); // 8 | 8..13 given, 13 14 15 | 16 17 18 19, 20 21 22 23 | 24 ...
    let read: Vec<Vec<u32>> = wishes.iter().map(slots).collect();
    let wanted: [&[u32]; 16] = [
        &[13, 14, 15], // 15 is above 0.9, and the surest
        &[13, 14],
        &[13],
        &[16], // the hand-over
        &[17, 18, 19],
        &[17, 18],
        &[17],
        &[20, 21, 22, 23], // 20 is above, and the surest
        &[21, 22, 23],
        &[21, 22],
        &[21],
        &[24],
        &[25, 26, 27], // 25
        &[26, 27],
        &[26],
        &[28, 29, 30, 31], // 30
    ];
    assert_eq!(read[..16], wanted);
    assert_eq!(fed(&wishes[0]), ((0..16).collect(), 0, Keep::Append((0..8).collect())), "the prompt's first block rides along");
    assert_eq!((wishes[0].rows.get(PassKind::Prefill), wishes[0].rows.get(PassKind::Denoise)), (8, 8));
    assert_eq!(fed(&wishes[1]), ((8..16).collect(), 8, Keep::Append(vec![])));
    assert_eq!(fed(&wishes[3]), ((8..16).collect(), 8, Keep::Append((0..8).collect())), "the finished block is kept and read at once");
    assert_eq!((wishes[3].pass.read.as_slice(), wishes[3].rows.get(PassKind::Commit)), (&[7][..], 8));
    assert_eq!(fed(&wishes[4]), ((16..24).collect(), 16, Keep::Append(vec![])));
    assert!(wishes.iter().all(|wish| wish.kind == PassKind::Denoise && wish.pass.sees == Sees::Blocks(8)));
}

#[test]
fn with_the_cache_a_sub_block_is_fed_alone_once_its_first_slot_is_decided() {
    let wishes = finish(&with(4, true), task(vec![1; 13], 12));
    let kinds: Vec<PassKind> = wishes.iter().map(|wish| wish.kind).collect();
    // 13 14 15 lie behind a given slot; each later sub-block begins with passes over the whole block until its first slot is decided.
    let (whole, alone) = (PassKind::Refresh, PassKind::Denoise);
    assert_eq!(kinds[..11], [whole, alone, alone, alone, whole, alone, alone, whole, alone, alone, alone]);
    assert_eq!(fed(&wishes[0]), ((0..16).collect(), 0, Keep::Append((0..16).collect())));
    let in_place = |range: std::ops::Range<u32>| Keep::Overwrite { rows: (0..4).collect(), slots: range.collect() };
    assert_eq!(fed(&wishes[1]), ((12..16).collect(), 16, in_place(12..16)));
    assert_eq!(fed(&wishes[3]), ((8..16).collect(), 8, Keep::Append((0..8).collect())), "the hand-over drops what was left of the block");
    assert_eq!(fed(&wishes[4]), ((16..24).collect(), 16, Keep::Append((0..8).collect())));
    assert_eq!(fed(&wishes[5]), ((16..20).collect(), 24, in_place(16..20)));
    assert_eq!(fed(&wishes[7]), ((16..24).collect(), 16, Keep::Append((0..8).collect())), "20 was a mask");
    assert_eq!(fed(&wishes[8]), ((20..24).collect(), 24, in_place(20..24)));
    // 28 is not the surest of its sub-block at first, so the whole block runs again.
    let last: Vec<_> = wishes.iter().filter(|wish| slots(wish).contains(&28)).map(|wish| wish.kind).collect();
    assert!(last.len() > 1 && last.iter().all(|kind| *kind == whole));
}

#[test]
fn a_prompt_of_whole_blocks_hands_over_from_its_prefill() {
    for blocks in [1, 2, 3] {
        let wishes = finish(&with(4, false), task(vec![1; 8 * blocks], 5));
        let end = 8 * blocks as u32;
        assert_eq!(fed(&wishes[0]), ((0..end).collect(), 0, Keep::Append((0..end).collect())));
        assert_eq!((slots(&wishes[0]), wishes[0].rows.get(PassKind::Prefill)), (vec![end], end as usize));
        assert_eq!(wishes[1].pass.rows(), 8);
    }
}

#[test]
fn long_prompts_are_prefilled_in_pieces() {
    for (length, last) in [(1301, 1296 - 1024 + 8), (1536, 512), (1304, 1304 - 1024)] {
        let wishes = finish(&with(4, false), task(vec![1; length], 3));
        let sizes: Vec<usize> = wishes.iter().map(|wish| wish.pass.rows()).take(3).collect();
        assert_eq!(sizes, [512, 512, last], "{length}");
        assert!(wishes[..2].iter().all(|wish| wish.kind == PassKind::Prefill && wish.scans.is_empty()));
        assert!(!wishes[2].scans.is_empty());
    }
}

#[test]
fn masks_in_a_prompt_are_filled_in_their_turn() {
    // Masks at the very start, at the start of a block, and inside one; the blocks between are whole.
    let mut prompt = vec![1; 40];
    for place in [0, 3, 16, 29] {
        prompt[place] = MASK;
    }
    for sub_block_cache in [false, true] {
        let wishes = finish(&with(4, sub_block_cache), task(prompt.clone(), 0));
        let read: Vec<Vec<u32>> = wishes.iter().map(slots).collect();
        assert_eq!(read, [vec![0, 3], vec![3], vec![16], vec![29]], "{sub_block_cache}: 0 is surer, and read at row 0");
        assert_eq!(wishes[0].pass.read, [0, 2]);
        let handed = &wishes[2];
        assert_eq!(fed(handed), ((0..16).collect(), 0, Keep::Append((0..16).collect())));
        assert_eq!((handed.rows.get(PassKind::Commit), handed.rows.get(PassKind::Prefill)), (8, 8));
        assert_eq!(wishes[3].pass.positions, (16..32).collect::<Vec<u32>>(), "a finished block rides along where nothing is handed over");
    }
}

#[test]
fn nothing_to_do_costs_nothing() {
    let mut decoder = Decoding::SubBlock(with(4, false)).decoder(task(vec![1, 2, 3], 0));
    assert!(decoder.finished() && decoder.next().unwrap().is_empty());
    assert_eq!((decoder.canvas(), decoder.committed()), (&[1, 2, 3][..], 3));
}

#[test]
fn the_usual_sub_block_divides_the_block() {
    let own = SubBlockDiffusion { threshold: Some(1.0), ..SubBlockDiffusion::default() };
    for (block, sub_block) in [(32, 8), (16, 8), (8, 8), (12, 6), (10, 5), (7, 7), (4, 4), (1, 1), (13, 1)] {
        let wishes = finish(&own, Task { block_length: Some(block), ..task(vec![1; block], block) });
        let most = wishes.iter().map(|wish| wish.scans.len()).max().unwrap();
        // The first slot of the block is handed over.
        assert_eq!(most, if block == sub_block { (sub_block - 1).max(1) } else { sub_block }, "{block}");
    }
}

proptest! {
    #[test]
    fn it_ends_and_keeps_the_rules(
        sub_blocks in 1usize..5, sub_block in 1usize..6, sub_block_cache in any::<bool>(), threshold in 0f32..1.0,
        prompt in proptest::collection::vec(prop_oneof![4 => 0u32..90, 1 => Just(MASK)], 1..40), max_tokens in 0usize..40,
    ) {
        let block_length = Some(sub_blocks * sub_block);
        let settings = SubBlockDiffusion { block_length, sub_block: Some(sub_block), threshold: Some(threshold), sub_block_cache };
        Decoding::SubBlock(settings.clone()).validate().unwrap();
        finish(&settings, task(prompt, max_tokens));
    }
}
