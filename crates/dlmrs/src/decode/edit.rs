//! Block diffusion with token editing (LLaDA2.1's generation code): each pass also rewrites decided tokens of the current block of which the
//! model now says something else with enough confidence, and a block without masks is looked at again until nothing changes.
//!
//! A block is left for good, so the keys and values that are cached of it, by the first pass of the block behind it, are those of its last
//! tokens: as exact as without editing. Until then nothing of it is final, and stops in it do not count.

use super::method::{Editing, Task};
use super::rules::Rules;
use super::{Answer, Decoder, Grid, How, RevealRule, Revealed, Wish};
use crate::error::Result;
use crate::sample::{RowRule, RowStat};

/// The state of one request.
pub struct EditingDecoder {
    grid: Grid,
    rules: Rules,
    rule: RevealRule,
    threshold: f32,
    max_post_steps: usize,
    /// Which slots of the canvas were given; they are never rewritten.
    given: Vec<bool>,
    /// Step inside the current block.
    step: usize,
    /// Passes over the current block that found no mask in it.
    post_steps: usize,
    /// Entries in the cache.
    cached: usize,
    /// Slots that the pass under way reads, and entries it appends up to.
    reading: Vec<usize>,
    caching: usize,
}

impl EditingDecoder {
    /// Settings and task must have been validated.
    pub fn new(settings: &Editing, task: Task) -> Self {
        let grid = Grid::new(&settings.block, &task);
        Self {
            rule: RevealRule::new(&settings.block, task.threshold, grid.length),
            rules: Rules::new(&task, &[]),
            threshold: settings.editing_threshold,
            max_post_steps: settings.max_post_steps,
            given: grid.canvas.iter().map(|&id| id != grid.mask_token_id).collect(),
            grid,
            step: 0,
            post_steps: 0,
            cached: 0,
            reading: Vec::new(),
            caching: 0,
        }
    }

    /// The slots of the current block that the next pass reads, in order: masks that the rule looks at, and all that may be rewritten.
    fn slots(&self) -> Vec<usize> {
        let mut masked = self.grid.masked(self.grid.block);
        if let Some(leftmost) = self.rule.looks_at(self.step) {
            masked.truncate(leftmost);
        }
        let decided = |p: &usize| !self.given[*p] && self.grid.canvas[*p] != self.grid.mask_token_id;
        let block = self.grid.block..self.grid.block + self.grid.length;
        block.filter(|p| decided(p) || masked.binary_search(p).is_ok()).collect()
    }

    /// How each slot is read. What a slot holds itself does not count for the repetition penalty, or it would be rewritten because it is there.
    fn row_rules(&mut self, slots: &[usize]) -> Vec<RowRule> {
        let mask = self.grid.mask_token_id;
        let rule = |&p: &usize| {
            let held = std::mem::replace(&mut self.grid.canvas[p], mask);
            self.rules.update(&self.grid.canvas);
            self.grid.canvas[p] = held;
            self.rules.at(p)
        };
        slots.iter().map(rule).collect()
    }

    /// Writes what was chosen into the canvas, all of it from the same pass.
    fn write(&mut self, slots: &[(usize, RowStat)], chosen: Vec<(usize, How)>) -> Vec<Revealed> {
        let one = |(i, how): (usize, How)| {
            let (position, stat) = slots[i];
            self.grid.canvas[position] = stat.token;
            Revealed { position, stat, how }
        };
        chosen.into_iter().map(one).collect()
    }
}

impl Decoder for EditingDecoder {
    fn next_rows(&self) -> usize {
        self.grid.next_rows(self.cached)
    }

    fn next(&mut self) -> Result<Vec<Wish>> {
        if self.finished() {
            return Ok(Vec::new());
        }
        if let Some(chunk) = self.grid.prefill(self.cached, self.grid.block) {
            self.caching = self.cached + chunk;
            self.reading.clear();
            return Ok(vec![self.grid.prefill_wish(self.cached, chunk, self.grid.length)]);
        }
        self.caching = self.grid.block;
        let slots = self.slots();
        let rules = self.row_rules(&slots);
        self.reading = slots;
        Ok(vec![self.grid.denoise_wish(self.cached, &self.reading, rules)])
    }

    fn take(&mut self, answers: &[Answer]) -> Result<Vec<Revealed>> {
        self.cached = self.caching;
        let Some(stats) = answers.first().map(|answer| &answer.stats).filter(|stats| !stats.is_empty()) else { return Ok(Vec::new()) };
        let slots = self.reading.iter().copied().zip(stats.iter().copied());
        let (masked, decided): (Vec<_>, Vec<_>) = slots.partition(|(p, _)| self.grid.canvas[*p] == self.grid.mask_token_id);
        let chosen = self.rule.choose(&masked, self.step);
        let rewritten = |(p, stat): &(usize, RowStat)| stat.token != self.grid.canvas[*p] && stat.probability > self.threshold;
        let edits: Vec<_> = (0..decided.len()).filter(|&i| rewritten(&decided[i])).map(|i| (i, How::Edited)).collect();
        let (had_masks, calm) = (!masked.is_empty(), edits.is_empty());
        let mut revealed = self.write(&masked, chosen);
        revealed.extend(self.write(&decided, edits));
        self.step += 1;
        self.post_steps += usize::from(!had_masks);
        let full = self.grid.masked(self.grid.block).is_empty();
        if full && (!had_masks && calm || self.post_steps >= self.max_post_steps) {
            self.grid.advance();
            (self.step, self.post_steps) = (0, 0);
        }
        Ok(revealed)
    }

    fn canvas(&self) -> &[u32] {
        &self.grid.canvas
    }

    fn committed(&self) -> usize {
        self.grid.block
    }

    /// A stop in the current block may yet be rewritten.
    fn watched(&self) -> usize {
        self.committed()
    }
}
