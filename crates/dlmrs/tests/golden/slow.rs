//! Block diffusion the slow and obvious way, to compare with: every pass computes the whole sequence up to the end of the current block anew,
//! and editing is the loop of LLaDA2.1's generation code.

use dlmrs::Llm;
use dlmrs::model::RowScan;
use dlmrs::pass::{Keep, Pass, Sees};
use dlmrs::sample::{Confidence, RowRule, RowStat};

use crate::common::MASK;

/// Which masks a step decides: of place and statistics, those places.
pub(crate) type Rule = fn(&[(usize, RowStat)], f32) -> Vec<usize>;

/// All above the threshold, else the most probable.
pub(crate) fn dynamic(masked: &[(usize, RowStat)], threshold: f32) -> Vec<usize> {
    let above: Vec<usize> = masked.iter().filter(|(_, stat)| stat.probability > threshold).map(|(p, _)| *p).collect();
    if above.is_empty() { best(masked, |stat| stat.probability) } else { above }
}

/// The leftmost.
pub(crate) fn sequential(masked: &[(usize, RowStat)], _: f32) -> Vec<usize> {
    masked.iter().take(1).map(|(p, _)| *p).collect()
}

/// The largest margin.
pub(crate) fn margin(masked: &[(usize, RowStat)], _: f32) -> Vec<usize> {
    best(masked, |stat| stat.margin)
}

fn best(masked: &[(usize, RowStat)], score: fn(&RowStat) -> f32) -> Vec<usize> {
    let highest = masked.iter().map(|(_, stat)| score(stat)).fold(f32::NEG_INFINITY, f32::max);
    masked.iter().find(|(_, stat)| score(stat) == highest).map(|(p, _)| *p).into_iter().collect()
}

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) prompt: Vec<u32>,
    pub(crate) slots: usize,
    pub(crate) block_length: usize,
    pub(crate) threshold: f32,
    /// With the passes at most over a block without masks.
    pub(crate) editing: Option<(f32, usize)>,
    pub(crate) temperature: f32,
    pub(crate) seed: u64,
}

/// What came of it.
#[derive(Debug, PartialEq)]
pub(crate) struct Found {
    pub(crate) canvas: Vec<u32>,
    pub(crate) passes: usize,
    /// Decided tokens that were rewritten.
    pub(crate) edited: usize,
}

/// The statistics of every row of the last block of `canvas`.
fn look(llm: &Llm, canvas: &[u32], asked: &Asked) -> Vec<(usize, RowStat)> {
    let (n, block) = (canvas.len(), asked.block_length);
    let pass = Pass {
        tokens: canvas.to_vec(),
        positions: (0..n as u32).collect(),
        base: 0,
        sees: Sees::Blocks(block),
        keep: Keep::Nothing,
        read: (n as u32 - block as u32..n as u32).collect(),
        tap: None,
    };
    let hidden = llm.model().forward(&mut [(pass, &mut llm.model().new_cache())]).unwrap();
    let rule = |position: usize| RowRule {
        temperature: asked.temperature,
        confidence: Confidence::Shaped,
        seed: asked.seed,
        ..RowRule::greedy(MASK, position as u32)
    };
    let scans: Vec<_> = (0..block).map(|row| RowScan { row, guide: None, rule: rule(n - block + row) }).collect();
    (n - block..n).zip(hidden.scan(&scans).unwrap()).collect()
}

pub(crate) fn decode(llm: &Llm, asked: &Asked, rule: Rule) -> Found {
    let (prompt, length) = (&asked.prompt, asked.block_length);
    let mut canvas = prompt.clone();
    canvas.resize((prompt.len() + asked.slots).div_ceil(length) * length, MASK);
    let given: Vec<bool> = canvas.iter().map(|id| *id != MASK).collect();
    let (mut passes, mut edited) = (0, 0);
    for end in (length..=canvas.len()).step_by(length) {
        let block = end - length..end;
        if block.clone().all(|p| given[p]) {
            continue;
        }
        let mut post_steps = 0;
        loop {
            let masks = block.clone().any(|p| canvas[p] == MASK);
            post_steps += usize::from(!masks);
            if post_steps > asked.editing.map_or(0, |(_, most)| most) {
                break;
            }
            let stats = look(llm, &canvas[..end], asked);
            passes += 1;
            let masked: Vec<_> = stats.iter().copied().filter(|(p, _)| canvas[*p] == MASK).collect();
            let decided = if masks { rule(&masked, asked.threshold) } else { Vec::new() };
            let rewritten = |(p, stat): &&(usize, RowStat)| {
                let surer = asked.editing.is_some_and(|(threshold, _)| stat.probability > threshold);
                canvas[*p] != MASK && !given[*p] && canvas[*p] != stat.token && surer
            };
            let edits: Vec<usize> = stats.iter().filter(rewritten).map(|(p, _)| *p).collect();
            for &p in decided.iter().chain(&edits) {
                canvas[p] = stats[p - block.start].1.token;
            }
            edited += edits.len();
            if !masks && edits.is_empty() {
                break;
            }
        }
    }
    Found { canvas, passes, edited }
}
