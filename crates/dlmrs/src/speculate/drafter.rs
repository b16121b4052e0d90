//! The draft model's side: it denoises the current block (and those behind it) on a canvas of its own and records the states it goes
//! through. Its cache holds finished blocks, its own guesses among them; what the target did not confirm is cut off by the next pass.

use super::accept::draw;
use super::guesses::{Chain, chain, runner_up};
use crate::decode::rules::Rules;
use crate::decode::{Answer, Counts, Grid, PassKind, RevealRule, Role, Scan, Wish};
use crate::error::Result;
use crate::model::no_token;
use crate::pass::{Keep, Pass, Sees};
use crate::sample::noise::{Purpose, Stream};
use crate::sample::{RowRule, RowStat, distribution};

/// What a draft is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DraftPlan {
    /// At most so many slots of a block; slots that one step reveals together are never parted, so the last step may go beyond.
    pub(crate) gamma: usize,
    /// At most so many passes a block; the rest of the chain is guessed from the last pass. None: as many as it takes.
    pub(crate) steps: Option<usize>,
    /// Blocks.
    pub(crate) blocks: usize,
    /// Slots are chosen without a look at the tokens that are drawn for them, and each token is drawn anew from a row that is recorded.
    pub(crate) honest: bool,
}

/// A drafted slot.
#[derive(Clone, Debug)]
pub(crate) struct DraftedSlot {
    pub(crate) position: usize,
    pub(crate) token: u32,
    /// Step of this round's draft, from 1; equal for slots that were revealed together.
    pub(crate) tau: u32,
    /// `[V]`: what the token was drawn from; empty unless the draft is honest.
    pub(crate) q: Vec<f32>,
}

/// The drafted states of a block, its start left out.
#[derive(Clone, Debug)]
pub(crate) struct BlockChain {
    pub(crate) start: usize,
    pub(crate) chain: Chain,
}

/// The state of the draft.
pub(crate) struct Drafter {
    plan: DraftPlan,
    /// Of this round.
    gamma: usize,
    rules: Rules,
    rule: RevealRule,
    seed: u64,
    length: usize,
    mask_token_id: u32,
    /// Tokens of the cache's entries: whole blocks.
    fed: Vec<u32>,
    /// The target's canvas with the drafts of this round.
    canvas: Vec<u32>,
    round: u32,
    /// Current block, or None when the round's draft is done.
    block: Option<usize>,
    step: usize,
    passes: usize,
    drafted: usize,
    chains: Vec<BlockChain>,
    slots: Vec<DraftedSlot>,
    /// Slots that the pass under way reads.
    reading: Vec<usize>,
    caching: usize,
    ahead: Option<Ahead>,
}

/// The first pass of the next round, run while the target judges this one, on the assumption that everything is accepted.
struct Ahead {
    canvas: Vec<u32>,
    block: usize,
    reading: Vec<usize>,
    caching: usize,
    answer: Option<Answer>,
}

impl Drafter {
    pub(crate) fn new(plan: DraftPlan, rules: Rules, rule: RevealRule, seed: u64, grid: &Grid) -> Self {
        Self {
            plan,
            gamma: plan.gamma,
            rules,
            rule,
            seed,
            length: grid.length,
            mask_token_id: grid.mask_token_id,
            fed: Vec::new(),
            canvas: Vec::new(),
            round: 0,
            block: None,
            step: 0,
            passes: 0,
            drafted: 0,
            chains: Vec::new(),
            slots: Vec::new(),
            reading: Vec::new(),
            caching: 0,
            ahead: None,
        }
    }

    /// Begins a round on the target's canvas, whose current block is in step `step`.
    pub(crate) fn begin(&mut self, grid: &Grid, step: usize, gamma: usize) {
        self.gamma = gamma;
        let same = self.fed.iter().zip(&grid.canvas).take_while(|(a, b)| a == b).count();
        self.fed.truncate((same / self.length * self.length).min(grid.block));
        self.canvas.clone_from(&grid.canvas);
        self.round += 1;
        self.chains.clear();
        self.slots.clear();
        self.enter(grid.block, step);
    }

    /// What it was made for.
    pub(crate) fn plan(&self) -> DraftPlan {
        self.plan
    }

