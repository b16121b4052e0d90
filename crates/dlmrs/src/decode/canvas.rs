//! Canvas diffusion (LLaDA, Dream): prompt and slots in one canvas, full attention, blocks counted from the prompt's end.

mod choose;
mod feed;

use std::ops::Range;

use super::method::{Canvas, EarlyStop, Suffix, Task};
use super::rules::Rules;
use super::schedule::steps_by_block;
use super::suffix;
use super::{Answer, Decoder, Revealed, Role, Scan, Wish};
use crate::error::Result;
use crate::pass::{Pass, Tap};
use crate::sample::RowStat;
use choose::Chooser;
use feed::{Feed, Rows};

/// The state of one request.
pub struct CanvasDecoder {
    canvas: Vec<u32>,
    /// Tokens of the prompt.
    prompt: usize,
    /// Which tokens the guiding canvas hides: those that were given. Empty without guidance.
    hidden: Vec<bool>,
    mask_token_id: u32,
    seed: u64,
    shift: bool,
    cfg_scale: f32,
    rules: Rules,
    chooser: Chooser,
    feed: Feed,
    policy: Suffix,
    /// What each block so far keeps behind it; the last is the current one's.
    kept: Vec<Vec<u32>>,
    early_stop: EarlyStop,
    /// What ends a canvas early.
    stop_token_ids: Vec<u32>,
    blocks: Vec<Range<usize>>,
    /// Steps of each block.
    steps: Vec<usize>,
    /// The current block.
    block: usize,
    /// Slots that the pass under way reads; whether they are all decided, whatever the rule.
    reading: Vec<usize>,
    unconditional: bool,
}

impl CanvasDecoder {
    /// Settings and task must have been validated.
    pub fn new(settings: &Canvas, task: Task) -> Self {
        let eos = if settings.logits_eos_inf { task.eos_token_id } else { None };
        let (rules, chooser) = (Rules::new(&task, eos.as_slice()), Chooser::new(settings, &task));
        let (prompt, slots) = (task.prompt.len(), task.params.max_tokens);
        let mut canvas = task.prompt;
        let given = canvas.iter().map(|&id| id != task.mask_token_id);
        let hidden = if settings.cfg_scale > 0.0 { given.chain(std::iter::repeat_n(false, slots)).collect() } else { Vec::new() };
        canvas.resize(prompt + slots, task.mask_token_id);
        let length = settings.block_length_for(task.alg, slots);
        // Masks of the prompt are decided with the first block.
        let mut blocks: Vec<Range<usize>> =
            (prompt..prompt + slots).step_by(length).map(|from| from..(from + length).min(prompt + slots)).collect();
        match blocks.first_mut() {
            Some(first) => first.start = 0,
            None => blocks.push(0..prompt),
        }
        let masks: Vec<usize> = blocks.iter().map(|b| canvas[b.clone()].iter().filter(|&&id| id == task.mask_token_id).count()).collect();
        let mut decoder = Self {
            canvas,
            prompt,
            hidden,
            mask_token_id: task.mask_token_id,
            seed: task.seed,
            shift: task.shift,
            cfg_scale: settings.cfg_scale,
            rules,
            chooser,
            feed: Feed::new(settings.cache, settings.refresh),
            policy: settings.suffix.clone(),
            kept: Vec::new(),
            early_stop: settings.early_stop,
            stop_token_ids: if task.params.ignore_eos { Vec::new() } else { task.stop_token_ids },
            steps: steps_by_block(&masks, settings.steps.unwrap_or(masks.iter().sum())),
            blocks,
            block: 0,
            reading: Vec::new(),
            unconditional: false,
        };
        decoder.enter_block();
        decoder
    }

    /// Goes to the first block from `self.block` on that has masks.
    fn enter_block(&mut self) {
        while self.block < self.blocks.len() && self.masks().is_empty() {
            self.block += 1;
        }
        let Some(block) = self.blocks.get(self.block).cloned() else { return };
        let masks = self.masks();
        self.chooser.enter(masks.len(), self.steps[self.block]);
        let kept = suffix::kept(&self.policy, self.canvas.len() - self.prompt, self.seed, self.block, block.end, self.canvas.len());
        self.kept.push(kept);
        self.feed.enter(self.block, masks); // a block begins with nothing but masks, beside the prompt's tokens
    }

    /// Masked slots of the current block.
    fn masks(&self) -> Vec<usize> {
        self.blocks[self.block].clone().filter(|&p| self.canvas[p] == self.mask_token_id).collect()
    }

    /// Where the current block ends, and what it keeps behind it.
    fn behind(&self) -> (usize, &[u32]) {
        (self.blocks[self.block].end, self.kept.last().map_or(&[], Vec::as_slice))
    }

    /// Chooses what to read. With the shift, slots whose row in front is fed in the block's first pass only are all decided by
    /// it and nothing else is, as in DPad's Dream code.
    fn plan(&mut self) {
        let orphans = if self.shift && self.feed.is_first() && self.feed.leaves_out_rows() { self.feed.orphans() } else { Vec::new() };
        self.unconditional = !orphans.is_empty();
        self.reading = if self.unconditional { orphans } else { self.chooser.plan(self.masks()) };
    }

    /// One pass; the guiding one hides what was given.
    fn pass(&self, rows: &Rows, hidden: &[bool], read: Vec<u32>) -> Pass {
        let token = |&p: &usize| if hidden.get(p) == Some(&true) { self.mask_token_id } else { self.canvas[p] };
        Pass {
            tokens: rows.places.iter().map(token).collect(),
            positions: rows.places.iter().map(|&p| p as u32).collect(),
            base: rows.base,
            sees: rows.sees.clone(),
            keep: rows.keep.clone(),
            read,
            tap: None,
        }
    }

