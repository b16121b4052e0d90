//! Block diffusion (SDAR, LLaDA2): blocks from left to right on an absolute grid, each denoised in steps.
//!
//! A finished block's keys and values are final, because the model is block-causal, so caching is exact. They are not computed in a
//! pass of their own: the rows of whatever is finished and not yet cached go into the pass that denoises the next block. The same rule
//! covers the prompt, whose whole blocks ride along with the first denoising pass unless they are many.

use super::method::{BlockDiffusion, Task};
use super::rules::Rules;
use super::{Answer, Decoder, Grid, PassKind, RevealRule, Revealed, Role, Scan, Wish};
use crate::error::Result;
use crate::pass::{Keep, Pass, Sees};

/// The state of one request.
pub struct BlockDecoder {
    grid: Grid,
    rules: Rules,
    rule: RevealRule,
    /// Step inside the current block.
    step: usize,
    /// Entries in the cache.
    cached: usize,
    /// Slots that the pass under way reads, and entries it appends up to.
    reading: Vec<usize>,
    caching: usize,
}

impl BlockDecoder {
    /// Settings and task must have been validated; the block length is the settings' or the task's, or else the whole canvas.
    pub fn new(settings: &BlockDiffusion, task: Task) -> Self {
        let grid = Grid::new(settings, &task);
        let rule = RevealRule::new(settings, task.threshold, grid.length);
        Self { grid, rules: Rules::new(&task, &[]), rule, step: 0, cached: 0, reading: Vec::new(), caching: 0 }
    }

    /// Rows `from..to` of the canvas, those before `keep` appended to the cache.
    fn pass(&self, from: usize, to: usize, keep: usize, read: Vec<u32>) -> Pass {
        Pass {
            tokens: self.grid.canvas[from..to].to_vec(),
            positions: (from as u32..to as u32).collect(),
            base: from,
            sees: Sees::Blocks(self.grid.length),
            keep: Keep::Append((0..(keep - from) as u32).collect()),
            read,
            tap: None,
        }
    }
}

impl Decoder for BlockDecoder {
    fn next_rows(&self) -> usize {
        if self.finished() {
            return 0;
        }
        self.grid.prefill(self.cached, self.grid.block).unwrap_or(self.grid.block - self.cached + self.grid.length)
    }

    fn next(&mut self) -> Result<Vec<Wish>> {
        if self.finished() {
            return Ok(Vec::new());
        }
        let (from, block) = (self.cached, self.grid.block);
        if let Some(chunk) = self.grid.prefill(from, block) {
            self.caching = from + chunk;
            self.reading.clear();
            return Ok(vec![self.grid.prefill_wish(from, chunk, self.grid.length)]);
        }
        let end = block + self.grid.length;
        self.reading = self.grid.masked(block);
        if let Some(leftmost) = self.rule.looks_at(self.step) {
            self.reading.truncate(leftmost);
        }
        self.caching = block;
        self.rules.update(&self.grid.canvas);
        let scans = self.reading.iter().enumerate().map(|(read, &p)| Scan { read, guide: None, rule: self.rules.at(p) }).collect();
        let read = self.reading.iter().map(|&p| (p - from) as u32).collect();
        let pass = self.pass(from, end, block, read);
        let rows = self.grid.kept_rows(from, block).and(PassKind::Denoise, end - block);
        Ok(vec![Wish { model: Role::Target, cache: 0, pass, scans, kind: PassKind::Denoise, rows }])
    }

    fn take(&mut self, answers: &[Answer]) -> Result<Vec<Revealed>> {
        self.cached = self.caching;
        let Some(stats) = answers.first().map(|answer| &answer.stats).filter(|stats| !stats.is_empty()) else { return Ok(Vec::new()) };
        let slots: Vec<_> = self.reading.iter().copied().zip(stats.iter().copied()).collect();
        let mut revealed = Vec::new();
        for (i, how) in self.rule.choose(&slots, self.step) {
            let (position, stat) = slots[i];
            self.grid.canvas[position] = stat.token;
            revealed.push(Revealed { position, stat, how });
        }
        self.step = if self.grid.advance() { 0 } else { self.step + 1 };
        Ok(revealed)
    }

    fn canvas(&self) -> &[u32] {
        &self.grid.canvas
    }

    fn committed(&self) -> usize {
        self.grid.block
    }

    fn finished(&self) -> bool {
        self.grid.finished()
    }
}
