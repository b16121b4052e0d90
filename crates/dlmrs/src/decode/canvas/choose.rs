//! The reveal rules of a canvas: what a step reads, and which of it is decided.

use crate::decode::even::even_quotas;
use crate::decode::method::{Canvas, DreamAlg, Remasking, Task};
use crate::decode::reveal::{self, Candidate, Chosen};
use crate::decode::schedule::{dream_share, quotas};
use crate::decode::{How, Revealed, Steps};
use crate::sample::RowStat;
use crate::sample::noise::{Purpose, Stream, gumbel};

/// The rule of a request and the schedule of its current block. What it decides is a function of the rows and of the moment.
pub(super) struct Chooser {
    rule: Rule,
    seed: u64,
    alg_temp: f32,
    /// At most so many slots a pass.
    most: usize,
    /// Slots with these tokens are revealed last.
    postponed: Vec<u32>,
    /// Steps of the block, and what each of them reveals.
    steps: usize,
    quotas: Vec<usize>,
}

/// Where a request stands in its schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moment {
    /// Step of the block.
    step: usize,
    /// Steps so far, those of other blocks included; a key of the noise that is drawn anew each step.
    passes: u32,
}

impl Moment {
    /// A block begins.
    pub(super) fn entered(self) -> Self {
        Self { step: 0, ..self }
    }

    /// A step has been taken.
    pub(super) fn after(self) -> Self {
        Self { step: self.step + 1, passes: self.passes + 1 }
    }
}

/// What a step looks at, and how much of it it decides.
pub(super) struct Plan {
    /// The moment, with steps that reveal nothing passed over, since they would change nothing.
    pub(super) at: Moment,
    /// Slots to read, in order of position.
    pub(super) reading: Vec<usize>,
    quota: usize,
}

#[derive(Clone, Copy)]
enum Rule {
    Fixed(Remasking),
    Threshold(f32, Remasking),
    Factor(f32, bool, Remasking),
    Dream(DreamAlg, f32),
}

impl Chooser {
    pub(super) fn new(settings: &Canvas, task: &Task) -> Self {
        let rule = match (settings.threshold, settings.factor, settings.alg.or(task.alg)) {
            (Some(threshold), ..) => Rule::Threshold(threshold, settings.strategy),
            (None, Some(factor), _) => Rule::Factor(factor, settings.factor_compat, settings.strategy),
            (None, None, Some(alg)) => Rule::Dream(alg, settings.eps),
            (None, None, None) => Rule::Fixed(settings.strategy),
        };
        Self {
            rule,
            seed: task.seed,
            alg_temp: settings.alg_temp,
            most: settings.max_reveals.unwrap_or(usize::MAX),
            postponed: if settings.confidence_eos_eot_inf { task.stop_token_ids.clone() } else { Vec::new() },
            steps: 0,
            quotas: Vec::new(),
        }
    }

    /// A block of so many masks begins, to be decided in so many steps.
    pub(super) fn enter(&mut self, masks: usize, steps: usize) {
        let quotas = if matches!(self.rule, Rule::Dream(DreamAlg::EvenEntropy, _)) { even_quotas } else { quotas };
        (self.steps, self.quotas) = (steps, quotas(masks, steps));
    }

    /// What to read: all masks of the block, or, where the rule does not look at the model, just those that are revealed.
    pub(super) fn plan(&self, masks: Vec<usize>, mut at: Moment) -> Plan {
        let mut drawn = None;
        let quota = loop {
            let last = at.step + 1 >= self.steps;
            let share = |eps| dream_share(at.step, self.steps, eps);
            let quota = match self.rule {
                Rule::Threshold(..) | Rule::Factor(..) => masks.len(),
                Rule::Fixed(_) | Rule::Dream(DreamAlg::EvenEntropy, _) => self.quotas.get(at.step).copied().unwrap_or(masks.len()),
                Rule::Dream(DreamAlg::Origin, eps) => {
                    let share = if last { 1.0 } else { f64::from(share(eps)) };
                    let number = |p: usize| Stream::new(self.seed, Purpose::Origin, at.step as u32, p as u32).uniform();
                    drawn.insert(masks.iter().copied().filter(|&p| number(p) < share).collect::<Vec<_>>()).len()
                }
                Rule::Dream(..) if last => masks.len(),
                Rule::Dream(_, eps) => (masks.len() as f32 * share(eps)) as usize,
            };
            if quota > 0 {
                break quota;
            }
            at.step += 1;
        };
        let reading = match (drawn, self.rule) {
            (Some(drawn), _) => drawn,
            (None, Rule::Fixed(Remasking::Random)) => {
                let candidate = |&position: &usize| Candidate { position, score: self.random(position, at) };
                let candidates: Vec<_> = masks.iter().map(candidate).collect();
                let mut reading: Vec<usize> = reveal::top(&candidates, quota).into_iter().map(|(i, _)| masks[i]).collect();
                reading.sort_unstable();
                reading
            }
            _ => masks,
        };
        Plan { at, reading, quota }
    }

