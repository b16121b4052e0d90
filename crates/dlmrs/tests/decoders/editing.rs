//! Editing with scripted answers.

use dlmrs::decode::{Answer, BlockDiffusion, Decoding, Editing, How, PassKind};
use dlmrs::sample::{Edit, RowStat};
use proptest::prelude::*;

use crate::{MASK, task};

/// A made-up answer that changes its mind: the token differs from pass to pass, of few.
fn moody(position: usize, pass: usize, seed: usize) -> RowStat {
    let x = (position * 7919 + pass * 104_729 + seed * 15_485_863) % 1009;
    RowStat { token: (x % 3) as u32, probability: (x * 31 % 100) as f32 / 100.0, entropy: 1.0, margin: 0.1 }
}

/// LLaDA2.1's loop as it is written, for answers that come from nowhere: the canvas, passes and edits.
fn edited_plainly(mut canvas: Vec<u32>, length: usize, settings: &Editing, seed: usize) -> (Vec<u32>, usize, usize) {
    let given: Vec<bool> = canvas.iter().map(|id| *id != MASK).collect();
    let threshold = settings.block.threshold.unwrap();
    let (mut passes, mut edited) = (0, 0);
    for start in (0..canvas.len()).step_by(length) {
        let block = start..start + length;
        if block.clone().all(|p| given[p]) {
            continue;
        }
        let mut post_steps = 0;
        loop {
            let masked: Vec<usize> = block.clone().filter(|&p| canvas[p] == MASK).collect();
            if masked.is_empty() {
                post_steps += 1;
            }
            if post_steps > settings.max_post_steps {
                break;
            }
            let stat = |p: usize| moody(p, passes, seed);
            let mut transfer: Vec<usize> = masked.iter().copied().filter(|&p| stat(p).probability > threshold).collect();
            if transfer.is_empty() {
                let highest = masked.iter().map(|&p| stat(p).probability).fold(-1.0, f32::max);
                transfer.extend(masked.iter().copied().find(|&p| stat(p).probability == highest));
            }
            let edits: Vec<usize> = block
                .clone()
                .filter(|&p| {
                    canvas[p] != MASK && !given[p] && stat(p).probability > settings.editing_threshold && stat(p).token != canvas[p]
                })
                .collect();
            for &p in transfer.iter().chain(&edits) {
                canvas[p] = moody(p, passes, seed).token;
            }
            (passes, edited) = (passes + 1, edited + edits.len());
            if masked.is_empty() && edits.is_empty() {
                break;
            }
        }
    }
    (canvas, passes, edited)
}

fn editing(length: usize, threshold: f32, editing_threshold: f32, max_post_steps: usize) -> Editing {
    let block = BlockDiffusion { block_length: Some(length), threshold: Some(threshold), ..BlockDiffusion::default() };
    Editing { block, editing_threshold, max_post_steps }
}

proptest! {
    /// Tokens, passes and edits are those of the plain loop; nothing that is committed, and nothing of the prompt, changes.
    #[test]
    fn editing_is_the_plain_loop(
        length in 1usize..9, threshold in -0.5f32..1.2, editing_threshold in 0f32..1.0, most in 0usize..12, seed in 0usize..1000,
        prompt in proptest::collection::vec(prop_oneof![4 => 0u32..90, 1 => Just(MASK)], 1..30), max_tokens in 0usize..30,
    ) {
        let settings = editing(length, threshold, editing_threshold, most);
        let mut decoder = Decoding::Editing(settings.clone()).decoder(task(prompt, max_tokens));
        let wanted = edited_plainly(decoder.canvas().to_vec(), if decoder.finished() { 1 } else { length }, &settings, seed);
        let (mut passes, mut edited, mut cached) = (0, 0, 0);
        while !decoder.finished() {
            let (before, committed) = (decoder.canvas().to_vec(), decoder.committed());
            prop_assert_eq!(decoder.watched(), committed);
            let announced = decoder.next_rows();
            let wish = decoder.next().unwrap().remove(0);
            wish.pass.validate(cached, 100).unwrap();
            prop_assert_eq!((wish.pass.rows(), wish.rows.total()), (announced, announced));
            cached = wish.pass.kept_len();
            prop_assert_eq!(cached, committed, "what is cached is final");
            let stats = wish.scans.iter().map(|scan| moody(scan.rule.position as usize, passes, seed)).collect();
            let revealed = decoder.take(&[Answer { stats, ..Answer::default() }]).unwrap();
            passes += 1;
            for slot in &revealed {
                let was = before[slot.position];
                prop_assert!(slot.position >= committed && was != slot.stat.token);
                prop_assert_eq!(was == MASK, slot.how != How::Edited);
                edited += usize::from(was != MASK);
            }
            let changed = before.iter().zip(decoder.canvas()).filter(|(a, b)| a != b).count();
            prop_assert_eq!(changed, revealed.len(), "nothing else changes");
            prop_assert!(decoder.canvas()[..decoder.committed()].iter().all(|id| *id != MASK));
        }
        prop_assert_eq!((decoder.canvas().to_vec(), passes, edited), wanted);
        prop_assert!(decoder.committed() == decoder.canvas().len() && decoder.next().unwrap().is_empty());
    }
}

