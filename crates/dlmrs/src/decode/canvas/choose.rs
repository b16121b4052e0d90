//! The reveal rules of a canvas: what a step reads, and which of it is decided.

use crate::decode::even::even_quotas;
use crate::decode::method::{Canvas, DreamAlg, Remasking, Task};
use crate::decode::reveal::{self, Candidate, Chosen};
use crate::decode::schedule::{dream_share, quotas};
use crate::decode::{How, Revealed};
use crate::sample::RowStat;
use crate::sample::noise::{Purpose, Stream, gumbel};

/// The rule of a request and where its current block stands.
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
    step: usize,
    /// Slots that the step at hand reveals.
    quota: usize,
    /// Passes so far; a key of the noise that is drawn anew each step.
    passes: u32,
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
            step: 0,
            quota: 0,
            passes: 0,
        }
    }

    /// A block of so many masks begins, to be decided in so many steps.
    pub(super) fn enter(&mut self, masks: usize, steps: usize) {
        let quotas = if matches!(self.rule, Rule::Dream(DreamAlg::EvenEntropy, _)) { even_quotas } else { quotas };
        (self.step, self.steps, self.quotas) = (0, steps, quotas(masks, steps));
    }

    /// A step has been taken.
    pub(super) fn stepped(&mut self) {
        self.passes += 1;
        self.step += 1;
    }

    /// What to read: all masks of the block, or, where the rule does not look at the model, just those that are revealed.
    /// Steps that reveal nothing are passed over, since they would change nothing.
    pub(super) fn plan(&mut self, masks: Vec<usize>) -> Vec<usize> {
        let mut drawn = None;
        loop {
            let last = self.step + 1 >= self.steps;
            let share = |eps| dream_share(self.step, self.steps, eps);
            self.quota = match self.rule {
                Rule::Threshold(..) | Rule::Factor(..) => masks.len(),
                Rule::Fixed(_) | Rule::Dream(DreamAlg::EvenEntropy, _) => self.quotas.get(self.step).copied().unwrap_or(masks.len()),
                Rule::Dream(DreamAlg::Origin, eps) => {
                    let share = if last { 1.0 } else { f64::from(share(eps)) };
                    let number = |p: usize| Stream::new(self.seed, Purpose::Origin, self.step as u32, p as u32).uniform();
                    drawn.insert(masks.iter().copied().filter(|&p| number(p) < share).collect::<Vec<_>>()).len()
                }
                Rule::Dream(..) if last => masks.len(),
                Rule::Dream(_, eps) => (masks.len() as f32 * share(eps)) as usize,
            };
            if self.quota > 0 {
                break;
            }
            self.step += 1;
        }
        match (drawn, self.rule) {
            (Some(drawn), _) => drawn,
            (None, Rule::Fixed(Remasking::Random)) => {
                let candidates: Vec<_> = masks.iter().map(|&position| Candidate { position, score: self.random(position) }).collect();
                let mut reading: Vec<usize> = reveal::top(&candidates, self.quota).into_iter().map(|(i, _)| masks[i]).collect();
                reading.sort_unstable();
                reading
            }
            _ => masks,
        }
    }

    /// What of the slots that were read is decided.
    pub(super) fn choose(&self, reading: &[usize], stats: &[RowStat]) -> Vec<Revealed> {
        let candidate = |(&position, stat): (&usize, &RowStat)| Candidate { position, score: self.score(position, stat) };
        let candidates: Vec<_> = reading.iter().zip(stats).map(candidate).collect();
        let chosen: Chosen = match self.rule {
            Rule::Threshold(threshold, _) => reveal::at_least(&candidates, threshold),
            Rule::Factor(factor, compat, _) => reveal::factor(&candidates, factor, compat),
            Rule::Dream(DreamAlg::Origin, _) | Rule::Fixed(Remasking::Random) => all(candidates.len()),
            Rule::Dream(..) | Rule::Fixed(_) => reveal::top(&candidates, self.quota),
        };
        revealed(reveal::at_most(&candidates, chosen, self.most), reading, stats)
    }

    /// The random confidence of LLaDA's `random` strategy, drawn anew each pass.
    fn random(&self, position: usize) -> f32 {
        Stream::new(self.seed, Purpose::Remask, self.passes, position as u32).uniform() as f32
    }

    fn score(&self, position: usize, stat: &RowStat) -> f32 {
        if self.postponed.contains(&stat.token) {
            return f32::NEG_INFINITY;
        }
        let confidence = match self.rule {
            Rule::Threshold(_, Remasking::Random) | Rule::Factor(.., Remasking::Random) | Rule::Fixed(Remasking::Random) => {
                return self.random(position);
            }
            Rule::Dream(DreamAlg::TopkMargin, _) => stat.margin,
            Rule::Dream(DreamAlg::Entropy | DreamAlg::EvenEntropy, _) => -stat.entropy,
            _ => stat.probability,
        };
        match self.rule {
            // The highest of confidence / temperature + Gumbel noise are a draw from its softmax without replacement.
            Rule::Dream(..) if self.alg_temp > 0.0 => {
                let noise = Stream::new(self.seed, Purpose::AlgTemp, self.passes, position as u32).uniform();
                (f64::from(confidence / self.alg_temp) + gumbel(noise)) as f32
            }
            _ => confidence,
        }
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
