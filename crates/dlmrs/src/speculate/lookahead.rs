//! Exact speculation over several blocks: guessed states of the current block and of those behind it, judged in one pass by the
//! target's own rule. Whatever is guessed, the tokens are those of the target alone.
//!
//! One state machine serves `Lookahead` (guesses from the model's own earlier rows) and `SimSD` with `states` and `identical` (a draft
//! model's states, alone or together with those).

use super::cost::{Gauge, Pace};
use super::drafter::Drafter;
use super::guesses::{Chain, Guesses, chain};
use super::layout::{Copy, Laid, Prefix, states};
use super::walk::{Walk, walk};
use crate::decode::rules::Rules;
use crate::decode::{Amount, Answer, Counts, Decoder, Grid, How, PassKind, RevealRule, Revealed, Role, Scan, Tally, Wish};
use crate::error::Result;
use crate::pass::Pass;
use crate::sample::RowStat;

/// Where guessed states come from, and how many may ride in a pass.
pub(crate) struct Sources {
    /// Blocks that a pass may confirm.
    pub(crate) blocks: usize,
    /// Further blocks, all masked, whose rows serve as guesses for later passes.
    pub(crate) probes: usize,
    /// Rows of copies in a pass at most; one copy is always fed.
    pub(crate) max_rows: Amount,
    /// Beside each guessed step its runner-up.
    pub(crate) alternatives: bool,
    /// One state a pass: the slow way, for comparison.
    pub(crate) one_by_one: bool,
    /// Guess from the model's own rows.
    pub(crate) own: bool,
    /// The draft model.
    pub(crate) drafter: Option<Drafter>,
    /// Draft as much as has paid.
    pub(crate) auto_gamma: bool,
    /// The draft model goes ahead while the target judges.
    pub(crate) overlap: bool,
    /// Fewer masked slots than this in the current block are left to the target alone.
    pub(crate) draft_from: usize,
}

/// The state of one request.
pub(crate) struct LookaheadDecoder {
    grid: Grid,
    rules: Rules,
    rule: RevealRule,
    sources: Sources,
    /// Step inside the current block.
    step: usize,
    /// Entries in the target's cache.
    cached: usize,
    guesses: Guesses,
    /// The state that the next step is guessed to lead to, whether it fits into the pass or not.
    foreseen: Option<Vec<u32>>,
    tally: Tally,
    gauge: Gauge,
    /// What the pass under way does.
    /// The next passes, made as soon as they are known.
    pending: Vec<Wish>,
    under_way: UnderWay,
}

/// What an answer is for.
enum UnderWay {
    Prefill(usize),
    Draft,
    Verify(Verify),
}

/// A verification: the copies that are judged, what their rows said so far, and which of them the pass under way feeds.
struct Verify {
    copies: Vec<Copy>,
    stats: Vec<Vec<(usize, RowStat)>>,
    /// Of each row that is read, its copy and its slot.
    read: Vec<(usize, usize)>,
    /// With one state a pass: the copies that are still to be fed.
    rest: Vec<usize>,
}

impl LookaheadDecoder {
    /// Settings and task must have been validated.
    pub(crate) fn new(grid: Grid, rules: Rules, rule: RevealRule, sources: Sources) -> Self {
        let mut decoder = Self {
            grid,
            rules,
            rule,
            sources,
            step: 0,
            cached: 0,
            guesses: Guesses::default(),
            foreseen: None,
            tally: Tally::default(),
            gauge: Gauge::default(),
            pending: Vec::new(),
            under_way: UnderWay::Draft,
        };
        decoder.begin_draft();
        decoder.prepare();
        decoder
    }

    /// Begins a round's draft, if there is to be one.
    fn begin_draft(&mut self) {
        if self.grid.finished() {
            return;
        }
        let masked = self.grid.masked(self.grid.block).len();
        if let Some(drafter) = &mut self.sources.drafter {
            let plan = drafter.plan();
            let gamma = match self.sources.auto_gamma {
                // At a whole block, or where less cannot be told to pay, the plan's.
                true => match self.gauge.gamma(masked, plan.blocks, plan.steps, self.grid.length, self.grid.block - self.cached) {
                    gamma if gamma < masked => gamma,
                    _ => plan.gamma,
                },
                false => plan.gamma,
            };
            match gamma > 0 && masked >= self.sources.draft_from {
                true => drafter.begin(&self.grid, self.step, gamma),
                false => drafter.pause(),
            }
        }
    }