    /// A round without a draft.
    pub(crate) fn pause(&mut self) {
        self.block = None;
        self.canvas.clear(); // nothing to run ahead of
        self.chains.clear();
        self.slots.clear();
    }

    /// The drafted states of this round, block by block.
    pub(crate) fn chains(&self) -> &[BlockChain] {
        &self.chains
    }

    /// The drafted slots of this round.
    pub(crate) fn slots(&self) -> &[DraftedSlot] {
        &self.slots
    }

    fn enter(&mut self, block: usize, step: usize) {
        (self.block, self.step, self.passes, self.drafted) = (Some(block), step, 0, 0);
        self.chains.push(BlockChain { start: block, chain: Chain::default() });
        self.settle();
    }

    /// Leaves blocks that need nothing (more), until there is one to draft or the round is done.
    fn settle(&mut self) {
        while let Some(block) = self.block {
            let open = self.canvas[block..block + self.length].contains(&self.mask_token_id);
            if open && self.drafted < self.gamma {
                return;
            }
            let next = block + self.length;
            if open || self.chains.len() >= self.plan.blocks || next >= self.canvas.len() {
                self.block = None;
                return;
            }
            (self.block, self.step, self.passes, self.drafted) = (Some(next), 0, 0, 0);
            self.chains.push(BlockChain { start: next, chain: Chain::default() });
        }
    }

    /// The pass with which the next round would begin if the target accepts all of this one's draft.
    pub(crate) fn run_ahead(&mut self, grid: &Grid) -> Option<Wish> {
        let mask = self.mask_token_id;
        let first = self.canvas.get(grid.block..)?.iter().position(|&id| id == mask)?;
        let block = (grid.block + first) / self.length * self.length;
        // In the current block the next round's step would have to be foreseen too; there is nothing to gain where the draft is done.
        if block == grid.block {
            return None;
        }
        let wish = self.pass(grid, block, 0);
        let (reading, caching) = (std::mem::take(&mut self.reading), self.caching);
        self.ahead = Some(Ahead { canvas: self.canvas.clone(), block, reading, caching, answer: None });
        Some(wish)
    }

    /// Takes the answer to [`Self::run_ahead`].
    pub(crate) fn take_ahead(&mut self, answer: &Answer) {
        if let Some(ahead) = &mut self.ahead {
            self.fed.extend_from_slice(&ahead.canvas[self.fed.len()..ahead.caching]);
            ahead.answer = Some(answer.clone());
        }
    }

    /// After [`Self::begin`]: makes use of the pass that was run ahead, if the target went where it was expected to go.
    pub(crate) fn adopt(&mut self) -> Result<()> {
        match self.ahead.take() {
            Some(Ahead { canvas, block, reading, caching, answer: Some(answer) })
                if self.block == Some(block) && self.step == 0 && canvas == self.canvas =>
            {
                (self.reading, self.caching) = (reading, caching);
                self.take(&answer)
            }
            _ => Ok(()),
        }
    }

    /// The next pass of this round; None when its draft is done.
    pub(crate) fn next(&mut self, grid: &Grid) -> Option<Wish> {
        Some(self.pass(grid, self.block?, self.step))
    }

    /// The next pass for a block in a step, after what is left of the prefill.
    fn pass(&mut self, grid: &Grid, block: usize, step: usize) -> Wish {
        let from = self.fed.len();
        let piece = grid.prefill(from, block);
        let (keep, to) = piece.map_or((block, block + self.length), |chunk| (from + chunk, from + chunk));
        self.caching = keep;
        self.reading = (keep..to).filter(|&p| self.canvas[p] == self.mask_token_id).collect();
        if let Some(leftmost) = self.rule.looks_at(step).filter(|_| self.plan.steps.is_none()) {
            self.reading.truncate(leftmost);
        }
        self.rules.update(&self.canvas);
        let rule = |p: usize| if self.plan.honest { blind(self.rules.at(p)) } else { self.rules.at(p) };
        let scans = self.reading.iter().enumerate().map(|(read, &p)| Scan { read, guide: None, rule: rule(p) }).collect();
        let pass = Pass {
            tokens: self.canvas[from..to].to_vec(),
            positions: (from as u32..to as u32).collect(),
            base: from,
            sees: Sees::Blocks(self.length),
            keep: Keep::Append((0..(keep - from) as u32).collect()),
            read: self.reading.iter().map(|&p| (p - from) as u32).collect(),
            tap: None,
        };
        let kind = if piece.is_some() { PassKind::Prefill } else { PassKind::Draft };
        let rows: Counts = grid.kept_rows(from, keep).and(PassKind::Draft, to - keep);
        Wish { model: Role::Draft, cache: 0, pass, scans, kind, rows }
    }

