//! The slow obvious version: every pass computes everything from the canvas's start, under a mask that is written out, and keeps nothing.

use dlmrs::Llm;
use dlmrs::cache::KvCache;
use dlmrs::model::{Hidden, RowScan};
use dlmrs::pass::{Bits, Keep, Pass, Sees};
use dlmrs::sample::{FilterOrder, RowRule};

/// What is asked of it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) prompt: Vec<u32>,
    pub(crate) max_tokens: usize,
    pub(crate) block: usize,
    pub(crate) sub_block: usize,
    pub(crate) threshold: f32,
    /// Temperature and seed; 0 is greedy.
    pub(crate) temperature: f32,
    pub(crate) seed: u64,
    pub(crate) mask: u32,
}

impl Asked {
    fn is_masked(&self, canvas: &[u32], place: usize) -> bool {
        canvas[place] == self.mask
    }

    /// Rows `rows` of a pass over the tokens, none of which sees beyond its block.
    fn forward(&self, llm: &Llm, tokens: &[u32], rows: Vec<u32>) -> Hidden {
        let n = tokens.len();
        let sees = Sees::Mask(Bits::from_fn(n, n, |row, key| key / self.block <= row / self.block));
        let (positions, keep) = ((0..n as u32).collect(), Keep::Nothing);
        let pass = Pass { tokens: tokens.to_vec(), positions, base: 0, sees, keep, read: rows, tap: None };
        llm.model().forward(&mut [(pass, &mut llm.model().new_cache())]).unwrap()
    }

    /// A row's token and its probability; greedily by hand, else by the rule, which has tests of its own.
    fn draw(&self, hidden: &Hidden, row: usize, slot: usize) -> (u32, f32) {
        if self.temperature > 0.0 {
            let greedy = RowRule::greedy(self.mask, slot as u32);
            let (temperature, seed, filter_order) = (self.temperature, self.seed, FilterOrder::TopKFirst);
            let confidence = dlmrs::sample::Confidence::Shaped;
            let rule = RowRule { temperature, seed, filter_order, confidence, ..greedy };
            let stat = hidden.scan(&[RowScan { row, guide: None, rule }]).unwrap()[0];
            return (stat.token, stat.probability);
        }
        let logits = hidden.row(row).unwrap();
        let mut best = usize::from(self.mask == 0);
        for id in 0..logits.len() {
            if id != self.mask as usize && logits[id] > logits[best] {
                best = id;
            }
        }
        let all: f64 = logits.iter().map(|l| f64::from(l - logits[best]).exp()).sum();
        (best as u32, (1.0 / all) as f32)
    }

    /// Decides all of these that are above the threshold, and the surest.
    fn reveal(&self, canvas: &mut [u32], found: &[(usize, (u32, f32))]) {
        let mut surest = 0;
        for (i, (_, (_, p))) in found.iter().enumerate() {
            if *p > found[surest].1.1 {
                surest = i;
            }
        }
        for (i, (slot, (token, p))) in found.iter().enumerate() {
            if i == surest || *p > self.threshold {
                canvas[*slot] = *token;
            }
        }
    }

    fn canvas(&self) -> Vec<u32> {
        let mut canvas = self.prompt.clone();
        if self.max_tokens > 0 || canvas.contains(&self.mask) {
            canvas.resize((canvas.len() + self.max_tokens).div_ceil(self.block) * self.block, self.mask);
        }
        canvas
    }

    /// The canvas, and how many passes decided something.
    pub(crate) fn run(&self, llm: &Llm) -> (Vec<u32>, usize) {
        let (mut canvas, mut passes) = (self.canvas(), 0);
        for start in (0..canvas.len()).step_by(self.block) {
            if start > 0 && self.is_masked(&canvas, start) {
                let hidden = self.forward(llm, &canvas[..start], vec![start as u32 - 1]);
                canvas[start] = self.draw(&hidden, 0, start).0;
                passes += 1;
            }
            for first in (start..canvas.len().min(start + self.block)).step_by(self.sub_block) {
                loop {
                    let masked: Vec<usize> = (first..first + self.sub_block).filter(|&p| self.is_masked(&canvas, p)).collect();
                    if masked.is_empty() {
                        break;
                    }
                    let rows = masked.iter().map(|&p| p.saturating_sub(1) as u32).collect();
                    let hidden = self.forward(llm, &canvas[..start + self.block], rows);
                    let found: Vec<_> = masked.iter().enumerate().map(|(row, &slot)| (slot, self.draw(&hidden, row, slot))).collect();
                    self.reveal(&mut canvas, &found);
                    passes += 1;
                }
            }
        }
        (canvas, passes)
    }

    /// The same with the sub-block cache: a pass over the sub-block sees the rest of the block as the last pass over
    /// the whole of it left that, and nothing is ever put in another's place.
    pub(crate) fn run_cached(&self, llm: &Llm) -> (Vec<u32>, usize) {
        let (mut canvas, mut passes) = (self.canvas(), 0);
        for start in (0..canvas.len()).step_by(self.block) {
            if start > 0 && self.is_masked(&canvas, start) {
                let hidden = self.forward(llm, &canvas[..start], vec![start as u32 - 1]);
                canvas[start] = self.draw(&hidden, 0, start).0;
                passes += 1;
            }
            for first in (start..canvas.len().min(start + self.block)).step_by(self.sub_block) {
                let sub_block = first..first + self.sub_block;
                let mut left: Option<KvCache> = None;
                loop {
                    let masked: Vec<usize> = sub_block.clone().filter(|&p| self.is_masked(&canvas, p)).collect();
                    if masked.is_empty() {
                        break;
                    }
                    let end = start + self.block;
                    let (hidden, rows): (Hidden, Vec<usize>) = match &mut left {
                        Some(cache) if !self.is_masked(&canvas, first) => {
                            let places: Vec<u32> = sub_block.clone().map(|p| p as u32).collect();
                            let visible = |_: usize, key: usize| key >= end || !sub_block.contains(&key);
                            let pass = Pass {
                                tokens: canvas[sub_block.clone()].to_vec(),
                                positions: places,
                                base: end,
                                sees: Sees::Mask(Bits::from_fn(self.sub_block, end + self.sub_block, visible)),
                                keep: Keep::Nothing,
                                read: (0..self.sub_block as u32).collect(),
                                tap: None,
                            };
                            let hidden = llm.model().forward(&mut [(pass, cache)]).unwrap();
                            (hidden, masked.iter().map(|&p| p - 1 - first).collect())
                        }
                        _ => {
                            let mut cache = llm.model().new_cache();
                            let pass = Pass {
                                tokens: canvas[..end].to_vec(),
                                positions: (0..end as u32).collect(),
                                base: 0,
                                sees: Sees::Mask(Bits::from_fn(end, end, |row, key| key / self.block <= row / self.block)),
                                keep: Keep::Append((0..end as u32).collect()),
                                read: (0..end as u32).collect(),
                                tap: None,
                            };
                            let hidden = llm.model().forward(&mut [(pass, &mut cache)]).unwrap();
                            left = Some(cache);
                            (hidden, masked.iter().map(|&p| p.saturating_sub(1)).collect())
                        }
                    };
                    let found: Vec<_> = masked.iter().zip(rows).map(|(&slot, row)| (slot, self.draw(&hidden, row, slot))).collect();
                    self.reveal(&mut canvas, &found);
                    passes += 1;
                }
            }
        }
        (canvas, passes)
    }
}
