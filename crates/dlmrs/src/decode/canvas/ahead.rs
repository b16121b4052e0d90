//! Lookahead inside a block of a canvas: between two refreshes of a dual cache the passes of a block see the same cache, so guessed states of
//! the block can be judged in one of them. The tokens are those of the dual cache alone, whatever is guessed.
//!
//! Guesses are the model's own last words on undecided slots, as in block diffusion; but what stands behind the block was computed when all of
//! it was masked and is computed anew when the block is finished, so a pass never reaches beyond its block.

use std::cmp::Reverse;

use super::CanvasDecoder;
use super::choose::{Chooser, Moment};
use crate::decode::reveal::Chosen;
use crate::decode::{Amount, Answer, Counts, Decoder, PassKind, Revealed, Role, Steps, Tally, Wish};
use crate::error::Result;
use crate::sample::RowStat;
use crate::speculate::cost::{Gauge, Pace};
use crate::speculate::guesses::{Chain, Guesses, chain};
use crate::speculate::layout::{Around, Copy, Laid, inside};
use crate::speculate::walk::walk;

/// The state of one request.
pub(crate) struct CanvasLookahead {
    alone: CanvasDecoder,
    max_rows: Amount,
    /// Beside each guessed step its runner-up.
    alternatives: bool,
    guesses: Guesses,
    gauge: Gauge,
    tally: Tally,
    pending: Vec<Wish>,
    /// What is guessed to follow the present state, whether it fits into the pass or not; and how such guesses fared.
    guessed: Chain,
    record: Record,
    /// The most copies that a pass has held; `Auto` goes beyond by doubling, so that finding out what rows cost is cheap.
    tried: usize,
    /// The states that the pass under way judges, slots numbered from 0; none where it is one of the decoder alone.
    copies: Vec<Copy>,
    /// Of each row that is read, its copy and its slot.
    read: Vec<(usize, usize)>,
}

/// What steps of the target came to beside what was guessed. Counted and not timed, so the same run makes the same passes.
#[derive(Clone, Copy, Default)]
struct Record {
    steps: f64,
    as_guessed: f64,
    runner_up: f64,
}

impl Record {
    /// A step led to this state.
    fn count(&mut self, state: &Vec<u32>, guessed: &Chain) {
        self.steps += 1.0;
        self.as_guessed += f64::from(u8::from(guessed.states.contains(state)));
        self.runner_up += f64::from(u8::from(guessed.others.contains(state)));
    }

    /// The chance that a step goes as guessed, and that it goes to its runner-up. At first even, and 1 in 8.
    fn chances(&self) -> (f64, f64) {
        ((self.as_guessed + 4.0) / (self.steps + 8.0), (self.runner_up + 1.0) / (self.steps + 8.0))
    }
}

/// A canvas's rule over the slots of a block, which are numbered from 0.
struct Numbered<'a> {
    rule: &'a Chooser,
    places: &'a [usize],
}

impl Numbered<'_> {
    fn placed(&self, (slot, stat): &(usize, RowStat)) -> (usize, RowStat) {
        (self.places[*slot], *stat)
    }
}

impl Steps for Numbered<'_> {
    type At = Moment;

    fn step(&self, slots: &[(usize, RowStat)], at: Moment) -> (Chosen, Moment) {
        self.rule.step(&slots.iter().map(|slot| self.placed(slot)).collect::<Vec<_>>(), at)
    }

    fn enter(&self, at: Moment) -> Moment {
        self.rule.enter(at)
    }

    fn rank(&self, slot: &(usize, RowStat), at: Moment) -> f32 {
        self.rule.rank(&self.placed(slot), at)
    }
}

impl CanvasLookahead {
    /// Settings and task must have been validated; the decoder has a dual cache.
    pub(crate) fn new(mut alone: CanvasDecoder, max_rows: Amount, alternatives: bool) -> Self {
        alone.hears = true;
        let mut decoder = Self {
            alone,
            max_rows,
            alternatives,
            guesses: Guesses::default(),
            gauge: Gauge::default(),
            tally: Tally::default(),
            pending: Vec::new(),
            guessed: Chain::default(),
            record: Record::default(),
            tried: 1,
            copies: Vec::new(),
            read: Vec::new(),
        };
        decoder.prepare();
        decoder
    }

