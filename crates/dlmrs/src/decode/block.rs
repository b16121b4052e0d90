//! Block diffusion (SDAR, LLaDA2): blocks from left to right on an absolute grid, each denoised in steps.
//!
//! A finished block's keys and values are final, because the model is block-causal, so caching is exact. They are not computed in a
//! pass of their own: the rows of whatever is finished and not yet cached go into the pass that denoises the next block. The same rule
//! covers the prompt, whose whole blocks ride along with the first denoising pass unless they are many.

use super::method::{BlockDiffusion, Task};
use super::rules::Rules;
use super::{Answer, Decoder, Grid, RevealRule, Revealed, Wish};
use crate::error::Result;

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
}

impl Decoder for BlockDecoder {
    fn next_rows(&self) -> usize {
        self.grid.next_rows(self.cached)
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
        self.reading = self.grid.masked(block);
        if let Some(leftmost) = self.rule.looks_at(self.step) {
            self.reading.truncate(leftmost);
        }
        self.caching = block;
        self.rules.update(&self.grid.canvas);
        let rules = self.reading.iter().map(|&p| self.rules.at(p)).collect();
        Ok(vec![self.grid.denoise_wish(from, &self.reading, rules)])
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
}