    /// Makes the next pass: the target's prefill, then the draft's passes, then the verification.
    fn prepare(&mut self) {
        if self.grid.finished() {
            return;
        }
        if let Some(chunk) = self.grid.prefill(self.cached, self.grid.block) {
            self.pending = vec![self.grid.prefill_wish(self.cached, chunk, self.grid.length)];
            self.under_way = UnderWay::Prefill(self.cached + chunk);
            return;
        }
        if let Some(wish) = self.sources.drafter.as_mut().and_then(|drafter| drafter.next(&self.grid)) {
            self.pending = vec![wish];
            self.under_way = UnderWay::Draft;
            return;
        }
        let copies = self.copies();
        let open = |c: &usize| !copies[*c].finished(self.grid.mask_token_id);
        let rest = if self.sources.one_by_one { (0..copies.len()).filter(open).collect() } else { Vec::new() };
        let stats = vec![Vec::new(); copies.len()];
        self.verify(Verify { copies, stats, read: Vec::new(), rest });
        if self.sources.overlap {
            let ahead = self.sources.drafter.as_mut().and_then(|drafter| drafter.run_ahead(&self.grid));
            self.pending.extend(ahead);
        }
    }

    /// The copies of the next verification, block by block: the state as it is (or all masks), guessed ones, the finished one last.
    fn copies(&mut self) -> Vec<Copy> {
        let mut blocks: Vec<Chain> = Vec::new();
        let (mut start, mut probes, mut reachable) = (self.grid.block, 0, true);
        while let Some(tokens) = self.grid.tokens(start) {
            let mut guessed = Chain { states: vec![tokens.to_vec()], others: Vec::new() };
            if reachable && blocks.len() < self.sources.blocks {
                let more = self.guessed(start, tokens, if start == self.grid.block { self.step } else { 0 });
                guessed.states.extend(more.states);
                guessed.others = more.others;
                reachable = guessed.states.last().is_some_and(|state| !state.contains(&self.grid.mask_token_id));
            } else if probes < self.sources.probes {
                probes += 1;
            } else {
                break;
            }
            blocks.push(guessed);
            start += self.grid.length;
        }
        self.foreseen = blocks.first().and_then(|guessed| guessed.states.get(1).cloned());
        self.within_budget(&mut blocks);
        let (first, length) = (self.grid.block, self.grid.length);
        let copies = |(i, guessed): (usize, Chain)| {
            let start = first + i * length;
            let Chain { mut states, others } = guessed;
            // The state as it is comes first, and the finished one last.
            states.splice(1..1, others);
            states.into_iter().map(move |tokens| Copy { start, tokens })
        };
        blocks.into_iter().enumerate().flat_map(copies).collect()
    }

    /// Guessed states of a block: the model's own, then the draft's, whose rows are the better guesses for later passes; the finished one (if
    /// there is one) last.
    fn guessed(&self, start: usize, tokens: &[u32], step: usize) -> Chain {
        let mask = self.grid.mask_token_id;
        let chains = self.sources.drafter.as_ref().map_or(&[][..], Drafter::chains);
        let drafted = chains.iter().find(|drafted| drafted.start == start).map_or(Chain::default(), |drafted| drafted.chain.clone());
        let own = match self.sources.own {
            true => chain(tokens, start, mask, |p| self.guesses.at(p), &self.rule, step).unwrap_or_default(),
            false => Chain::default(),
        };
        let finished = |state: &Vec<u32>| !state.contains(&mask);
        // Of several finished states only one can be the last, and only the last leads on: the draft's, or else the model's own.
        let end = drafted.states.last().filter(|state| finished(state)).or(own.states.last().filter(|state| finished(state))).cloned();
        let mut guessed = Chain::default();
        for state in [own.states, drafted.states].into_iter().flatten() {
            if !finished(&state) && !guessed.states.contains(&state) {
                guessed.states.push(state);
            }
        }
        let others = if self.sources.alternatives { [own.others, drafted.others].concat() } else { Vec::new() };
        for state in others {
            if !finished(&state) && !guessed.states.contains(&state) && !guessed.others.contains(&state) {
                guessed.others.push(state);
            }
        }
        guessed.states.extend(end);
        guessed
    }

