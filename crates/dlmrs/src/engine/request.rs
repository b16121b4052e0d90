//! One request on its way.

use std::time::Instant;

use super::event::{Event, FinishReason, Output, RequestId};
use super::stats::Stats;
use super::stop::Watch;
use super::trace::Trace;
use crate::cache::KvCache;
use crate::decode::{Answer, Decoder, Decoding, Task};
use crate::error::{Error, Result};
use crate::llm::Llm;
use crate::params::SamplingParams;

/// What a caller asks for.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Token ids; mask ids among them are slots to fill.
    pub prompt: Vec<u32>,
    /// How to sample.
    pub params: SamplingParams,
    /// How to decode; None is the model's own way.
    pub decoding: Option<Decoding>,
}

/// A request that the engine works on.
pub(super) struct Active {
    pub(super) id: RequestId,
    pub(super) decoder: Box<dyn Decoder>,
    pub(super) caches: Vec<KvCache>,
    /// Of the draft model.
    pub(super) draft_caches: Vec<KvCache>,
    pub(super) stats: Stats,
    pub(super) cancelled: bool,
    /// It did not fit into the last forward.
    pub(super) waited: bool,
    /// It has been in a forward, so that its caches hold something.
    pub(super) started: bool,
    prompt: Vec<u32>,
    mask_token_id: u32,
    max_tokens: usize,
    seed: u64,
    watch: Watch,
    trace: Option<Trace>,
    /// Slots before this place of the canvas are known to be decided.
    decided: usize,
    warnings: Vec<String>,
    submitted: Instant,
}

impl Active {
    pub(super) fn new(id: RequestId, llm: &Llm, request: Request) -> Result<Self> {
        let Request { prompt, params, decoding } = request;
        let decoding = decoding.unwrap_or_else(|| llm.own_decoding());
        check(llm, &prompt, &params, &decoding)?;
        let mut stop_token_ids = llm.facts().stop_token_ids.clone();
        stop_token_ids.extend(params.stop_token_ids.iter().copied().filter(|id| !llm.facts().stop_token_ids.contains(id)));
        let watch = Watch::new(&params, &stop_token_ids, llm.tokenizer())?;
        let seed = params.seed.unwrap_or_else(rand::random);
        let warnings = decoding.warnings(&llm.subject());
        for warning in &warnings {
            tracing::warn!(model = llm.name(), "{warning}");
        }
        let (max_tokens, trace) = (params.max_tokens, params.trace.then(Trace::default));
        let task = Task {
            prompt: prompt.clone(),
            params,
            seed,
            mask_token_id: llm.facts().mask_token_id,
            vocab: llm.config().vocab,
            drawable: llm.tokenizer().map_or(u32::MAX, |t| t.vocab_size()),
            eos_token_id: llm.eos_token_id(),
            stop_token_ids,
            block_length: llm.facts().block_length,
            threshold: llm.config().family.profile().threshold,
            shift: llm.config().shift,
            alg: llm.schedule(),
            confidence: llm.confidence(),
            filter_order: llm.filter_order(),
        };
        let mut decoder = decoding.decoder(task);
        decoder.told(*llm.pace());
        let caches = (0..decoder.caches()).map(|_| llm.model().new_cache()).collect();
        let draft_caches = llm.draft_model().map_or(Vec::new(), |model| (0..decoder.draft_caches()).map(|_| model.new_cache()).collect());
        Ok(Self {
            id,
            decoder,
            caches,
            draft_caches,
            stats: Stats::default(),
            cancelled: false,
            waited: false,
            started: false,
            prompt,
            mask_token_id: llm.facts().mask_token_id,
            max_tokens,
            seed,
            watch,
            trace,
            decided: 0,
            warnings,
            submitted: Instant::now(),
        })
    }

    /// Why the request has ended, if it has.
    pub(super) fn ending(&self) -> Option<FinishReason> {
        if self.watch.stopped().is_some() {
            return Some(FinishReason::Stop);
        }
        if self.cancelled {
            return Some(FinishReason::Cancelled);
        }
        self.decoder.finished().then_some(FinishReason::Length)
    }

