//! Block diffusion (SDAR, LLaDA2): blocks from left to right on an absolute grid, each denoised in steps.
//!
//! A finished block's keys and values are final, because the model is block-causal, so caching is exact. They are not computed in a
//! pass of their own: the rows of whatever is finished and not yet cached go into the pass that denoises the next block. The same rule
//! covers the prompt, whose whole blocks ride along with the first denoising pass unless they are many.

use super::method::{BlockDiffusion, Strategy, Task};
use super::reveal::{self, Candidate, Chosen};
use super::rules::Rules;
use super::{Answer, Counts, Decoder, PassKind, Revealed, Scan, Wish};
use crate::error::Result;
use crate::pass::{Keep, Pass, Sees};
use crate::sample::RowStat;

use super::schedule::quotas;

/// Rows that are prefilled at a time.
const CHUNK: usize = 512;

/// The state of one request.
pub struct BlockDecoder {
    canvas: Vec<u32>,
    mask_token_id: u32,
    rules: Rules,
    /// B
    length: usize,
    strategy: Strategy,
    threshold: f32,
    entropy_bound: f32,
    /// Slots to reveal at each step of a block.
    quotas: Vec<usize>,
    /// Step inside the current block.
    step: usize,
    /// Start of the current block: the first that has masks.
    block: usize,
    /// Entries in the cache.
    cached: usize,
    /// Which blocks have been denoised: their rows are commits, those of others prefill.
    denoised: Vec<bool>,
    /// Slots that the pass under way reads, and entries it appends up to.
    reading: Vec<usize>,
    caching: usize,
}

impl BlockDecoder {
    /// Settings and task must have been validated; the block length is the settings' or the task's, or else the whole canvas.
    pub fn new(settings: &BlockDiffusion, task: Task) -> Self {
        let rules = Rules::new(&task, &[]);
        let mut canvas = task.prompt;
        let wanted = canvas.len() + task.params.max_tokens;
        let length = settings.block_length.or(task.block_length).unwrap_or(wanted).max(1);
        let has_slots = task.params.max_tokens > 0 || canvas.contains(&task.mask_token_id);
        if has_slots {
            canvas.resize(wanted.div_ceil(length) * length, task.mask_token_id);
        }
        let denoised = vec![false; canvas.len() / length + 1];
        let mut decoder = Self {
            canvas,
            mask_token_id: task.mask_token_id,
            rules,
            length,
            strategy: settings.strategy,
            threshold: settings.threshold.unwrap_or(task.threshold),
            entropy_bound: settings.entropy_bound.unwrap_or(0.35),
            quotas: quotas(length, settings.steps.unwrap_or(length)),
            step: 0,
            block: 0,
            cached: 0,
            denoised,
            reading: Vec::new(),
            caching: 0,
        };
        decoder.block = decoder.first_open_block();
        decoder
    }

    /// Start of the first block with a mask, or the end of the canvas.
    fn first_open_block(&self) -> usize {
        let first = self.canvas[self.block..].iter().position(|&id| id == self.mask_token_id);
        first.map_or(self.canvas.len(), |i| (self.block + i) / self.length * self.length)
    }

    /// How many rows go into the cache in a pass of their own before the current block can be denoised.
    fn prefill(&self) -> Option<usize> {
        let chunk = CHUNK.max(self.length) / self.length * self.length;
        (self.block - self.cached > chunk).then_some(chunk)
    }

    fn quota(&self) -> usize {
        self.quotas.get(self.step).copied().unwrap_or(1).max(1)
    }

    /// Rows `from..to` of the canvas, those before `keep` appended to the cache.
    fn pass(&self, from: usize, to: usize, keep: usize, read: Vec<u32>) -> Pass {
        Pass {
            tokens: self.canvas[from..to].to_vec(),
            positions: (from as u32..to as u32).collect(),
            base: from,
            sees: Sees::Blocks(self.length),
            keep: Keep::Append((0..(keep - from) as u32).collect()),
            read,
        }
    }

    fn counts(&self, from: usize, keep: usize, to: usize) -> Counts {
        let commit = (from..keep).filter(|p| self.denoised[p / self.length]).count();
        Counts::of(PassKind::Prefill, keep - from - commit).and(PassKind::Commit, commit).and(PassKind::Denoise, to - keep)
    }

    fn choose(&self, candidates: &[Candidate]) -> Chosen {
        match self.strategy {
            Strategy::Sequential => reveal::leftmost(candidates, self.quota()),
            Strategy::LowConfidenceStatic | Strategy::Margin => reveal::top(candidates, self.quota()),
            Strategy::LowConfidenceDynamic => reveal::above_or_top(candidates, self.threshold, self.quota()),
            Strategy::EntropyBounded => reveal::entropy_bounded(candidates, self.entropy_bound),
        }
    }

    fn score(&self, stat: &RowStat) -> f32 {
        match self.strategy {
            Strategy::EntropyBounded => -stat.entropy,
            Strategy::Margin => stat.margin,
            _ => stat.probability,
        }
    }
}

impl Decoder for BlockDecoder {
    fn next_rows(&self) -> usize {
        if self.finished() {
            return 0;
        }
        self.prefill().unwrap_or(self.block - self.cached + self.length)
    }

    fn next(&mut self) -> Result<Vec<Wish>> {
        if self.finished() {
            return Ok(Vec::new());
        }
        if let Some(chunk) = self.prefill() {
            self.caching = self.cached + chunk;
            self.reading.clear();
            let pass = self.pass(self.cached, self.caching, self.caching, Vec::new());
            let rows = self.counts(self.cached, self.caching, self.caching);
            return Ok(vec![Wish { cache: 0, pass, scans: Vec::new(), kind: PassKind::Prefill, rows }]);
        }
        let (from, end) = (self.cached, self.block + self.length);
        self.reading = (self.block..end).filter(|&p| self.canvas[p] == self.mask_token_id).collect();
        if self.strategy == Strategy::Sequential {
            self.reading.truncate(self.quota());
        }
        self.caching = self.block;
        self.rules.update(&self.canvas);
        let scans = self.reading.iter().enumerate().map(|(read, &p)| Scan { read, guide: None, rule: self.rules.at(p) }).collect();
        let read = self.reading.iter().map(|&p| (p - from) as u32).collect();
        let pass = self.pass(from, end, self.block, read);
        let rows = self.counts(from, self.block, end);
        self.denoised[self.block / self.length] = true;
        Ok(vec![Wish { cache: 0, pass, scans, kind: PassKind::Denoise, rows }])
    }

    fn take(&mut self, answers: &[Answer]) -> Result<Vec<Revealed>> {
        self.cached = self.caching;
        let Some(stats) = answers.first().map(|answer| &answer.stats).filter(|stats| !stats.is_empty()) else { return Ok(Vec::new()) };
        let candidates: Vec<_> =
            self.reading.iter().zip(stats).map(|(&position, stat)| Candidate { position, score: self.score(stat) }).collect();
        let mut revealed = Vec::new();
        for (i, how) in self.choose(&candidates) {
            let (position, stat) = (candidates[i].position, stats[i]);
            self.canvas[position] = stat.token;
            revealed.push(Revealed { position, stat, how });
        }
        self.step += 1;
        let open = self.first_open_block();
        if open != self.block {
            self.block = open;
            self.step = 0;
        }
        Ok(revealed)
    }

    fn canvas(&self) -> &[u32] {
        &self.canvas
    }

    fn committed(&self) -> usize {
        self.block
    }

    fn finished(&self) -> bool {
        self.block == self.canvas.len()
    }
}