    /// Takes the answer to the last pass.
    pub(crate) fn take(&mut self, answer: &Answer) -> Result<()> {
        self.fed.extend_from_slice(&self.canvas[self.fed.len()..self.caching]);
        let Some(block) = self.block.filter(|_| !self.reading.is_empty()) else { return Ok(()) };
        let slots: Vec<(usize, RowStat)> = self.reading.iter().copied().zip(answer.stats.iter().copied()).collect();
        let mut chosen: Vec<usize> = self.rule.choose(&slots, self.step).into_iter().map(|(i, _)| i).collect();
        chosen.sort_unstable();
        let other = runner_up(&self.canvas[block..block + self.length], block, &slots, &self.rule, self.step);
        let tau = self.slots.last().map_or(1, |slot| slot.tau + 1);
        let rows = if self.plan.honest { answer.rows(&chosen)? } else { Vec::new() };
        let mut rows = rows.into_iter();
        for i in chosen {
            let (position, stat) = slots[i];
            let (token, q) = match rows.next() {
                Some(row) => self.draw(position, row)?,
                None => (stat.token, Vec::new()),
            };
            self.slots.push(DraftedSlot { position, token, tau, q });
        }
        for slot in self.slots.iter().filter(|slot| slot.tau == tau) {
            self.canvas[slot.position] = slot.token;
            self.drafted += 1;
        }
        self.step += 1;
        self.passes += 1;
        let mut drafted = Chain { states: vec![self.canvas[block..block + self.length].to_vec()], others: other.into_iter().collect() };
        if self.plan.steps == Some(self.passes) {
            let rest = self.rest(block, &slots);
            drafted.states.extend(rest.states);
            drafted.others.extend(rest.others);
        }
        if let Some(state) = drafted.states.last() {
            self.canvas[block..block + self.length].copy_from_slice(state);
        }
        if let Some(last) = self.chains.last_mut() {
            last.chain.states.extend(drafted.states);
            last.chain.others.extend(drafted.others);
        }
        self.settle();
        Ok(())
    }

    /// The rest of the block's chain, if later passes said what the last one said.
    fn rest(&mut self, block: usize, slots: &[(usize, RowStat)]) -> Chain {
        let tokens = &self.canvas[block..block + self.length];
        let guess = |position: usize| slots.iter().find(|slot| slot.0 == position).map(|slot| slot.1);
        let masked = |state: &Vec<u32>| state.iter().filter(|&&id| id == self.mask_token_id).count();
        let (before, drafted) = (masked(&tokens.to_vec()), self.drafted);
        let mut rest = chain(tokens, block, self.mask_token_id, guess, &self.rule, self.step).unwrap_or_default();
        let within = |state: &Vec<u32>| drafted + before - masked(state);
        // Up to the first state with enough slots, as where each state takes a pass.
        let enough = rest.states.iter().position(|state| within(state) >= self.gamma).map_or(rest.states.len(), |i| i + 1);
        rest.states.truncate(if drafted >= self.gamma { 0 } else { enough });
        rest.others.truncate(rest.states.len());
        self.drafted = rest.states.last().map_or(drafted, within);
        rest
    }

    /// Draws a token from a row, and gives the distribution that it was drawn from.
    fn draw(&self, position: usize, row: Vec<f32>) -> Result<(u32, Vec<f32>)> {
        let q = distribution(&self.rules.at(position), row).map_err(|reason| no_token(reason, position as u32))?;
        let uniform = Stream::new(self.seed, Purpose::Draft, self.round, position as u32).uniform();
        let token = draw(q.iter().map(|&p| f64::from(p)), uniform).unwrap_or_default();
        Ok((token, q))
    }
}

/// The same row without noise: its statistics depend on the distribution alone.
fn blind(rule: RowRule) -> RowRule {
    RowRule { temperature: 0.0, top_k: 0, top_p: 1.0, ..rule }
}
