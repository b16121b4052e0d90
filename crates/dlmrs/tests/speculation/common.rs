//! Models, and a small engine that runs one decoder with the target itself as a draft whose words are garbled at will.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dlmrs::cache::KvCache;
use dlmrs::decode::{Answer, Decoder, Decoding, PassKind, Role, Scan, Task, Took, Wish};
use dlmrs::model::{Guide, Hidden, RowScan};
use dlmrs::pass::Pass;
use dlmrs::sample::{Confidence, FilterOrder};
use dlmrs::{DraftSource, Llm, LoadOptions, Overrides, SamplingParams};

pub(crate) const MASK: u32 = 317;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf()
}

pub(crate) fn golden_folder(family: &str) -> PathBuf {
    root().join("../../tests/golden").join(family)
}

pub(crate) fn options() -> LoadOptions {
    LoadOptions { device: "cpu".into(), threads: Some(2), ..LoadOptions::default() }
}

fn known_mask() -> Overrides {
    Overrides { mask_token_id: Some(MASK), ..Overrides::default() }
}

pub(crate) fn golden(family: &str) -> Arc<Llm> {
    Llm::load(golden_folder(family).to_str().unwrap(), &options(), &known_mask()).unwrap()
}

pub(crate) fn golden_pair(target: &str, draft: &str) -> dlmrs::Result<Arc<Llm>> {
    let draft = DraftSource::Model { name: golden_folder(draft).to_str().unwrap().into(), options: options() };
    Llm::load_pair(golden_folder(target).to_str().unwrap(), &draft, &options(), &known_mask(), &mut |_, _| true)
}

pub(crate) fn bundled_folder(name: &str) -> String {
    root().join("bundled").join(name).to_str().unwrap().into()
}

pub(crate) fn bundled_pair() -> Arc<Llm> {
    let draft = DraftSource::Model { name: bundled_folder("tiny-sdar-draft"), options: options() };
    Llm::load_pair(&bundled_folder("tiny-sdar"), &draft, &options(), &Overrides::default(), &mut |_, _| true).unwrap()
}

pub(crate) fn task(prompt: Vec<u32>, params: SamplingParams, seed: u64) -> Task {
    Task {
        prompt,
        params,
        seed,
        mask_token_id: MASK,
        vocab: 320,
        drawable: u32::MAX,
        eos_token_id: None,
        stop_token_ids: vec![],
        block_length: Some(4),
        shift: false,
        alg: None,
        confidence: Confidence::Shaped,
        filter_order: FilterOrder::TopKFirst,
        threshold: 0.85,
    }
}

/// Which words of the draft are garbled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Garble {
    pub(crate) percent: u64,
    pub(crate) seed: u64,
}

/// What a decoder came to.
pub(crate) struct Run {
    pub(crate) canvas: Vec<u32>,
    /// Passes of the target that read rows.
    pub(crate) passes: usize,
    pub(crate) decoder: Box<dyn Decoder>,
}

fn hash(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The answer to the wish whose pass was number `pass` of a forward.
fn scan(hidden: &Hidden, wish: &Wish, pass: usize) -> Answer {
    let guide = |(wish, read, scale): (usize, usize, f32)| Guide { row: hidden.row_of(wish, read), scale };
    let scan = |s: &Scan| RowScan { row: hidden.row_of(pass, s.read), guide: s.guide.map(guide), rule: s.rule.clone() };
    Answer { stats: hidden.scan(&wish.scans.iter().map(scan).collect::<Vec<_>>()).unwrap(), ..Answer::default() }
}

/// Runs the wishes of one model in one forward. The passes of a canvas's guide come behind its own, so that a wish's number is its pass's.
fn answers(llm: &Llm, wishes: &[Wish], role: Role, caches: &mut [KvCache]) -> Vec<Answer> {
    let wished: Vec<&Wish> = wishes.iter().filter(|wish| wish.model == role).collect();
    if wished.is_empty() {
        return Vec::new();
    }
    let mut passes: Vec<(Pass, &mut KvCache)> = Vec::new();
    for (i, cache) in caches.iter_mut().enumerate() {
        passes.extend(wished.iter().filter(|wish| wish.cache == i).map(|wish| wish.pass.clone()).zip([cache]));
    }
    assert_eq!(passes.len(), wished.len(), "each cache serves at most one pass");
    let hidden = llm.model().forward(&mut passes).unwrap();
    let answer = |(pass, wish): (usize, &&Wish)| Answer { tapped: hidden.tapped(pass).to_vec(), ..scan(&hidden, wish, pass) };
    wished.iter().enumerate().map(answer).collect()
}

/// Runs a decoder to its end. The target drafts for itself, and of its words `garble` changes some.
pub(crate) fn drive(llm: &Llm, decoding: &Decoding, task: Task, garble: Garble) -> Run {
    decoding.validate().unwrap();
    let given: Vec<(usize, u32)> = task.prompt.iter().copied().enumerate().filter(|(_, id)| *id != MASK).collect();
    let mut decoder = decoding.decoder(task);
    let new_caches = |n: usize| (0..n).map(|_| llm.model().new_cache()).collect::<Vec<_>>();
    let (mut own, mut drafts) = (new_caches(decoder.caches()), new_caches(decoder.draft_caches()));
    let (mut passes, mut words) = (0, 0u64);
    while !decoder.finished() {
        let announced = decoder.next_rows();
        let wishes = decoder.next().unwrap();
        assert!(!wishes.is_empty(), "an unfinished decoder wants a pass");
        assert_eq!(wishes.iter().map(|w| w.pass.rows()).sum::<usize>(), announced);
        let before = decoder.canvas().to_vec();
        let (mut of_target, mut of_draft) =
            (answers(llm, &wishes, Role::Target, &mut own).into_iter(), answers(llm, &wishes, Role::Draft, &mut drafts).into_iter());
        let mut answers = Vec::new();
        for wish in &wishes {
            assert_eq!(wish.rows.total(), wish.pass.rows(), "every row is counted once");
            let mut answer = if wish.model == Role::Target { of_target.next() } else { of_draft.next() }.unwrap();
            // Made-up times, so that what goes by them is tried in all its moods.
            let seconds = (hash(garble.seed ^ passes as u64) % 100) as f64 + wish.pass.rows() as f64 * (garble.seed % 7) as f64;
            answer.took = Some(Took { rows: wish.pass.rows(), seconds });
            if wish.model == Role::Draft {
                for stat in &mut answer.stats {
                    words += 1;
                    if hash(garble.seed ^ words) % 100 < garble.percent {
                        stat.token = (hash(words) % 300) as u32;
                        stat.probability = (hash(words + 7) % 1000) as f32 / 1000.0;
                    }
                }
            } else if wish.kind != PassKind::Prefill {
                passes += 1;
            }
            answers.push(answer);
        }
        let revealed = decoder.take(&answers).unwrap();
        for slot in &revealed {
            assert_eq!(before[slot.position], MASK, "only masks are decided");
        }
        let changed = before.iter().zip(decoder.canvas()).filter(|(a, b)| a != b).count();
        // A canvas that is left early is filled.
        assert!(changed == revealed.len() || decoder.finished() && changed > revealed.len(), "nothing else changes");
        assert!(passes < 2000, "no end");
    }
    assert!(given.iter().all(|&(p, id)| decoder.canvas()[p] == id), "the prompt is never touched");
    Run { canvas: decoder.canvas().to_vec(), passes, decoder }
}
