//! S2D2: the model drafts a block as a block-diffusion model and verifies the leftmost masked run as the left-to-right model that the same
//! weights are at block length 1.

use super::accept::{draw, greedy, rejection, up_to_rejection};
use super::layout::Prefix;
use super::route::Policy;
use crate::decode::rules::Rules;
use crate::decode::{Answer, Counts, Decoder, Grid, PassKind, RevealRule, Revealed, Role, Scan, Tally, Wish};
use crate::error::Result;
use crate::model::no_token;
use crate::pass::{Bits, Keep, Pass, Sees};
use crate::sample::noise::{Purpose, Stream};
use crate::sample::{Confidence, RowRule, RowStat, distribution};

/// What makes a draft stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// The verifier would put the same token there. No random numbers.
    Match,
    /// min(1, q/p) on the plain softmax of both, whatever the draft was drawn from: the paper's.
    Ratio,
    /// The same on the distribution that the draft was really drawn from: lossless for the verifier.
    Honest,
}

/// What [`S2d2Decoder`] goes by.
pub(crate) struct SelfSpeculation {
    pub(crate) judgement: Judgement,
    /// Prefix and decided rows see what is to their left only, as the verifier has it.
    pub(crate) ar_cache: bool,
    pub(crate) policy: Policy,
    /// Drafts above it are sure, for a dynamic score.
    pub(crate) threshold: f32,
    pub(crate) vocab: usize,
    pub(crate) seed: u64,
}

/// The state of one request.
pub(crate) struct S2d2Decoder {
    grid: Grid,
    rules: Rules,
    rule: RevealRule,
    how: SelfSpeculation,
    /// Step inside the current block, and steps in all.
    step: usize,
    steps: u32,
    cached: usize,
    verifying: bool,
    tally: Tally,
    /// The next passes, made as soon as they are known.
    pending: Vec<Wish>,
    under_way: UnderWay,
}

enum UnderWay {
    Prefill(usize),
    Draft(Vec<usize>),
    Verify(Vec<DraftedSlot>),
}

/// A draft: all masked slots have one, those of the span are judged.
#[derive(Clone)]
struct DraftedSlot {
    position: usize,
    stat: RowStat,
    token: u32,
    /// `[V]`, for judging by ratio.
    p: Vec<f32>,
    /// Whether it belongs to the leftmost masked run.
    span: bool,
}

impl S2d2Decoder {
    /// Settings and task must have been validated.
    pub(crate) fn new(grid: Grid, rules: Rules, rule: RevealRule, how: SelfSpeculation) -> Self {
        let mut tally = Tally::default();
        tally.unfolded_passes += usize::from(grid.block > 0);
        let under_way = UnderWay::Draft(Vec::new());
        let mut decoder =
            Self { grid, rules, rule, how, step: 0, steps: 0, cached: 0, verifying: false, tally, pending: Vec::new(), under_way };
        decoder.prepare();
        decoder
    }

    /// Makes a step's draft pass, after what is left of the prefill.
    fn prepare(&mut self) {
        if self.grid.finished() {
            return;
        }
        let (from, block) = (self.cached, self.grid.block);
        if let Some(chunk) = self.grid.prefill(from, block) {
            self.pending = vec![self.grid.prefill_wish(from, chunk, self.prefix_length())];
            self.under_way = UnderWay::Prefill(from + chunk);
            return;
        }
        let reading = self.grid.masked(block);
        let pass = self.draft_pass(&reading);
        self.rules.update(&self.grid.canvas);
        let rule = |p: usize| if self.how.judgement == Judgement::Honest { plain(self.rules.at(p)) } else { self.rules.at(p) };
        let scans = reading.iter().enumerate().map(|(read, &p)| Scan { read, guide: None, rule: rule(p) }).collect();
        let rows = self.grid.kept_rows(from, block).and(PassKind::Draft, self.grid.length);
        self.pending = vec![Wish { model: Role::Target, cache: 0, pass, scans, kind: PassKind::Draft, rows }];
        self.under_way = UnderWay::Draft(reading);
        self.tally.unfolded_passes += 1;
    }