/// A slot is not rewritten because of what it holds itself: the repetition penalty counts the others.
#[test]
fn the_penalty_of_a_decided_slot_leaves_out_its_own_token() {
    let mut asked = task(vec![7, 8], 6);
    asked.params.repetition_penalty = 2.0;
    let mut decoder = Decoding::Editing(editing(8, 1.0, 0.5, 4)).decoder(asked);
    let mut held = vec![(0, 7), (1, 8)];
    for pass in 0..3 {
        let wish = decoder.next().unwrap().remove(0);
        for scan in &wish.scans {
            let position = scan.rule.position as usize;
            let penalised: Vec<u32> = scan.rule.edits.iter().filter(|(_, edit)| *edit == Edit::Penalty(2.0)).map(|(id, _)| *id).collect();
            let mut others: Vec<u32> = held.iter().filter(|(p, _)| *p != position).map(|(_, id)| *id).collect();
            others.sort_unstable();
            assert_eq!(penalised, others, "pass {pass}, slot {position}");
        }
        let stat = |position: u32| RowStat { token: 20 + position, probability: 0.9 - position as f32 / 100.0, entropy: 1.0, margin: 0.1 };
        let stats = wish.scans.iter().map(|scan| stat(scan.rule.position)).collect();
        let revealed = decoder.take(&[Answer { stats, ..Answer::default() }]).unwrap();
        held.extend(revealed.iter().map(|slot| (slot.position, slot.stat.token)));
        assert_eq!(held.len(), 3 + pass);
    }
}

/// A long prompt is prefilled in pieces, and the prompt's rest and finished blocks ride along, as without editing.
#[test]
fn a_long_prompt_is_prefilled_in_pieces() {
    let stat = |position: u32| RowStat { token: position % 50, probability: 0.9, entropy: 1.0, margin: 0.1 };
    let run = |decoding: Decoding| {
        let mut decoder = decoding.decoder(task(vec![1; 1100], 24));
        let mut passes = Vec::new();
        while !decoder.finished() {
            let wish = decoder.next().unwrap().remove(0);
            let stats = wish.scans.iter().map(|scan| stat(scan.rule.position)).collect();
            passes.push((wish.kind, wish.pass.tokens.len(), wish.pass.base, wish.pass.keep.clone()));
            decoder.take(&[Answer { stats, ..Answer::default() }]).unwrap();
        }
        passes
    };
    // Nothing is ever rewritten and no pass is made to find that out, so the passes are those of block diffusion.
    let settings = editing(8, 0.5, 0.95, 0);
    let passes = run(Decoding::Editing(settings.clone()));
    assert_eq!(passes, run(Decoding::Block(settings.block)));
    assert_eq!(
        passes.iter().map(|pass| (pass.0, pass.1)).collect::<Vec<_>>()[..3],
        [(PassKind::Prefill, 512), (PassKind::Prefill, 512), (PassKind::Denoise, 1104 - 1024)]
    );
}