    /// Gives the decoder its answers and reports what came of them.
    pub(super) fn take(&mut self, answers: &[Answer], events: &mut Vec<Event>) -> Result<()> {
        let slots = self.decoder.take(answers)?;
        let edited = slots.iter().filter(|slot| slot.is_edit()).count();
        self.stats.revealed += slots.len() - edited;
        self.stats.edited += edited;
        if let Some(trace) = &mut self.trace {
            trace.add(self.stats.total_passes(), &slots);
        }
        if !slots.is_empty() {
            events.push(Event::Revealed { id: self.id, pass: self.stats.total_passes(), slots });
        }
        let canvas = self.decoder.canvas();
        let masked = canvas[self.decided..].iter().position(|&id| id == self.mask_token_id);
        self.decided = masked.map_or(canvas.len(), |n| self.decided + n);
        let from = self.prompt.len();
        self.follow(self.decided.min(self.decoder.watched()));
        let committed = self.decoder.committed().min(self.decided);
        if committed > from && self.watch.stopped().is_none() && !self.decoder.finished() {
            let (token_ids, text) = self.watch.take(committed - from, false);
            if !token_ids.is_empty() {
                events.push(Event::Committed { id: self.id, token_ids, text });
            }
        }
        Ok(())
    }

    /// Looks for the end of the text before this place of the canvas.
    fn follow(&mut self, to: usize) {
        let from = self.prompt.len();
        if to > from {
            self.watch.follow(&self.decoder.canvas()[from..to.min(from + self.max_tokens)]);
        }
    }

    /// Reports the rest and the result.
    pub(super) fn finish(&mut self, reason: FinishReason, events: &mut Vec<Event>) {
        if reason == FinishReason::Cancelled {
            self.follow(self.decided); // what was decided counts, though the decoder would have looked at it, or edited it, later
        }
        self.watch.close();
        let (token_ids, text) = self.watch.take(usize::MAX, true);
        if !token_ids.is_empty() || !text.is_empty() {
            events.push(Event::Committed { id: self.id, token_ids, text });
        }
        self.stats.tokens = self.watch.tokens().len();
        self.stats.speculation = self.decoder.tally();
        self.stats.total = self.submitted.elapsed();
        let kept = self.decoder.kept_suffix();
        (self.stats.blocks, self.stats.kept_suffix) = (kept.len(), kept.iter().map(Vec::len).sum());
        let output = Output {
            text: self.watch.text().to_string(),
            token_ids: self.watch.tokens().to_vec(),
            prompt_token_ids: std::mem::take(&mut self.prompt),
            canvas_token_ids: self.decoder.canvas().to_vec(),
            finish_reason: reason,
            stop_cause: self.watch.stopped().cloned(),
            seed: self.seed,
            stats: std::mem::take(&mut self.stats),
            trace: self.trace.take().map(|trace| trace.finish(self.decoder.kept_suffix())),
            warnings: std::mem::take(&mut self.warnings),
        };
        events.push(Event::Finished { id: self.id, output: Box::new(output) });
    }
}

fn check(llm: &Llm, prompt: &[u32], params: &SamplingParams, decoding: &Decoding) -> Result<()> {
    let (vocab, limit) = (llm.config().vocab, llm.facts().max_model_len);
    params.validate(vocab)?;
    decoding.validate()?;
    if prompt.is_empty() {
        return Err(Error::input("prompt", "is empty; at least one token is needed"));
    }
    if let Some(&id) = prompt.iter().find(|&&id| id as usize >= vocab) {
        return Err(Error::input("prompt", format!("holds the id {id}, but the vocabulary has {vocab} entries (0 to {})", vocab - 1)));
    }
    let wanted = prompt.len().saturating_add(params.max_tokens);
    if wanted > limit {
        let message = format!(
            "has {} tokens and max_tokens is {}, together {wanted}, but the model takes at most {limit}; shorten the prompt or lower max_tokens",
            prompt.len(),
            params.max_tokens
        );
        return Err(Error::input("prompt", message));
    }
    decoding.suits(&llm.subject())?;
    decoding.fits(&llm.subject(), prompt.len(), params.max_tokens)
}
