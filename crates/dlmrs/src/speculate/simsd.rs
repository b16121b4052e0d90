//! SimSD (Simultaneous Speculative Decoding): a draft model fills masked slots of the current block, one pass of the target judges
//! them in the draft's order of reveal. Accepted tokens stay at their own slots; behind the first step with a rejection the slots are masked
//! again and drafted anew.

use super::accept::{greedy, rejection, up_to_rejection};
use super::drafter::{DraftedSlot, Drafter};
use super::layout::{Copy, Drafted, Laid, Prefix, UNDRAFTED, copies_of, no_leak, paired, states};
use crate::decode::rules::Rules;
use crate::decode::{Answer, Counts, Decoder, Grid, How, PassKind, RevealRule, Revealed, Role, Scan, Tally, Wish};
use crate::error::Result;
use crate::model::no_token;
use crate::sample::noise::{Purpose, Stream};
use crate::sample::{RowRule, RowStat, distribution};

/// The layout of the pass that judges a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrangement {
    Paired {
        aligned: bool,
    },
    NoLeak,
    States,
    /// One pass a state.
    Sequential,
}

/// How a draft is judged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judging {
    pub(crate) arrangement: Arrangement,
    /// By its probability, or else by the token that the target would put there.
    pub(crate) by_probability: bool,
    /// Fewer masked slots than this are left to the target alone.
    pub(crate) draft_from: usize,
    pub(crate) seed: u64,
}

/// The state of one request.
pub(crate) struct SimSdDecoder {
    grid: Grid,
    rules: Rules,
    rule: RevealRule,
    drafter: Drafter,
    judging: Judging,
    round: u32,
    step: usize,
    cached: usize,
    tally: Tally,
    /// The next passes, made as soon as they are known.
    pending: Vec<Wish>,
    under_way: UnderWay,
}

enum UnderWay {
    Prefill(usize),
    Draft,
    /// The target alone, with the slots that its pass reads.
    Plain(Vec<usize>),
    Verify(Verify),
}

struct Verify {
    slots: Vec<DraftedSlot>,
    /// What the target says of each of them: with its distribution, where drafts are judged by that.
    found: Vec<Option<(RowStat, Vec<f32>)>>,
    /// Of each row that is read, the slot (as an index into `slots`) that it judges, and its rule.
    read: Vec<(usize, RowRule)>,
    /// Entries of the cache if all is accepted.
    kept: usize,
    /// With one state a pass: the states that are still to be fed.
    rest: Vec<Copy>,
}

impl SimSdDecoder {
    /// Settings and task must have been validated.
    pub(crate) fn new(grid: Grid, rules: Rules, rule: RevealRule, drafter: Drafter, judging: Judging) -> Self {
        let (pending, under_way) = (Vec::new(), UnderWay::Draft);
        let mut decoder =
            Self { grid, rules, rule, drafter, judging, round: 0, step: 0, cached: 0, tally: Tally::default(), pending, under_way };
        decoder.begin_round();
        decoder
    }

    fn begin_round(&mut self) {
        if self.grid.finished() {
            return;
        }
        self.round += 1;
        match self.grid.masked(self.grid.block).len() >= self.judging.draft_from {
            true => self.drafter.begin(&self.grid, self.step, self.drafter.plan().gamma),
            false => self.drafter.pause(),
        }
        self.prepare();
    }

    /// Makes the next pass: the target's prefill, then the draft's passes, then what the target does.
    fn prepare(&mut self) {
        if let Some(chunk) = self.grid.prefill(self.cached, self.grid.block) {
            self.pending = vec![self.grid.prefill_wish(self.cached, chunk, self.grid.length)];
            self.under_way = UnderWay::Prefill(self.cached + chunk);
        } else if let Some(wish) = self.drafter.next(&self.grid) {
            self.pending = vec![wish];
            self.under_way = UnderWay::Draft;
        } else if self.drafter.slots().is_empty() {
            self.plain();
        } else {
            self.verify();
        }
    }