    /// Makes the next pass.
    fn prepare(&mut self) {
        self.guessed = self.guess().unwrap_or_default();
        self.copies = self.states();
        self.tried = self.tried.max(self.copies.len());
        self.pending = if self.copies.is_empty() { self.alone.wishes() } else { self.verify() };
    }

    /// What the block holds, slot by slot.
    fn present(&self) -> Vec<u32> {
        self.alone.feed.places().iter().map(|&place| self.alone.canvas[place]).collect()
    }

    /// What follows the present state if the model stays with what it last said; None before a pass that feeds more than the block.
    fn guess(&self) -> Option<Chain> {
        let places = self.alone.feed.hole().filter(|_| !self.alone.finished()).map(|_| self.alone.feed.places())?;
        let rule = Numbered { rule: &self.alone.chooser, places };
        chain(&self.present(), 0, self.alone.mask_token_id, |slot| self.guesses.at(places[slot]), &rule, self.alone.now)
    }

    /// The present state and guessed ones; none where there is nothing to judge.
    fn states(&self) -> Vec<Copy> {
        let likely = self.likely();
        let states = if likely.is_empty() { Vec::new() } else { [vec![self.present()], likely].concat() };
        states.into_iter().map(|tokens| Copy { start: 0, tokens }).collect()
    }