    /// What of the slots that were read is decided, as indices into `plan.reading`.
    pub(super) fn choose(&self, plan: &Plan, stats: &[RowStat]) -> Chosen {
        let candidate = |(&position, stat): (&usize, &RowStat)| Candidate { position, score: self.score(position, stat, plan.at) };
        let candidates: Vec<_> = plan.reading.iter().zip(stats).map(candidate).collect();
        let chosen: Chosen = match self.rule {
            Rule::Threshold(threshold, _) => reveal::at_least(&candidates, threshold),
            Rule::Factor(factor, compat, _) => reveal::factor(&candidates, factor, compat),
            Rule::Dream(DreamAlg::Origin, _) | Rule::Fixed(Remasking::Random) => all(candidates.len()),
            Rule::Dream(..) | Rule::Fixed(_) => reveal::top(&candidates, plan.quota),
        };
        reveal::at_most(&candidates, chosen, self.most)
    }

    /// The random confidence of LLaDA's `random` strategy, drawn anew each pass.
    fn random(&self, position: usize, at: Moment) -> f32 {
        Stream::new(self.seed, Purpose::Remask, at.passes, position as u32).uniform() as f32
    }

    fn score(&self, position: usize, stat: &RowStat, at: Moment) -> f32 {
        if self.postponed.contains(&stat.token) {
            return f32::NEG_INFINITY;
        }
        let confidence = match self.rule {
            Rule::Threshold(_, Remasking::Random) | Rule::Factor(.., Remasking::Random) | Rule::Fixed(Remasking::Random) => {
                return self.random(position, at);
            }
            Rule::Dream(DreamAlg::TopkMargin, _) => stat.margin,
            Rule::Dream(DreamAlg::Entropy | DreamAlg::EvenEntropy, _) => -stat.entropy,
            _ => stat.probability,
        };
        match self.rule {
            // The highest of confidence / temperature + Gumbel noise are a draw from its softmax without replacement.
            Rule::Dream(..) if self.alg_temp > 0.0 => {
                let noise = Stream::new(self.seed, Purpose::AlgTemp, at.passes, position as u32).uniform();
                (f64::from(confidence / self.alg_temp) + gumbel(noise)) as f32
            }
            _ => confidence,
        }
    }
}

impl Steps for Chooser {
    type At = Moment;

    fn step(&self, slots: &[(usize, RowStat)], at: Moment) -> (Chosen, Moment) {
        let plan = self.plan(slots.iter().map(|slot| slot.0).collect(), at);
        let read: Vec<usize> = (0..slots.len()).filter(|&i| plan.reading.binary_search(&slots[i].0).is_ok()).collect();
        let stats: Vec<RowStat> = read.iter().map(|&i| slots[i].1).collect();
        let chosen = self.choose(&plan, &stats).into_iter().map(|(i, how)| (read[i], how)).collect();
        (chosen, plan.at.after())
    }

    fn enter(&self, at: Moment) -> Moment {
        at.entered()
    }

    fn rank(&self, (position, stat): &(usize, RowStat), at: Moment) -> f32 {
        self.score(*position, stat, at)
    }
}

/// Everything that was read.
pub(super) fn all(reading: usize) -> Chosen {
    (0..reading).map(|i| (i, How::Ranked)).collect()
}

/// The chosen with their tokens.
pub(super) fn revealed(chosen: Chosen, reading: &[usize], stats: &[RowStat]) -> Vec<Revealed> {
    chosen.into_iter().map(|(i, how)| Revealed { position: reading[i], stat: stats[i], how }).collect()
}