    /// Block length of the prefix: with `ar_cache` 1.
    fn prefix_length(&self) -> usize {
        if self.how.ar_cache { 1 } else { self.grid.length }
    }

    fn prefix(&self) -> Prefix<'_> {
        Prefix { base: self.cached, tokens: &self.grid.canvas[self.cached..self.grid.block], block_length: self.prefix_length() }
    }

    /// A pass of the prefix rows and of `tokens` at `positions`, who see the prefix and of each other what `sees` says.
    fn pass(&self, tokens: Vec<u32>, positions: Vec<usize>, read: Vec<u32>, sees: impl Fn(usize, usize) -> bool) -> Pass {
        let prefix = self.prefix();
        let before = prefix.tokens.len();
        let visible = |row: usize, key: usize| match (row.checked_sub(before), key.checked_sub(prefix.end())) {
            (None, _) => prefix.sees(row, key),
            (Some(_), None) => true,
            (Some(row), Some(key)) => sees(row, key),
        };
        let n = before + tokens.len();
        Pass {
            tokens: prefix.tokens.iter().copied().chain(tokens).collect(),
            positions: (prefix.base..prefix.end()).chain(positions).map(|p| p as u32).collect(),
            base: prefix.base,
            sees: Sees::Mask(Bits::from_fn(n, prefix.base + n, visible)),
            keep: Keep::Append((0..before as u32).collect()),
            read: read.into_iter().map(|row| before as u32 + row).collect(),
            tap: None,
        }
    }

    /// The block as it is; with `ar_cache` what is decided before the first mask sees its left only.
    fn draft_pass(&self, reading: &[usize]) -> Pass {
        let (block, length) = (self.grid.block, self.grid.length);
        let first = reading.first().map_or(0, |&p| p - block);
        let tokens = self.grid.tokens(block).unwrap_or_default().to_vec();
        let causal = self.how.ar_cache;
        let read = reading.iter().map(|&p| (p - block) as u32).collect();
        self.pass(tokens, (block..block + length).collect(), read, |row, key| !causal || row >= first || key <= row)
    }

    /// What stands left of the span's end with the drafts, token-causal; then a mask for each slot of the span, which sees what is
    /// strictly to its left, and itself.
    fn verify_pass(&self, slots: &[DraftedSlot]) -> Pass {
        let block = self.grid.block;
        let span: Vec<&DraftedSlot> = slots.iter().filter(|slot| slot.span).collect();
        let end = span.last().map_or(block, |slot| slot.position);
        let left = end - block; // rows of the first half; the last slot of the span needs none
        let mut tokens = self.grid.canvas[block..end].to_vec();
        span.iter().filter(|slot| slot.position < end).for_each(|slot| tokens[slot.position - block] = slot.token);
        tokens.extend(span.iter().map(|_| self.grid.mask_token_id));
        let positions: Vec<usize> = (block..end).chain(span.iter().map(|slot| slot.position)).collect();
        let place = positions.clone();
        let read = (left as u32..tokens.len() as u32).collect();
        self.pass(tokens, positions, read, move |row, key| match (row < left, key < left) {
            (true, _) => key <= row,
            (false, true) => place[key] < place[row],
            (false, false) => key == row,
        })
    }

    /// The drafts of a step, with the rows that judging them needs.
    fn drafts(&self, reading: &[usize], answer: &Answer) -> Result<Vec<DraftedSlot>> {
        let run = reading.iter().enumerate().take_while(|(i, p)| **p == reading[0] + i).count();
        let rows = match self.how.judgement {
            Judgement::Match => Vec::new(),
            Judgement::Ratio => answer.rows(&(0..run).collect::<Vec<_>>())?,
            Judgement::Honest => answer.rows(&(0..reading.len()).collect::<Vec<_>>())?,
        };
        let mut rows = rows.into_iter();
        let slot = |(i, (&position, &stat)): (usize, (&usize, &RowStat))| {
            let p = match rows.next() {
                Some(row) => distribution(&self.judging(position), row).map_err(|reason| no_token(reason, position as u32))?,
                None => Vec::new(),
            };
            let uniform = || Stream::new(self.how.seed, Purpose::Draft, self.steps, position as u32).uniform();
            let token = match self.how.judgement {
                Judgement::Honest => draw(p.iter().map(|&p| f64::from(p)), uniform()).unwrap_or(stat.token),
                _ => stat.token,
            };
            Ok(DraftedSlot { position, stat: RowStat { token, ..stat }, token, p, span: i < run })
        };
        reading.iter().zip(&answer.stats).enumerate().map(slot).collect()
    }

    /// The distribution by which a draft is judged: the plain softmax where the paper takes that.
    fn judging(&self, position: usize) -> RowRule {
        let rule = self.rules.at(position);
        match self.how.judgement {
            Judgement::Ratio if rule.is_greedy() => RowRule { temperature: 1.0, top_k: 0, top_p: 1.0, ..rule },
            _ => rule,
        }
    }

    /// Whether the span is worth a pass.
    fn verifies(&mut self, slots: &[DraftedSlot], answer: &Answer) -> Result<bool> {
        let span: Vec<usize> = (0..slots.len()).filter(|&i| slots[i].span).collect();
        let score = match self.how.policy.score() {
            None => 0.0,
            Some(score) => {
                let squares = if score.estimator.needs_squares() { self.squares(slots, &span, answer)? } else { vec![0.0; span.len()] };
                let alpha = |(&i, &squares): (&usize, &f64)| score.estimator.alpha(&slots[i].stat, self.how.vocab, squares);
                let alphas: Vec<f64> = span.iter().zip(&squares).map(alpha).collect();
                score.of(&alphas, slots.iter().filter(|slot| slot.stat.probability > self.how.threshold).count())
            }
        };
        self.verifying = self.how.policy.verifies(span.len(), score, self.verifying);
        Ok(self.verifying)
    }

    /// The sums of the squared probabilities of the span's plain rows.
    fn squares(&self, slots: &[DraftedSlot], span: &[usize], answer: &Answer) -> Result<Vec<f64>> {
        let sum = |(&i, row): (&usize, Vec<f32>)| {
            let rule = RowRule { temperature: 1.0, top_k: 0, top_p: 1.0, ..self.rules.at(slots[i].position) };
            let p = distribution(&rule, row).map_err(|reason| no_token(reason, rule.position))?;
            Ok(p.iter().map(|&p| f64::from(p) * f64::from(p)).sum())
        };
        span.iter().zip(answer.rows(span)?).map(sum).collect()
    }

    fn verify(&mut self, slots: Vec<DraftedSlot>) {
        let pass = self.verify_pass(&slots);
        let mut canvas = self.grid.canvas.clone();
        let mut scans = Vec::new();
        for (read, slot) in slots.iter().filter(|slot| slot.span).enumerate() {
            self.rules.update(&canvas);
            scans.push(Scan { read, guide: None, rule: self.rules.at(slot.position) });
            canvas[slot.position] = slot.token;
        }
        let rows = Counts::of(PassKind::Verify, pass.rows());
        self.pending = vec![Wish { model: Role::Target, cache: 0, pass, scans, kind: PassKind::Verify, rows }];
        self.under_way = UnderWay::Verify(slots);
        self.tally.unfolded_passes += 1;
    }

    /// Judges the span from the left, up to the first rejection, whose slot gets the verifier's token.
    fn judge(&mut self, slots: &[DraftedSlot], answer: &Answer) -> Result<Vec<Revealed>> {
        let span: Vec<&DraftedSlot> = slots.iter().filter(|slot| slot.span).collect();
        let rows = match self.how.judgement {
            Judgement::Match => Vec::new(),
            _ => answer.rows(&(0..span.len()).collect::<Vec<_>>())?,
        };
        let mut rows = rows.into_iter();
        let judge = |(slot, stat): &(&DraftedSlot, &RowStat)| {
            let position = slot.position as u32;
            let uniform = |purpose| Stream::new(self.how.seed, purpose, self.steps, position).uniform();
            let verdict = match rows.next() {
                Some(row) => {
                    let q = distribution(&self.judging(slot.position), row).map_err(|reason| no_token(reason, position))?;
                    rejection(slot.token, &q, &slot.p, uniform(Purpose::Accept), uniform(Purpose::Residual))
                }
                None => greedy(slot.token, stat.token),
            };
            Ok(Some(verdict.reveal(slot.position, slot.token, **stat)))
        };
        let drafted = span.len();
        // From left to right, one a step.
        let revealed = up_to_rejection(span.into_iter().zip(&answer.stats), |(slot, _)| slot.position as u32, judge)?;
        self.tally.judged(drafted, &revealed);
        Ok(revealed)
    }

    /// Adds the usual rule's choice among the other drafts where a step has decided fewer than its share.
    fn fall_back(&self, slots: &[DraftedSlot], mut revealed: Vec<Revealed>) -> Vec<Revealed> {
        if revealed.len() >= self.rule.quota(self.step) {
            return revealed;
        }
        let open = |slot: &&DraftedSlot| revealed.iter().all(|known| known.position != slot.position);
        let left: Vec<(usize, RowStat)> = slots.iter().filter(open).map(|slot| (slot.position, slot.stat)).collect();
        if left.is_empty() {
            return revealed;
        }
        let chosen = self.rule.choose_of(&left, self.rule.quota(self.step) - revealed.len());
        revealed.extend(chosen.into_iter().map(|(i, how)| Revealed { position: left[i].0, stat: left[i].1, how }));
        revealed
    }

    fn reveal(&mut self, revealed: &[Revealed]) {
        for slot in revealed {
            self.grid.canvas[slot.position] = slot.stat.token;
        }
        self.steps += 1;
        self.step += 1;
        if self.grid.advance() {
            self.step = 0;
            self.tally.unfolded_passes += 1; // its commit
        }
        self.prepare();
    }
}