    /// The guessed states that are likeliest to be reached, as many as fit. A finished one has no row that says anything.
    fn likely(&self) -> Vec<Vec<u32>> {
        let length = self.alone.feed.places().len();
        let (as_guessed, runner_up) = self.record.chances();
        let reached = |steps: usize| as_guessed.powi(steps as i32);
        // A state is reached if all steps before it were as guessed; its sibling if all but the last, and the last was the runner-up.
        let states = self.guessed.states.iter().enumerate().map(|(i, state)| (reached(i + 1), true, state));
        let others = self.guessed.others.iter().enumerate().map(|(i, state)| (reached(i) * runner_up, false, state));
        let masked = |state: &Vec<u32>| state.iter().filter(|&&id| id == self.alone.mask_token_id).count();
        let mut found: Vec<(f64, bool, &Vec<u32>)> = Vec::new();
        for (weight, chained, state) in states.chain(others.filter(|_| self.alternatives)) {
            if masked(state) > 0 && found.iter().all(|(_, _, known)| *known != state) {
                found.push((weight, chained, state));
            }
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0)); // stable
        let most = match self.max_rows {
            Amount::All => usize::MAX,
            Amount::AtMost(rows) => rows / length,
            Amount::Auto => self.gauge.states((found.len() + 1).min(2 * self.tried), length, 0),
        };
        found.truncate(most.saturating_sub(1));
        // The end of the chain comes last: there nothing was guessed that could be corrected.
        found.sort_by_key(|(_, chained, state)| (Reverse(masked(state)), *chained));
        found.into_iter().map(|(.., state)| state.clone()).collect()
    }

    /// Makes the pass that judges the copies.
    fn verify(&mut self) -> Vec<Wish> {
        let (_, kept) = self.alone.behind();
        let (dropped, (own, base)) = (self.alone.feed.dropped(kept), self.alone.feed.hole().unwrap_or_default());
        let places = self.alone.feed.places();
        let around = Around { base, own, dropped: &dropped, places, shift: self.alone.shift };
        let Laid { pass, read, .. } = inside(&around, &self.copies, self.alone.mask_token_id);
        let places = places.to_vec();
        let mut canvas = self.alone.canvas.clone();
        let (mut scans, mut shown) = (Vec::with_capacity(read.len()), None);
        for (row, &(copy, slot)) in read.iter().enumerate() {
            // The rule of a row goes by the canvas as its copy would leave it.
            if shown != Some(copy) {
                places.iter().zip(&self.copies[copy].tokens).for_each(|(&place, &token)| canvas[place] = token);
                self.alone.rules.update(&canvas);
                shown = Some(copy);
            }
            scans.push(self.alone.scan(row, places[slot]));
        }
        self.read = read;
        let (kind, rows) = (PassKind::Verify, Counts::of(PassKind::Verify, pass.rows()));
        // What a guiding canvas hides was given, and no slot of a block was.
        let guiding = pass.clone();
        self.alone.with_guide(Wish { model: Role::Target, cache: 0, pass, scans, kind, rows }, || guiding)
    }

    /// Follows the target along the copies.
    fn judge(&mut self, copies: &[Copy], stats: &[RowStat]) -> Vec<Revealed> {
        let mask = self.alone.mask_token_id;
        let places = self.alone.feed.places().to_vec();
        let mut said = vec![Vec::new(); copies.len()];
        for (&(copy, slot), stat) in self.read.iter().zip(stats) {
            said[copy].push((slot, *stat));
        }
        let rule = Numbered { rule: &self.alone.chooser, places: &places };
        let walked = walk(copies, mask, |copy| said[copy].clone(), &rule, self.alone.now);
        for step in &walked.steps {
            let mut state = copies[step.copy].tokens.clone();
            step.revealed.iter().for_each(|slot| state[slot.position] = slot.stat.token);
            self.learn(&state);
        }
        let numbered = walked.steps.iter().flat_map(|step| &step.revealed);
        let revealed: Vec<Revealed> = numbered.map(|slot| Revealed { position: places[slot.position], ..*slot }).collect();
        let masked = |copy: &Copy| copy.tokens.iter().filter(|&&id| id == mask).count();
        let least = copies.iter().map(masked).min().unwrap_or_default();
        self.tally.judged(copies.first().map_or(0, masked) - least, &revealed);
        for slots in &mut said {
            slots.iter_mut().for_each(|(slot, _)| *slot = places[*slot]);
        }
        self.guesses.hear(&said, walked.steps.last().map(|step| step.copy));
        self.alone.now = walked.step;
        self.alone.fill(&revealed);
        self.alone.settle();
        revealed
    }

    /// A step led to this state of the block.
    fn learn(&mut self, state: &Vec<u32>) {
        if self.guessed.states.is_empty() {
            return;
        }
        self.record.count(state, &self.guessed);
        let as_guessed = self.guessed.states.contains(state);
        self.gauge.walked(usize::from(as_guessed), !as_guessed);
    }

    /// Takes the answer to a pass of the decoder alone, in which whatever was guessed would have gone well or not.
    fn follow(&mut self, answers: &[Answer], said: &[RowStat]) -> Result<Vec<Revealed>> {
        let read = self.alone.reading().iter().chain(&self.alone.overheard);
        self.guesses.hear(&[read.copied().zip(said.iter().copied()).collect()], None);
        let (mut state, places) = (self.present(), self.alone.feed.places().to_vec());
        let revealed = self.alone.take(answers)?;
        for slot in &revealed {
            if let Ok(number) = places.binary_search(&slot.position) {
                state[number] = slot.stat.token;
            }
        }
        self.learn(&state);
        Ok(revealed)
    }
}

impl Decoder for CanvasLookahead {
    fn caches(&self) -> usize {
        self.alone.caches()
    }

    fn tally(&self) -> Tally {
        self.tally
    }

    fn told(&mut self, pace: Pace) {
        self.gauge.pace = pace;
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
            self.gauge.pace.add(Role::Target, took);
        }
        let copies = std::mem::take(&mut self.copies);
        let revealed = match copies.is_empty() {
            true => self.follow(answers, &answer.stats)?,
            false => self.judge(&copies, &answer.stats),
        };
        self.prepare();
        Ok(revealed)
    }

    fn canvas(&self) -> &[u32] {
        self.alone.canvas()
    }

    fn committed(&self) -> usize {
        self.alone.committed()
    }

    fn watched(&self) -> usize {
        self.alone.watched()
    }

    fn kept_suffix(&self) -> &[Vec<u32>] {
        self.alone.kept_suffix()
    }
}