    /// What the spotlight wants to know of a block's first pass: how much its rows look at each row behind it.
    fn tap(&self, rows: &Rows) -> Option<Tap> {
        let (_, kept) = self.behind();
        if !matches!(self.policy, Suffix::Spotlight(_)) || !self.feed.is_first() || kept.is_empty() {
            return None;
        }
        let queries = self.masks().iter().filter_map(|p| rows.places.binary_search(p).ok()).map(|row| row as u32).collect();
        let behind = rows.places.len() - kept.len();
        let keys = (behind..rows.places.len()).map(|row| (rows.base + row) as u32).collect();
        Some(Tap { queries, keys })
    }

    /// Drops what the block's first pass looked at from afar.
    fn drop_spotlights(&mut self, tapped: &[Vec<f32>]) {
        let (Suffix::Spotlight(policy), false) = (&self.policy, tapped.is_empty()) else { return };
        let (end, kept) = self.behind();
        let mean: Vec<f32> = (0..kept.len()).map(|key| tapped.iter().map(|row| row[key]).sum::<f32>() / tapped.len() as f32).collect();
        let left = suffix::without_spotlights(policy, kept, &mean, end);
        if let Some(kept) = self.kept.last_mut() {
            *kept = left;
        }
    }

    /// Decides what the rule, or the shift, chooses of what was read.
    fn decide(&mut self, stats: &[RowStat]) -> Vec<Revealed> {
        let revealed = match self.unconditional {
            true => choose::revealed(choose::all(self.reading.len()), &self.reading, stats),
            false => self.chooser.choose(&self.reading, stats),
        };
        for slot in &revealed {
            self.canvas[slot.position] = slot.stat.token;
        }
        revealed
    }

    /// Leaves the canvas where the finished block has a stop id anywhere: the rest is filled with it.
    fn stop_compat(&mut self) {
        let answer = self.blocks[self.block].start.max(self.prompt)..self.blocks[self.block].end;
        let Some(&stop) = self.canvas[answer.clone()].iter().find(|id| self.stop_token_ids.contains(id)) else { return };
        self.canvas[answer.end..].fill(stop);
        self.block = self.blocks.len();
    }
}

impl Decoder for CanvasDecoder {
    fn caches(&self) -> usize {
        if self.hidden.is_empty() { 1 } else { 2 }
    }

    fn next_rows(&self) -> usize {
        if self.finished() {
            return 0;
        }
        let (end, kept) = self.behind();
        self.caches() * self.feed.count(end, kept.len())
    }

    fn next(&mut self) -> Result<Vec<Wish>> {
        if self.finished() {
            return Ok(Vec::new());
        }
        self.plan();
        self.rules.update(&self.canvas);
        let (end, kept) = self.behind();
        let rows = self.feed.rows(end, kept);
        let guide = |read| (self.caches() > 1).then_some((1, read, self.cfg_scale));
        let scan = |(read, &p): (usize, &usize)| Scan { read, guide: guide(read), rule: self.rules.at(p) };
        let scans = self.reading.iter().enumerate().map(scan).collect();
        let row_of = |p: usize| rows.places.binary_search(&p).unwrap_or_else(|row| row) as u32; // what is read is always fed
        let read: Vec<u32> = self.reading.iter().map(|&p| row_of(if self.shift { p.saturating_sub(1) } else { p })).collect();
        let (kind, counts) = (rows.kind, rows.counts);
        let pass = Pass { tap: self.tap(&rows), ..self.pass(&rows, &[], read.clone()) };
        let mut wishes = vec![Wish { model: Role::Target, cache: 0, pass, scans, kind, rows: counts }];
        if self.caches() > 1 {
            wishes.push(Wish {
                model: Role::Target,
                cache: 1,
                pass: self.pass(&rows, &self.hidden, read),
                scans: Vec::new(),
                kind,
                rows: counts,
            });
        }
        Ok(wishes)
    }

    fn take(&mut self, answers: &[Answer]) -> Result<Vec<Revealed>> {
        let Some(Answer { stats, tapped, .. }) = answers.first() else { return Ok(Vec::new()) };
        let revealed = self.decide(stats);
        let (end, kept) = (self.blocks[self.block].end, self.kept.last().map_or(&[][..], Vec::as_slice));
        self.feed.passed(end, kept);
        self.drop_spotlights(tapped);
        self.chooser.stepped();
        if self.masks().is_empty() {
            if self.early_stop == EarlyStop::Compat {
                self.stop_compat();
            }
            self.enter_block();
        }
        Ok(revealed)
    }

    fn canvas(&self) -> &[u32] {
        &self.canvas
    }

    fn committed(&self) -> usize {
        match self.blocks.get(self.block) {
            Some(block) if self.block > 0 => block.start,
            Some(_) => 0,
            None => self.canvas.len(),
        }
    }

    fn finished(&self) -> bool {
        self.block == self.blocks.len()
    }

    fn watched(&self) -> usize {
        match self.early_stop {
            EarlyStop::Strict => self.canvas.len(),
            EarlyStop::Compat => self.committed(),
            EarlyStop::Off if self.finished() => self.canvas.len(),
            EarlyStop::Off => 0,
        }
    }

    fn kept_suffix(&self) -> &[Vec<u32>] {
        let waiting = !self.finished() && self.feed.is_first();
        &self.kept[..self.kept.len() - usize::from(waiting)]
    }
}
