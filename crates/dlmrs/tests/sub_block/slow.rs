//! The slow obvious version: every pass computes everything from the canvas's start, under a mask that is written out, and keeps nothing.

use std::ops::Range;

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

    /// A pass over the canvas's first tokens, none of which sees beyond its block. Nothing is kept or read.
    fn pass(&self, tokens: &[u32]) -> Pass {
        let n = tokens.len();
        let sees = Sees::Mask(Bits::from_fn(n, n, |row, key| key / self.block <= row / self.block));
        let (positions, keep) = ((0..n as u32).collect(), Keep::Nothing);
        Pass { tokens: tokens.to_vec(), positions, base: 0, sees, keep, read: Vec::new(), tap: None }
    }

    /// Rows `rows` of that pass.
    fn forward(&self, llm: &Llm, tokens: &[u32], rows: Vec<u32>) -> Hidden {
        let pass = Pass { read: rows, ..self.pass(tokens) };
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
        self.run_by(llm, |_, canvas, sub_block| self.whole(llm, canvas, sub_block))
    }

    /// The same with the sub-block cache: a pass over the sub-block sees the rest of the block as the last pass over the whole of it left
    /// that, and nothing is ever put in another's place.
    pub(crate) fn run_cached(&self, llm: &Llm) -> (Vec<u32>, usize) {
        self.run_by(llm, |left, canvas, sub_block| match left {
            Some(cache) if !self.is_masked(canvas, sub_block.start) => self.alone(llm, canvas, sub_block, cache),
            _ => {
                let found = self.whole(llm, canvas, sub_block.clone());
                *left = Some(self.left_by(llm, &canvas[..self.end(sub_block.start)]));
                found
            }
        })
    }

    /// From left to right; `look` says what a pass finds for the masks of a sub-block, and may leave something for the next of its passes.
    fn run_by(
        &self,
        llm: &Llm,
        look: impl Fn(&mut Option<KvCache>, &[u32], Range<usize>) -> Vec<(usize, (u32, f32))>,
    ) -> (Vec<u32>, usize) {
        let (mut canvas, mut passes) = (self.canvas(), 0);
        for first in (0..canvas.len()).step_by(self.sub_block) {
            if first > 0 && first.is_multiple_of(self.block) && self.is_masked(&canvas, first) {
                let hidden = self.forward(llm, &canvas[..first], vec![first as u32 - 1]);
                canvas[first] = self.draw(&hidden, 0, first).0;
                passes += 1;
            }
            let mut left = None;
            // A canvas without masks may end inside a block.
            while canvas[first..].iter().take(self.sub_block).any(|&id| id == self.mask) {
                let found = look(&mut left, &canvas, first..first + self.sub_block);
                self.reveal(&mut canvas, &found);
                passes += 1;
            }
        }
        (canvas, passes)
    }

    /// Where the block of a place ends.
    fn end(&self, place: usize) -> usize {
        place / self.block * self.block + self.block
    }

    fn masked(&self, canvas: &[u32], sub_block: Range<usize>) -> Vec<usize> {
        sub_block.filter(|&p| self.is_masked(canvas, p)).collect()
    }

    /// A pass over everything up to the block's end.
    fn whole(&self, llm: &Llm, canvas: &[u32], sub_block: Range<usize>) -> Vec<(usize, (u32, f32))> {
        let masked = self.masked(canvas, sub_block.clone());
        let rows = masked.iter().map(|&p| p.saturating_sub(1) as u32).collect();
        let hidden = self.forward(llm, &canvas[..self.end(sub_block.start)], rows);
        masked.iter().enumerate().map(|(row, &slot)| (slot, self.draw(&hidden, row, slot))).collect()
    }

    /// The keys and values of that pass.
    fn left_by(&self, llm: &Llm, tokens: &[u32]) -> KvCache {
        let mut cache = llm.model().new_cache();
        let rows: Vec<u32> = (0..tokens.len() as u32).collect();
        let pass = Pass { keep: Keep::Append(rows), ..self.pass(tokens) };
        llm.model().forward(&mut [(pass, &mut cache)]).unwrap();
        cache
    }

    /// A pass over the sub-block alone, which does not see what was left of it.
    fn alone(&self, llm: &Llm, canvas: &[u32], sub_block: Range<usize>, cache: &mut KvCache) -> Vec<(usize, (u32, f32))> {
        let end = self.end(sub_block.start);
        let pass = Pass {
            tokens: canvas[sub_block.clone()].to_vec(),
            positions: sub_block.clone().map(|p| p as u32).collect(),
            base: end,
            sees: Sees::Mask(Bits::from_fn(sub_block.len(), end + sub_block.len(), |_, key| key >= end || !sub_block.contains(&key))),
            keep: Keep::Nothing,
            read: (0..sub_block.len() as u32).collect(),
            tap: None,
        };
        let hidden = llm.model().forward(&mut [(pass, cache)]).unwrap();
        let masked = self.masked(canvas, sub_block.clone());
        masked.iter().map(|&slot| (slot, self.draw(&hidden, slot - 1 - sub_block.start, slot))).collect()
    }
}