    /// Drops alternatives first, then the farthest block, then late states, until the rows fit.
    fn within_budget(&self, blocks: &mut Vec<Chain>) {
        let length = self.grid.length;
        let mut copies: usize = blocks.iter().map(|guessed| guessed.states.len() + guessed.others.len()).sum();
        let most = match self.sources.max_rows {
            Amount::All => return,
            Amount::AtMost(rows) => (rows / length).max(1),
            Amount::Auto => self.gauge.states(copies, length, self.grid.block - self.cached),
        };
        while copies > most {
            copies -= 1;
            if let Some(guessed) = blocks.iter_mut().rev().find(|guessed| !guessed.others.is_empty()) {
                guessed.others.pop();
            } else if blocks.len() > 1 {
                copies -= blocks.pop().map_or(0, |guessed| guessed.states.len() - 1);
            } else if let Some(guessed) = blocks.first_mut() {
                let masked = |state: &Vec<u32>| state.iter().filter(|&&id| id == self.grid.mask_token_id).count();
                guessed.states.sort_by_key(|state| std::cmp::Reverse(masked(state))); // stable, so the present state stays first
                guessed.states.pop();
            }
        }
    }

    /// Makes the verification pass: of all copies, or with one state a pass of the next one.
    fn verify(&mut self, mut verify: Verify) {
        let mask = self.grid.mask_token_id;
        let fed: Vec<usize> = match self.sources.one_by_one {
            false => (0..verify.copies.len()).collect(),
            true => vec![verify.rest.remove(0)],
        };
        let copies: Vec<Copy> = fed.iter().map(|&c| verify.copies[c].clone()).collect();
        let prefix = Prefix { base: self.cached, tokens: &self.grid.canvas[self.cached..self.grid.block], block_length: self.grid.length };
        let Laid { mut pass, mut read, .. } = states(&prefix, &copies, mask);
        self.skip_unread(&copies, &mut pass, &mut read);
        let scans = self.scans(&copies, &read);
        let length = self.grid.length;
        let kind = if verify.copies.iter().filter(|copy| copy.start == self.grid.block).count() > 1 {
            PassKind::Verify
        } else {
            PassKind::Denoise
        };
        let mut rows = self.grid.kept_rows(self.cached, self.grid.block);
        for (c, copy) in copies.iter().enumerate() {
            let alone = copies.iter().filter(|other| other.start == copy.start).count() == 1;
            let serves = match (kind, c) {
                (PassKind::Denoise, 0) => PassKind::Denoise,
                _ if alone && c > 0 && !copy.finished(mask) => PassKind::Draft,
                _ => PassKind::Verify,
            };
            rows += Counts::of(serves, length);
        }
        verify.read = read.into_iter().map(|(c, position)| (fed[c], position)).collect();
        self.pending = vec![Wish { model: Role::Target, cache: 0, pass, scans, kind, rows }];
        self.under_way = UnderWay::Verify(verify);
    }

    /// A rule that looks at the leftmost slots only need not read the others, unless they serve as guesses.
    fn skip_unread(&self, copies: &[Copy], pass: &mut Pass, read: &mut Vec<(usize, usize)>) {
        if self.sources.own || self.rule.looks_at(0).is_none() {
            return;
        }
        // The step at which a copy is reached is known only to be no earlier than its place, so the largest share decides: the first.
        let most = self.rule.looks_at(0).unwrap_or(self.grid.length);
        let mut seen = vec![0; copies.len()];
        let wanted: Vec<bool> = read
            .iter()
            .map(|&(c, _)| {
                seen[c] += 1;
                seen[c] <= most
            })
            .collect();
        let mut keep = wanted.iter();
        read.retain(|_| *keep.next().unwrap_or(&true));
        let mut keep = wanted.iter();
        pass.read.retain(|_| *keep.next().unwrap_or(&true));
    }

    /// The rule of each row goes by the canvas as its copy would leave it.
    fn scans(&mut self, copies: &[Copy], read: &[(usize, usize)]) -> Vec<Scan> {
        let mut canvas = self.grid.canvas.clone();
        let mut scans = Vec::with_capacity(read.len());
        let mut shown = None;
        for (index, &(c, position)) in read.iter().enumerate() {
            if shown != Some(c) {
                // Up to this copy: the last state of each block before its own, and its own.
                for copy in &copies[shown.map_or(0, |s| s + 1)..=c] {
                    canvas[copy.start..copy.start + copy.tokens.len()].copy_from_slice(&copy.tokens);
                }
                self.rules.update(&canvas);
                shown = Some(c);
            }
            scans.push(Scan { read: index, guide: None, rule: self.rules.at(position) });
        }
        scans
    }

