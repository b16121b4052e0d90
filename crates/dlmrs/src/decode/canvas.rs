//! Canvas diffusion (LLaDA, Dream): prompt and slots in one canvas, full attention, blocks counted from the prompt's end.

use std::ops::Range;

use super::method::{Canvas, DreamAlg, Remasking, Task};
use super::reveal::{self, Candidate, Chosen};
use super::rules::Rules;
use super::schedule::{dream_share, quotas, steps_by_block};
use super::{Answer, Counts, Decoder, How, PassKind, Revealed, Role, Scan, Wish};
use crate::error::Result;
use crate::pass::{Keep, Pass, Sees};
use crate::sample::RowStat;
use crate::sample::noise::{Purpose, Stream, gumbel};

/// The state of one request.
pub struct CanvasDecoder {
    canvas: Vec<u32>,
    /// Which tokens the guiding canvas hides: those that were given. Empty without guidance.
    hidden: Vec<bool>,
    mask_token_id: u32,
    seed: u64,
    shift: bool,
    cfg_scale: f32,
    rules: Rules,
    rule: Rule,
    alg_temp: f32,
    /// Slots with these tokens are revealed last.
    postponed: Vec<u32>,
    blocks: Vec<Range<usize>>,
    /// Steps of each block.
    steps: Vec<usize>,
    /// Current block, the step inside it, and what each step reveals.
    block: usize,
    step: usize,
    quotas: Vec<usize>,
    /// Passes so far; a key of the noise that is drawn anew each step.
    passes: u32,
    /// Slots that the pass under way reads.
    reading: Vec<usize>,
    quota: usize,
}

#[derive(Clone, Copy)]
enum Rule {
    Fixed(Remasking),
    Threshold(f32, Remasking),
    Dream(DreamAlg, f32),
}

impl CanvasDecoder {
    /// Settings and task must have been validated.
    pub fn new(settings: &Canvas, task: Task) -> Self {
        let eos = if settings.logits_eos_inf { task.eos_token_id } else { None };
        let rules = Rules::new(&task, eos.as_slice());
        let (prompt, slots) = (task.prompt.len(), task.params.max_tokens);
        let mut canvas = task.prompt;
        let given = canvas.iter().map(|&id| id != task.mask_token_id);
        let hidden = if settings.cfg_scale > 0.0 { given.chain(std::iter::repeat_n(false, slots)).collect() } else { Vec::new() };
        canvas.resize(prompt + slots, task.mask_token_id);
        let default = if task.dream { slots } else { 32 };
        let length = settings.block_length.unwrap_or(default).max(1);
        // Masks of the prompt are decided with the first block.
        let mut blocks: Vec<Range<usize>> =
            (prompt..prompt + slots).step_by(length).map(|from| from..(from + length).min(prompt + slots)).collect();
        match blocks.first_mut() {
            Some(first) => first.start = 0,
            None => blocks.push(0..prompt),
        }
        let masks: Vec<usize> = blocks.iter().map(|b| canvas[b.clone()].iter().filter(|&&id| id == task.mask_token_id).count()).collect();
        let rule = match (settings.threshold, settings.alg) {
            (Some(threshold), _) => Rule::Threshold(threshold, settings.strategy),
            (None, Some(alg)) => Rule::Dream(alg, settings.eps),
            (None, None) if task.dream => Rule::Dream(DreamAlg::Entropy, settings.eps),
            (None, None) => Rule::Fixed(settings.strategy),
        };
        let mut decoder = Self {
            canvas,
            hidden,
            mask_token_id: task.mask_token_id,
            seed: task.seed,
            shift: task.shift,
            cfg_scale: settings.cfg_scale,
            rules,
            rule,
            alg_temp: settings.alg_temp,
            postponed: if settings.confidence_eos_eot_inf { task.stop_token_ids } else { Vec::new() },
            steps: steps_by_block(&masks, settings.steps.unwrap_or(masks.iter().sum())),
            blocks,
            block: 0,
            step: 0,
            quotas: Vec::new(),
            passes: 0,
            reading: Vec::new(),
            quota: 0,
        };
        decoder.enter_block();
        decoder
    }

    /// Goes to the first block from `self.block` on that has masks.
    fn enter_block(&mut self) {
        while self.block < self.blocks.len() && self.masks().is_empty() {
            self.block += 1;
        }
        self.step = 0;
        if self.block < self.blocks.len() {
            self.quotas = quotas(self.masks().len(), self.steps[self.block]);
        }
    }

    /// Masked slots of the current block.
    fn masks(&self) -> Vec<usize> {
        self.blocks[self.block].clone().filter(|&p| self.canvas[p] == self.mask_token_id).collect()
    }

