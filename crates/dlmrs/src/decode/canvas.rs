//! Canvas diffusion (LLaDA, Dream): prompt and slots in one canvas, full attention, blocks counted from the prompt's end.

mod ahead;
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
pub(crate) use ahead::CanvasLookahead;
use choose::{Chooser, Moment, Plan};
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
    /// Where the schedule stands.
    now: Moment,
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
    /// What the pass under way reads to decide slots by.
    plan: Option<Plan>,
    /// Slots that it decides whatever the rule.
    orphans: Vec<usize>,
    /// Whether the block's other masks are read too, for what they may be good for; and those of the pass under way.
    hears: bool,
    overheard: Vec<usize>,
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
            now: Moment::default(),
            feed: Feed::new(settings.cache, settings.refresh),
            policy: settings.suffix.clone(),
            kept: Vec::new(),
            early_stop: settings.early_stop,
            stop_token_ids: if task.params.ignore_eos { Vec::new() } else { task.stop_token_ids },
            steps: steps_by_block(&masks, settings.steps.unwrap_or(masks.iter().sum())),
            blocks,
            block: 0,
            plan: None,
            orphans: Vec::new(),
            hears: false,
            overheard: Vec::new(),
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
        self.now = self.now.entered();
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
        let masks = self.masks();
        let has_orphans = self.shift && self.feed.is_first() && self.feed.leaves_out_rows();
        self.orphans = if has_orphans { self.feed.orphans() } else { Vec::new() };
        self.plan = self.orphans.is_empty().then(|| self.chooser.plan(masks.clone(), self.now));
        let unread = |place: &usize| self.reading().binary_search(place).is_err();
        self.overheard = if self.hears { masks.into_iter().filter(unread).collect() } else { Vec::new() };
    }

    /// Slots by whose rows something is decided.
    fn reading(&self) -> &[usize] {
        self.plan.as_ref().map_or(&self.orphans, |plan| &plan.reading)
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

    /// The next pass, and the guiding one.
    fn wishes(&mut self) -> Vec<Wish> {
        if self.finished() {
            return Vec::new();
        }
        self.plan();
        self.rules.update(&self.canvas);
        let (end, kept) = self.behind();
        let rows = self.feed.rows(end, kept);
        let row_of = |p: usize| rows.places.binary_search(&p).unwrap_or_else(|row| row) as u32; // what is read is always fed
        let slots: Vec<usize> = self.reading().iter().chain(&self.overheard).copied().collect();
        let read: Vec<u32> = slots.iter().map(|&p| row_of(if self.shift { p.saturating_sub(1) } else { p })).collect();
        let scans = slots.iter().enumerate().map(|(read, &p)| self.scan(read, p)).collect();
        let (kind, counts) = (rows.kind, rows.counts);
        let pass = Pass { tap: self.tap(&rows), ..self.pass(&rows, &[], read.clone()) };
        let guiding = || self.pass(&rows, &self.hidden, read);
        self.with_guide(Wish { model: Role::Target, cache: 0, pass, scans, kind, rows: counts }, guiding)
    }

    /// How the row that is read for the slot at `place` is turned into a token.
    fn scan(&self, read: usize, place: usize) -> Scan {
        let guide = (self.caches() > 1).then_some((1, read, self.cfg_scale));
        Scan { read, guide, rule: self.rules.at(place) }
    }

    /// A wish and the one with the guiding pass, if there is to be one.
    fn with_guide(&self, wish: Wish, guiding: impl FnOnce() -> Pass) -> Vec<Wish> {
        let (kind, rows) = (wish.kind, wish.rows);
        let guide = (self.caches() > 1).then(|| Wish { model: Role::Target, cache: 1, pass: guiding(), scans: Vec::new(), kind, rows });
        [wish].into_iter().chain(guide).collect()
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
        let (chosen, after) = match &self.plan {
            Some(plan) => (self.chooser.choose(plan, stats), plan.at.after()),
            None => (choose::all(self.orphans.len()), self.now.after()),
        };
        let revealed = choose::revealed(chosen, self.reading(), stats);
        self.now = after;
        self.fill(&revealed);
        revealed
    }

    /// Puts what was decided into the canvas.
    fn fill(&mut self, revealed: &[Revealed]) {
        for slot in revealed {
            self.canvas[slot.position] = slot.stat.token;
        }
    }

    /// Leaves the block if it is finished.
    fn settle(&mut self) {
        if self.masks().is_empty() {
            if self.early_stop == EarlyStop::Compat {
                self.stop_compat();
            }
            self.enter_block();
        }
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
        Ok(self.wishes())
    }

    fn take(&mut self, answers: &[Answer]) -> Result<Vec<Revealed>> {
        let Some(Answer { stats, tapped, .. }) = answers.first() else { return Ok(Vec::new()) };
        let revealed = self.decide(&stats[..self.reading().len().min(stats.len())]);
        let (end, kept) = (self.blocks[self.block].end, self.kept.last().map_or(&[][..], Vec::as_slice));
        self.feed.passed(end, kept);
        self.drop_spotlights(tapped);
        self.settle();
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