    fn prefix(&self) -> Prefix<'_> {
        Prefix { base: self.cached, tokens: &self.grid.canvas[self.cached..self.grid.block], block_length: self.grid.length }
    }

    /// A step of the target alone.
    fn plain(&mut self) {
        let block = self.grid.block;
        let copy = Copy { start: block, tokens: self.grid.tokens(block).unwrap_or_default().to_vec() };
        let Laid { pass, read, .. } = states(&self.prefix(), &[copy], self.grid.mask_token_id);
        self.rules.update(&self.grid.canvas);
        let scans = read.iter().enumerate().map(|(read, slot)| Scan { read, guide: None, rule: self.rules.at(slot.1) }).collect();
        let rows = self.grid.kept_rows(self.cached, block).and(PassKind::Denoise, self.grid.length);
        self.pending = vec![Wish { model: Role::Target, cache: 0, pass, scans, kind: PassKind::Denoise, rows }];
        self.under_way = UnderWay::Plain(read.into_iter().map(|slot| slot.1).collect());
    }

    /// The draft of this round, as the layouts take it.
    fn drafted(&self) -> Drafted {
        let (start, mask) = (self.grid.block, self.grid.mask_token_id);
        let mut tokens = self.grid.tokens(start).unwrap_or_default().to_vec();
        let mut tau: Vec<u32> = tokens.iter().map(|&id| if id == mask { UNDRAFTED } else { 0 }).collect();
        for slot in self.drafter.slots() {
            tokens[slot.position - start] = slot.token;
            tau[slot.position - start] = slot.tau;
        }
        Drafted { start, tokens, tau, mask_token_id: mask }
    }

    fn verify(&mut self) {
        let slots = self.drafter.slots().to_vec();
        let (drafted, mask) = (self.drafted(), self.grid.mask_token_id);
        let found = vec![None; slots.len()];
        let verify = Verify { slots, found, read: Vec::new(), kept: self.grid.block, rest: Vec::new() };
        let laid = match self.judging.arrangement {
            Arrangement::Paired { aligned } => paired(&self.prefix(), &drafted, aligned),
            Arrangement::NoLeak => no_leak(&self.prefix(), &drafted),
            Arrangement::States => {
                let mut copies = copies_of(&drafted);
                // Behind the last step nothing is judged; only a finished state is of use, as the block's commit.
                copies.retain(|copy| copy.finished(mask) || drafts_follow(copy, &drafted, mask));
                states(&self.prefix(), &copies, mask)
            }
            Arrangement::Sequential => {
                let mut copies = copies_of(&drafted);
                copies.pop();
                return self.one_state(Verify { rest: copies, ..verify });
            }
        };
        self.wish(laid, verify);
    }

    /// The pass of the next state.
    fn one_state(&mut self, mut verify: Verify) {
        let copy = verify.rest.remove(0);
        let laid = states(&self.prefix(), &[copy], self.grid.mask_token_id);
        self.wish(laid, Verify { kept: self.grid.block, ..verify });
    }

    /// Asks for a pass, reading of it only the rows that judge a slot: in a state those of the slots that the next step reveals.
    fn wish(&mut self, laid: Laid, mut verify: Verify) {
        let Laid { mut pass, read, kept } = laid;
        let first = match self.judging.arrangement {
            Arrangement::Sequential => {
                verify.slots.iter().zip(&verify.found).find(|(_, found)| found.is_none()).map_or(1, |(slot, _)| slot.tau)
            }
            _ => 1,
        };
        let judges = |&(copy, position): &(usize, usize)| {
            let by_state = matches!(self.judging.arrangement, Arrangement::States | Arrangement::Sequential);
            let is = |slot: &DraftedSlot| slot.position == position && (!by_state || slot.tau == first + copy as u32);
            verify.slots.iter().position(is)
        };
        let (rows, judged): (Vec<u32>, Vec<usize>) =
            pass.read.iter().zip(&read).filter_map(|(&row, slot)| Some((row, judges(slot)?))).unzip();
        pass.read = rows;
        verify.kept = if self.judging.arrangement == Arrangement::States { kept } else { self.grid.block };
        verify.read = self.rules_of(&verify.slots, judged);
        let scan = |(read, judged): (usize, &(usize, RowRule))| Scan { read, guide: None, rule: judged.1.clone() };
        let scans = verify.read.iter().enumerate().map(scan).collect();
        let fed = pass.rows() - (self.grid.block - self.cached);
        let rows: Counts = self.grid.kept_rows(self.cached, self.grid.block).and(PassKind::Verify, fed);
        self.pending = vec![Wish { model: Role::Target, cache: 0, pass, scans, kind: PassKind::Verify, rows }];
        self.under_way = UnderWay::Verify(verify);
    }

    /// The rule of each row goes by the canvas before its slot's step.
    fn rules_of(&mut self, slots: &[DraftedSlot], judged: Vec<usize>) -> Vec<(usize, RowRule)> {
        let rule = |index: usize| {
            if self.rules.go_by_canvas() {
                let mut canvas = self.grid.canvas.clone();
                for slot in slots.iter().filter(|slot| slot.tau < slots[index].tau) {
                    canvas[slot.position] = slot.token;
                }
                self.rules.update(&canvas);
            }
            (index, self.rules.at(slots[index].position))
        };
        judged.into_iter().map(rule).collect()
    }

    /// Collects what the target says of the slots that a pass judged.
    fn collect(&self, verify: &mut Verify, answer: &Answer) -> Result<()> {
        let rows = match self.judging.by_probability {
            true => answer.rows(&(0..verify.read.len()).collect::<Vec<_>>())?,
            false => vec![Vec::new(); verify.read.len()],
        };
        for (((index, rule), stat), row) in verify.read.iter().zip(&answer.stats).zip(rows) {
            let p = match self.judging.by_probability {
                true => distribution(rule, row).map_err(|reason| no_token(reason, rule.position))?,
                false => Vec::new(),
            };
            verify.found[*index] = Some((*stat, p));
        }
        Ok(())
    }

    /// Judges the slots step by step, up to the first with a rejection. Slots of one step are judged each on its own.
    fn judge(&mut self, verify: &Verify) -> Result<Vec<Revealed>> {
        let judge = |(slot, found): &(&DraftedSlot, &Option<(RowStat, Vec<f32>)>)| {
            let Some((stat, p)) = found else { return Ok(None) };
            let uniform = |purpose| Stream::new(self.judging.seed, purpose, self.round, slot.position as u32).uniform();
            let verdict = match self.judging.by_probability {
                true => rejection(slot.token, p, &slot.q, uniform(Purpose::Accept), uniform(Purpose::Residual)),
                false => greedy(slot.token, stat.token),
            };
            let mut slot = verdict.reveal(slot.position, slot.token, *stat);
            slot.stat.probability = p.get(slot.stat.token as usize).copied().unwrap_or(stat.probability);
            Ok(Some(slot))
        };
        let revealed = up_to_rejection(verify.slots.iter().zip(&verify.found), |(slot, _)| slot.tau, judge)?;
        self.tally.judged(verify.slots.len(), &revealed);
        let corrected = revealed.iter().any(|slot| slot.how == How::Corrected);
        self.cached = if corrected { self.grid.block } else { verify.kept };
        self.step += verify.slots.get(revealed.len().saturating_sub(1)).map_or(0, |slot| slot.tau as usize);
        Ok(revealed)
    }

    fn reveal(&mut self, revealed: &[Revealed]) {
        for slot in revealed {
            self.grid.canvas[slot.position] = slot.stat.token;
        }
        if self.grid.advance() {
            self.step = 0;
        }
        self.begin_round();
    }
}