    /// Chooses what to read: all masks of the block, or, where the rule does not look at the model, just those that are revealed.
    /// Steps that reveal nothing are passed over, since they would change nothing.
    fn plan(&mut self) {
        let masks = self.masks();
        loop {
            let last = self.step + 1 >= self.steps[self.block];
            let dream_quota =
                |eps| if last { masks.len() } else { (masks.len() as f32 * dream_share(self.step, self.steps[self.block], eps)) as usize };
            match self.rule {
                Rule::Threshold(..) => self.quota = masks.len(),
                Rule::Fixed(_) => self.quota = self.quotas.get(self.step).copied().unwrap_or(masks.len()),
                Rule::Dream(DreamAlg::Origin, eps) => {
                    let share = if last { 1.0 } else { f64::from(dream_share(self.step, self.steps[self.block], eps)) };
                    let (seed, step) = (self.seed, self.step as u32);
                    self.reading =
                        masks.iter().copied().filter(|&p| Stream::new(seed, Purpose::Origin, step, p as u32).uniform() < share).collect();
                    self.quota = self.reading.len();
                }
                Rule::Dream(_, eps) => self.quota = dream_quota(eps),
            }
            if self.quota > 0 {
                break;
            }
            self.step += 1;
        }
        match self.rule {
            Rule::Dream(DreamAlg::Origin, _) => {}
            Rule::Fixed(Remasking::Random) => {
                let draw = |p: &usize| Candidate { position: *p, score: self.random(*p) };
                let candidates: Vec<_> = masks.iter().map(draw).collect();
                self.reading = reveal::top(&candidates, self.quota).into_iter().map(|(i, _)| masks[i]).collect();
                self.reading.sort_unstable();
            }
            _ => self.reading = masks,
        }
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
            Rule::Threshold(_, Remasking::Random) | Rule::Fixed(Remasking::Random) => return self.random(position),
            Rule::Dream(DreamAlg::TopkMargin, _) => stat.margin,
            Rule::Dream(DreamAlg::Entropy, _) => -stat.entropy,
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

    fn choose(&self, candidates: &[Candidate]) -> Chosen {
        match self.rule {
            Rule::Threshold(threshold, _) => reveal::at_least(candidates, threshold),
            Rule::Dream(DreamAlg::Origin, _) | Rule::Fixed(Remasking::Random) => (0..candidates.len()).map(|i| (i, How::Ranked)).collect(),
            Rule::Dream(..) | Rule::Fixed(_) => reveal::top(candidates, self.quota),
        }
    }

    /// One pass over the whole canvas; the guiding one hides what was given.
    fn pass(&self, hidden: &[bool], read: Vec<u32>) -> Pass {
        let token = |(p, &id): (usize, &u32)| if hidden.get(p) == Some(&true) { self.mask_token_id } else { id };
        Pass {
            tokens: self.canvas.iter().enumerate().map(token).collect(),
            positions: (0..self.canvas.len() as u32).collect(),
            base: 0,
            sees: Sees::Full,
            keep: Keep::Nothing,
            read,
        }
    }
}

impl Decoder for CanvasDecoder {
    fn caches(&self) -> usize {
        if self.hidden.is_empty() { 1 } else { 2 }
    }

    fn next_rows(&self) -> usize {
        if self.finished() { 0 } else { self.caches() * self.canvas.len() }
    }

    fn next(&mut self) -> Result<Vec<Wish>> {
        if self.finished() {
            return Ok(Vec::new());
        }
        self.plan();
        self.rules.update(&self.canvas);
        let guide = |read| (self.caches() > 1).then_some((1, read, self.cfg_scale));
        let scan = |(read, &p): (usize, &usize)| Scan { read, guide: guide(read), rule: self.rules.at(p) };
        let scans = self.reading.iter().enumerate().map(scan).collect();
        let read: Vec<u32> = self.reading.iter().map(|&p| if self.shift { p.saturating_sub(1) } else { p } as u32).collect();
        let rows = Counts::of(PassKind::Denoise, self.canvas.len());
        let mut wishes =
            vec![Wish { model: Role::Target, cache: 0, pass: self.pass(&[], read.clone()), scans, kind: PassKind::Denoise, rows }];
        if self.caches() > 1 {
            wishes.push(Wish {
                model: Role::Target,
                cache: 1,
                pass: self.pass(&self.hidden, read),
                scans: Vec::new(),
                kind: PassKind::Denoise,
                rows,
            });
        }
        Ok(wishes)
    }

    fn take(&mut self, answers: &[Answer]) -> Result<Vec<Revealed>> {
        let Some(Answer { stats, .. }) = answers.first() else { return Ok(Vec::new()) };
        let candidates: Vec<_> =
            self.reading.iter().zip(stats).map(|(&position, stat)| Candidate { position, score: self.score(position, stat) }).collect();
        let mut revealed = Vec::new();
        for (i, how) in self.choose(&candidates) {
            let (position, stat) = (candidates[i].position, stats[i]);
            self.canvas[position] = stat.token;
            revealed.push(Revealed { position, stat, how });
        }
        self.passes += 1;
        self.step += 1;
        if self.masks().is_empty() {
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
}