/// The same row without noise: its statistics depend on the distribution alone.
fn plain(rule: RowRule) -> RowRule {
    RowRule { temperature: 0.0, top_k: 0, top_p: 1.0, confidence: Confidence::Raw, ..rule }
}

impl Decoder for S2d2Decoder {
    fn asks_for_rows(&self) -> bool {
        self.how.judgement != Judgement::Match || self.how.policy.score().is_some_and(|score| score.estimator.needs_squares())
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
        match std::mem::replace(&mut self.under_way, UnderWay::Draft(Vec::new())) {
            UnderWay::Prefill(cached) => {
                self.cached = cached;
                self.prepare();
                Ok(Vec::new())
            }
            UnderWay::Draft(reading) => {
                self.cached = self.grid.block;
                let slots = self.drafts(&reading, answer)?;
                if self.verifies(&slots, answer)? {
                    self.verify(slots);
                    return Ok(Vec::new());
                }
                let revealed = self.fall_back(&slots, Vec::new());
                self.reveal(&revealed);
                Ok(revealed)
            }
            UnderWay::Verify(slots) => {
                let judged = self.judge(&slots, answer)?;
                let revealed = self.fall_back(&slots, judged);
                self.reveal(&revealed);
                Ok(revealed)
            }
        }
    }

    fn canvas(&self) -> &[u32] {
        &self.grid.canvas
    }

    fn committed(&self) -> usize {
        self.grid.block
    }
}