/// Whether a state is one before a step of the draft.
fn drafts_follow(copy: &Copy, drafted: &Drafted, mask_token_id: u32) -> bool {
    copy.tokens.iter().zip(&drafted.tau).any(|(&id, &tau)| id == mask_token_id && tau != UNDRAFTED)
}

impl Decoder for SimSdDecoder {
    fn draft_caches(&self) -> usize {
        1
    }

    fn asks_for_rows(&self) -> bool {
        self.judging.by_probability
    }

    fn tally(&self) -> Tally {
        self.tally
    }

    fn next_rows(&self) -> usize {
        Wish::rows_of(&self.pending)
    }

    fn next(&mut self) -> Result<Vec<Wish>> {
        Ok(std::mem::take(&mut self.pending))
    }

    fn take(&mut self, answers: &[Answer]) -> Result<Vec<Revealed>> {
        let Some(answer) = answers.first() else { return Ok(Vec::new()) };
        match std::mem::replace(&mut self.under_way, UnderWay::Draft) {
            UnderWay::Prefill(cached) => self.cached = cached,
            UnderWay::Draft => self.drafter.take(answer)?,
            UnderWay::Plain(read) => {
                self.cached = self.grid.block;
                let slots: Vec<_> = read.into_iter().zip(answer.stats.iter().copied()).collect();
                let chosen = self.rule.choose(&slots, self.step);
                let revealed: Vec<_> =
                    chosen.into_iter().map(|(i, how)| Revealed { position: slots[i].0, stat: slots[i].1, how }).collect();
                self.step += 1;
                self.reveal(&revealed);
                return Ok(revealed);
            }
            UnderWay::Verify(mut verify) => {
                self.cached = self.grid.block;
                self.collect(&mut verify, answer)?;
                if !verify.rest.is_empty() {
                    self.one_state(verify);
                    return Ok(Vec::new());
                }
                let revealed = self.judge(&verify)?;
                self.reveal(&revealed);
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
