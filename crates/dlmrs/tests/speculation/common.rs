//! Models, and a small engine that runs one decoder with the target itself as a draft whose words are garbled at will.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dlmrs::cache::KvCache;
use dlmrs::decode::{Answer, Decoder, Decoding, PassKind, Role, Task, Took, Wish};
use dlmrs::model::{Hidden, RowScan};
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

pub(crate) fn scan(hidden: &Hidden, wish: &Wish) -> Answer {
    let scans: Vec<RowScan> =
        wish.scans.iter().map(|s| RowScan { row: hidden.row_of(0, s.read), guide: None, rule: s.rule.clone() }).collect();
    Answer { stats: hidden.scan(&scans).unwrap(), ..Answer::default() }
}

/// Runs a decoder to its end. The target drafts for itself, and of its words `garble` changes some.
pub(crate) fn drive(llm: &Llm, decoding: &Decoding, task: Task, garble: Garble) -> Run {
    decoding.validate().unwrap();
    let given: Vec<(usize, u32)> = task.prompt.iter().copied().enumerate().filter(|(_, id)| *id != MASK).collect();
    let mut decoder = decoding.decoder(task);
    let mut caches: [KvCache; 2] = [llm.model().new_cache(), llm.model().new_cache()];
    let (mut passes, mut words) = (0, 0u64);
    while !decoder.finished() {
        let announced = decoder.next_rows();
        let wishes = decoder.next().unwrap();
        assert!(!wishes.is_empty(), "an unfinished decoder wants a pass");
        assert_eq!(wishes.iter().map(|w| w.pass.rows()).sum::<usize>(), announced);
        let before = decoder.canvas().to_vec();
        let mut answers = Vec::new();
        for wish in &wishes {
            assert_eq!(wish.rows.total(), wish.pass.rows(), "every row is counted once");
            let cache = &mut caches[usize::from(wish.model == Role::Draft)];
            let hidden = llm.model().forward(&mut [(wish.pass.clone(), cache)]).unwrap();
            let mut answer = scan(&hidden, wish);
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
        assert_eq!(changed, revealed.len(), "nothing else changes");
        assert!(passes < 2000, "no end");
    }
    assert!(given.iter().all(|&(p, id)| decoder.canvas()[p] == id), "the prompt is never touched");
    Run { canvas: decoder.canvas().to_vec(), passes, decoder }
}