    fn judge(&mut self, verify: Verify) -> Vec<Revealed> {
        let Verify { copies, stats, .. } = verify;
        let walked = walk(&copies, self.grid.mask_token_id, |c| stats[c].clone(), &self.rule, self.step);
        self.count(&copies, &walked);
        self.learn(&copies, &walked);
        let revealed: Vec<Revealed> = walked.steps.iter().flat_map(|step| step.revealed.iter().copied()).collect();
        self.gauge.revealed(walked.steps.len(), revealed.len());
        for slot in &revealed {
            self.grid.canvas[slot.position] = slot.stat.token;
        }
        // With one state a pass, what was kept last is not what the walk confirmed.
        let confirmed = if self.sources.one_by_one { 0 } else { walked.confirmed };
        self.cached = self.grid.block + confirmed * self.grid.length;
        let before = self.grid.block;
        self.grid.advance();
        let in_step = walked.steps.last().map_or(before, |step| copies[step.copy].start);
        self.step = if self.grid.block == in_step { walked.step } else { 0 };
        if self.sources.own {
            self.guesses.hear(&stats, walked.steps.last().map(|step| step.copy));
            self.guesses.forget_before(self.grid.block);
        }
        revealed
    }

    /// How often a step went as guessed; where no guess rode along, whether it would have.
    fn learn(&mut self, copies: &[Copy], walked: &Walk) {
        let landed = walked.steps.iter().filter(|step| step.landed).count();
        let corrected = walked.steps.last().is_some_and(|step| step.revealed.iter().any(|slot| slot.how == How::Corrected));
        match (&self.foreseen, walked.steps.first()) {
            (Some(foreseen), Some(step)) if landed == 0 && !corrected => {
                let mut state = copies[step.copy].tokens.clone();
                step.revealed.iter().for_each(|slot| state[slot.position - copies[step.copy].start] = slot.stat.token);
                self.gauge.walked(usize::from(state == *foreseen), state != *foreseen);
            }
            _ => self.gauge.walked(landed, corrected),
        }
    }

    fn count(&mut self, copies: &[Copy], walked: &Walk) {
        let masked = |copy: &Copy| copy.tokens.iter().filter(|&&id| id == self.grid.mask_token_id).count();
        let (mut drafted, mut from) = (0, 0);
        while let Some(first) = copies.get(from) {
            let n = copies[from..].iter().take_while(|copy| copy.start == first.start).count();
            let least = copies[from..from + n].iter().map(masked).min().unwrap_or(0);
            drafted += masked(first) - least;
            from += n;
        }
        if drafted == 0 {
            return;
        }
        self.tally.judged(drafted, walked.steps.iter().flat_map(|step| &step.revealed));
    }
}

impl Decoder for LookaheadDecoder {
    fn draft_caches(&self) -> usize {
        usize::from(self.sources.drafter.is_some())
    }

    fn tally(&self) -> Tally {
        self.tally
    }

    /// What is known by now may be a reason not to draft at all.
    fn told(&mut self, pace: Pace) {
        self.gauge.pace = pace;
        if self.sources.auto_gamma {
            self.begin_draft();
            self.prepare();
        }
    }

    fn next_rows(&self) -> usize {
        Wish::rows_of(&self.pending)
    }

    fn next(&mut self) -> Result<Vec<Wish>> {
        Ok(std::mem::take(&mut self.pending))
    }

    fn take(&mut self, answers: &[Answer]) -> Result<Vec<Revealed>> {
        let Some(answer) = answers.first() else { return Ok(Vec::new()) };
        if let Some(took) = answer.took {
            let model = if matches!(self.under_way, UnderWay::Draft) { Role::Draft } else { Role::Target };
            self.gauge.pace.add(model, took);
        }
        match std::mem::replace(&mut self.under_way, UnderWay::Draft) {
            UnderWay::Prefill(cached) => self.cached = cached,
            UnderWay::Draft => {
                if let Some(drafter) = &mut self.sources.drafter {
                    drafter.take(answer)?;
                }
            }
            UnderWay::Verify(mut verify) => {
                // The rows before the block are in the cache from now on, whatever comes of its copies.
                self.cached = self.grid.block;
                for (&(copy, position), stat) in verify.read.iter().zip(&answer.stats) {
                    verify.stats[copy].push((position, *stat));
                }
                if !verify.rest.is_empty() {
                    self.verify(verify);
                    return Ok(Vec::new());
                }
                let revealed = self.judge(verify);
                if let (Some(drafter), Some(ahead)) = (&mut self.sources.drafter, answers.get(1)) {
                    drafter.take_ahead(ahead);
                }
                self.begin_draft();
                if let Some(drafter) = &mut self.sources.drafter {
                    drafter.adopt()?;
                }
                self.prepare();
                return Ok(revealed);
            }
        }
        self.prepare();
        Ok(Vec::new())
    }

    fn canvas(&self) -> &[u32] {
        &self.grid.canvas
    }

    fn committed(&self) -> usize {
        self.grid.block
    }
}
