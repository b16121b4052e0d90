//! Block diffusion with predictions shifted by one, in sub-blocks: blocks from left to right on an absolute grid, each filled sub-block by
//! sub-block, the prediction for slot i read at row i - 1.
//!
//! The row before a block's first slot is the last row of the block before, which sees that block's final tokens only once it is
//! finished. So the pass that makes a finished block permanent also decides the first slot of the next one (the hand-over), and from there on
//! every slot finds its row inside its own block. A prompt's whole blocks do the same where it ends with one, and else ride along with
//! the first pass. All of this is exact, because the model is block-causal.
//!
//! With the sub-block cache a pass over the whole block leaves its rows behind the finished ones, and passes that follow feed the sub-block
//! alone and put its rows in their place. The rest of the block is stale then, from the second layer on.

use std::ops::Range;

use super::method::{SubBlockDiffusion, Task};
use super::reveal::{self, Candidate};
use super::rules::Rules;
use super::{Answer, Counts, Decoder, Grid, PassKind, Revealed, Role, Scan, Wish};
use crate::error::Result;
use crate::pass::{Keep, Pass, Sees};

/// The state of one request.
pub struct SubBlockDecoder {
    grid: Grid,
    rules: Rules,
    threshold: f32,
    /// Slots of a sub-block.
    length: usize,
    sub_block_cache: bool,
    /// Where its cache stands, and where it will stand after the pass under way.
    cache: Cached,
    caching: Cached,
    /// Slots that the pass under way reads.
    reading: Vec<usize>,
}

/// What a cache holds. Entry i is place i of the canvas.
#[derive(Clone, Copy)]
struct Cached {
    /// Entries of finished blocks.
    finished: usize,
    /// Where the sub-block begins for which a pass left the rows of its whole block behind them.
    sub_block: Option<usize>,
}

/// What the next pass is about.
enum Step {
    /// So many rows of the prompt go into the cache; nothing is read.
    Prefill(usize),
    /// Finished blocks go into the cache, and their last row is read for the first slot of the current one.
    HandOver,
    /// The whole block, and what is finished and not cached yet; slots of the sub-block are read.
    Block(Range<usize>),
    /// The sub-block alone.
    SubBlock(Range<usize>),
}

impl SubBlockDecoder {
    /// Settings and task must have been validated; the block length is the settings' or the task's, or else the whole canvas.
    pub fn new(settings: &SubBlockDiffusion, task: Task) -> Self {
        let grid = Grid::new(&settings.grid(), &task);
        let empty = Cached { finished: 0, sub_block: None };
        Self {
            rules: Rules::new(&task, &[]),
            threshold: settings.threshold.unwrap_or(task.threshold),
            length: settings.sub_block_for(grid.length),
            sub_block_cache: settings.sub_block_cache,
            grid,
            cache: empty,
            caching: empty,
            reading: Vec::new(),
        }
    }

    /// The first sub-block that has masks; None at the end.
    fn sub_block(&self) -> Option<Range<usize>> {
        let (block, mask) = (self.grid.block, self.grid.mask_token_id);
        let first = self.grid.canvas[block..].iter().position(|&id| id == mask)?;
        let start = block + first / self.length * self.length;
        Some(start..(start + self.length).min(block + self.grid.length))
    }

    fn is_masked(&self, place: usize) -> bool {
        self.grid.canvas[place] == self.grid.mask_token_id
    }

    fn step(&self) -> Option<Step> {
        let sub_block = self.sub_block()?;
        let (finished, block) = (self.cache.finished, self.grid.block);
        Some(match self.grid.prefill(finished, block) {
            Some(chunk) => Step::Prefill(chunk),
            None if block > 0 && self.is_masked(block) => Step::HandOver,
            // The row of the sub-block's first slot is not in a pass over the sub-block.
            None if self.cache.sub_block == Some(sub_block.start) && !self.is_masked(sub_block.start) => Step::SubBlock(sub_block),
            None => Step::Block(sub_block),
        })
    }

    /// The masked slots among these places.
    fn masked(&self, places: Range<usize>) -> Vec<usize> {
        places.filter(|&place| self.is_masked(place)).collect()
    }

    /// The pass over these places, which reads `reading`.
    fn wish(&self, fed: Range<usize>, base: usize, keep: Keep, kind: PassKind, rows: Counts) -> Wish {
        // The canvas's first slot has no row before it: its own is read.
        let row = |&slot: &usize| (slot.saturating_sub(1) - fed.start) as u32;
        let scan = |(read, &slot): (usize, &usize)| Scan { read, guide: None, rule: self.rules.at(slot) };
        let pass = Pass {
            tokens: self.grid.canvas[fed.clone()].to_vec(),
            positions: fed.clone().map(|place| place as u32).collect(),
            base,
            sees: Sees::Blocks(self.grid.length),
            keep,
            read: self.reading.iter().map(row).collect(),
            tap: None,
        };
        let scans = self.reading.iter().enumerate().map(scan).collect();
        Wish { model: Role::Target, cache: 0, pass, scans, kind, rows }
    }

    fn hand_over(&mut self) -> Wish {
        let (from, block) = (self.cache.finished, self.grid.block);
        self.reading = vec![block];
        self.caching = Cached { finished: block, sub_block: None };
        self.wish(
            from..block,
            from,
            Keep::Append((0..(block - from) as u32).collect()),
            PassKind::Denoise,
            self.grid.kept_rows(from, block),
        )
    }

    fn whole_block(&mut self, sub_block: Range<usize>) -> Wish {
        let (from, block, end) = (self.cache.finished, self.grid.block, self.grid.block + self.grid.length);
        self.caching = Cached { finished: block, sub_block: self.sub_block_cache.then_some(sub_block.start) };
        self.reading = self.masked(sub_block);
        let (kind, kept) = if self.sub_block_cache { (PassKind::Refresh, end) } else { (PassKind::Denoise, block) };
        let rows = self.grid.kept_rows(from, block).and(kind, end - block);
        self.wish(from..end, from, Keep::Append((0..(kept - from) as u32).collect()), kind, rows)
    }

    fn alone(&mut self, sub_block: Range<usize>) -> Wish {
        let end = self.grid.block + self.grid.length;
        self.reading = self.masked(sub_block.clone());
        self.caching = self.cache;
        let slots = sub_block.clone().map(|place| place as u32).collect();
        let keep = Keep::Overwrite { rows: (0..sub_block.len() as u32).collect(), slots };
        let rows = Counts::of(PassKind::Denoise, sub_block.len());
        self.wish(sub_block, end, keep, PassKind::Denoise, rows)
    }
}

impl Decoder for SubBlockDecoder {
    fn next_rows(&self) -> usize {
        let (finished, block) = (self.cache.finished, self.grid.block);
        match self.step() {
            None => 0,
            Some(Step::Prefill(chunk)) => chunk,
            Some(Step::HandOver) => block - finished,
            Some(Step::Block(_)) => block - finished + self.grid.length,
            Some(Step::SubBlock(sub_block)) => sub_block.len(),
        }
    }

    fn next(&mut self) -> Result<Vec<Wish>> {
        self.rules.update(&self.grid.canvas);
        let wish = match self.step() {
            None => return Ok(Vec::new()),
            Some(Step::Prefill(chunk)) => {
                let from = self.cache.finished;
                self.reading.clear();
                self.caching = Cached { finished: from + chunk, sub_block: None };
                self.grid.prefill_wish(from, chunk, self.grid.length)
            }
            Some(Step::HandOver) => self.hand_over(),
            Some(Step::Block(sub_block)) => self.whole_block(sub_block),
            Some(Step::SubBlock(sub_block)) => self.alone(sub_block),
        };
        Ok(vec![wish])
    }

    fn take(&mut self, answers: &[Answer]) -> Result<Vec<Revealed>> {
        self.cache = self.caching;
        let Some(stats) = answers.first().map(|answer| &answer.stats) else { return Ok(Vec::new()) };
        let slots = self.reading.iter().zip(stats);
        let candidates: Vec<_> = slots.map(|(&position, stat)| Candidate { position, score: stat.probability }).collect();
        let mut revealed = Vec::new();
        for (i, how) in reveal::above_or_top(&candidates, self.threshold, 1) {
            let (position, stat) = (self.reading[i], stats[i]);
            self.grid.canvas[position] = stat.token;
            revealed.push(Revealed { position, stat, how });
        }
        self.grid.advance();
        Ok(revealed)
    }

    fn canvas(&self) -> &[u32] {
        &self.grid.canvas
    }

    fn committed(&self) -> usize {
        self.sub_block().map_or(self.grid.canvas.len(), |sub_block| sub_block.start)
    }
}
