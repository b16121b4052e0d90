//! A model with its tokenizer and what its checkpoint leaves to defaults: what a caller loads once and then generates with.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::checkpoint::{Facts, Folder, ModelConfig, NativeAttention, Overrides, Report, facts, inspect};
use crate::decode::{Decoding, DreamAlg, Subject};
use crate::draft::{Draft, DraftSource};
use crate::engine::{Engine, Event, Output, Request, RequestId};
use crate::error::{Error, Result};
use crate::model::{Hidden, LoadOptions, Model};
use crate::pass::{Bits, Keep, Pass, Sees, Tap};
use crate::sample::{Confidence, FilterOrder};
use crate::speculate::cost::Pace;
use crate::tokenizer::Tokenizer;

/// A loaded checkpoint. It is not changed by use, but that it remembers what passes took; any number of engines and threads may share it.
pub struct Llm {
    name: String,
    model: Model,
    tokenizer: Option<Tokenizer>,
    facts: Facts,
    trained_block_length: Option<usize>,
    draft: Option<Draft>,
    pace: Mutex<Pace>,
}

impl Llm {
    /// Loads a folder, or a bundled model by its name.
    pub fn load(name: &str, options: &LoadOptions, overrides: &Overrides) -> Result<Arc<Self>> {
        Self::load_with(name, options, overrides, &mut |_, _| true)
    }

    /// As [`Self::load`]; `progress` is told (parts read, parts in all) after each layer, and ends the loading by returning false.
    pub fn load_with(
        name: &str,
        options: &LoadOptions,
        overrides: &Overrides,
        progress: &mut dyn FnMut(usize, usize) -> bool,
    ) -> Result<Arc<Self>> {
        Ok(Arc::new(Self::read(name, options, overrides, progress)?))
    }

    /// As [`Self::load_with`], with a draft model for speculative decoding.
    pub fn load_pair(
        name: &str,
        draft: &DraftSource,
        options: &LoadOptions,
        overrides: &Overrides,
        progress: &mut dyn FnMut(usize, usize) -> bool,
    ) -> Result<Arc<Self>> {
        let mut llm = Self::read(name, options, overrides, progress)?;
        llm.draft = Some(Draft::load(&llm, draft, overrides, progress)?);
        Ok(Arc::new(llm))
    }

    pub(crate) fn read(
        name: &str,
        options: &LoadOptions,
        overrides: &Overrides,
        progress: &mut dyn FnMut(usize, usize) -> bool,
    ) -> Result<Self> {
        let begun = Instant::now();
        let folder = Folder::open(name)?;
        let config = ModelConfig::read(&folder)?;
        let (tokenizer, mask, eos) = tokenizer(&folder)?;
        let settled = facts(&folder, &config, mask, eos, overrides)?;
        let own = facts(&folder, &config, mask, eos, &Overrides { block_length: None, ..overrides.clone() })?;
        let tokenizer = tokenizer.map(|t| t.with_mask_token_id(settled.mask_token_id)).transpose()?;
        let llm = Self {
            name: folder.name(),
            model: Model::load(&folder, config, options, progress)?,
            tokenizer,
            trained_block_length: own.block_length.filter(|_| own.block_length_baked),
            facts: settled,
            draft: None,
            pace: Mutex::default(),
        };
        let device = crate::device::name(llm.model.device());
        tracing::info!(model = llm.name(), family = llm.config().family.name(), device, seconds = begun.elapsed().as_secs_f32(), "loaded");
        Ok(llm)
    }

    /// Describes a checkpoint as [`Self::load`] would find it, without reading a weight.
    pub fn inspect(name: &str, overrides: &Overrides) -> Result<Report> {
        let folder = Folder::open(name)?;
        let (_, mask, eos) = tokenizer(&folder)?;
        inspect(&folder, overrides, mask, eos)
    }

    /// The folder's last name, or the bundled model's.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The network.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The network that drafts, if one was loaded with it; it may be this one itself.
    pub fn draft_model(&self) -> Option<&Model> {
        self.draft.as_ref().map(|draft| draft.model().unwrap_or(&self.model))
    }

    /// What passes took so far, of all engines over it.
    pub(crate) fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The draft model's name, if one was loaded with it.
    pub fn draft_name(&self) -> Option<&str> {
        self.draft.as_ref().map(|draft| draft.name().unwrap_or(&self.name))
    }

    /// What the checkpoint says of itself.
    pub fn config(&self) -> &ModelConfig {
        self.model.config()
    }

    /// Mask id, block length, stop ids and longest sequence.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// None if the folder has none: then prompts are ids, and outputs have no text.
    pub fn tokenizer(&self) -> Option<&Tokenizer> {
        self.tokenizer.as_ref()
    }

    /// The tokenizer, or an error that says there is none.
    pub fn require_tokenizer(&self) -> Result<&Tokenizer> {
        self.tokenizer.as_ref().ok_or_else(|| Error::Tokenizer(format!("{} has none; give token ids instead of text", self.name)))
    }

    /// The end of a text, which `logits_eos_inf` bans: what `config.json` calls so, else `<|endoftext|>`, else the tokenizer's.
    pub(crate) fn eos_token_id(&self) -> Option<u32> {
        let named = self.config().eos_token_ids.first().copied();
        let tokenizer = || self.tokenizer.as_ref().and_then(|t| t.token_to_id("<|endoftext|>").or_else(|| t.eos_token_id()));
        named.or_else(tokenizer)
    }

    /// The way of decoding that the model is made for.
    pub fn own_decoding(&self) -> Decoding {
        Decoding::own(self.config().attention, self.config().shift)
    }

    /// What the settings of a method have to know of it.
    pub fn subject(&self) -> Subject<'_> {
        Subject {
            name: self.name(),
            attention: self.config().attention,
            shift: self.config().shift,
            alg: self.schedule(),
            edits: self.config().family.profile().edits,
            eos_token_id: self.eos_token_id(),
            block_length: self.facts.block_length,
            trained_block_length: self.trained_block_length,
            max_model_len: self.facts.max_model_len,
            has_draft: self.draft.is_some(),
        }
    }

    /// The schedule that its own sampler decides a whole canvas by.
    pub(crate) fn schedule(&self) -> Option<DreamAlg> {
        self.config().family.profile().schedule
    }

    /// LLaDA takes confidences from the plain softmax, the others from the distribution that is drawn from, as their generation code does.
    pub(crate) fn confidence(&self) -> Confidence {
        self.config().family.profile().confidence
    }

    pub(crate) fn filter_order(&self) -> FilterOrder {
        self.config().family.profile().filter_order
    }

    /// An engine of its own for this caller.
    pub fn engine(self: &Arc<Self>) -> Engine {
        Engine::new(self.clone())
    }

    /// Runs requests together and gives their outputs in order; an error of one request ends the call (the engine itself goes on with
    /// the others, see [`Event::Failed`]). `watch` sees every event but the last of each request, with the
    /// request's number in `requests`, and may stop everything by returning false.
    pub fn generate(self: &Arc<Self>, requests: Vec<Request>, mut watch: impl FnMut(usize, &Event) -> bool) -> Result<Vec<Output>> {
        self.generate_with(requests, &mut watch, || true)
    }

    /// As [`Self::generate`]; `go_on` is asked between passes.
    pub fn generate_with(
        self: &Arc<Self>,
        requests: Vec<Request>,
        watch: &mut dyn FnMut(usize, &Event) -> bool,
        mut go_on: impl FnMut() -> bool,
    ) -> Result<Vec<Output>> {
        let mut engine = self.engine();
        let n = requests.len();
        let submit = |(i, request)| engine.submit(request).map_err(|error| of_several(error, i, n));
        let ids: Vec<RequestId> = requests.into_iter().enumerate().map(submit).collect::<Result<_>>()?;
        let numbers: HashMap<RequestId, usize> = ids.iter().enumerate().map(|(i, &id)| (id, i)).collect();
        let number = |id: RequestId| numbers.get(&id).copied().unwrap_or(0);
        let mut outputs: Vec<Option<Output>> = ids.iter().map(|_| None).collect();
        while !engine.is_idle() {
            if !go_on() {
                return Err(Error::Interrupted);
            }
            for event in engine.step()? {
                match event {
                    Event::Finished { id, output } => outputs[number(id)] = Some(*output),
                    Event::Failed { id, error } => return Err(of_several(error, number(id), n)),
                    Event::Revealed { id, .. } | Event::Committed { id, .. } => {
                        if !watch(number(id), &event) {
                            return Err(Error::Interrupted);
                        }
                    }
                }
            }
        }
        Ok(outputs.into_iter().flatten().collect())
    }

    /// The model's own rows of logits, `[V]` each, never shifted. `positions` are 0, 1, ... unless given; `mask` says who
    /// sees whom (None: the family's own visibility); `rows` are those to read (None: all).
    pub fn logits(&self, tokens: &[u32], positions: Option<Vec<u32>>, mask: Option<Bits>, rows: Option<Vec<u32>>) -> Result<Vec<Vec<f32>>> {
        let read = rows.unwrap_or_else(|| (0..tokens.len() as u32).collect());
        self.run(Pass { read, ..self.whole(tokens, positions, mask) })?.rows()
    }

    /// How much of their attention the rows `queries` give to the tokens `keys`, `[queries, keys]`, mean over layers and heads; the
    /// rest as for [`Self::logits`]. For looking at a model: it is slow.
    pub fn attention_mass(
        &self,
        tokens: &[u32],
        positions: Option<Vec<u32>>,
        mask: Option<Bits>,
        queries: Vec<u32>,
        keys: Vec<u32>,
    ) -> Result<Vec<Vec<f32>>> {
        let tap = Some(Tap { queries, keys });
        let hidden = self.run(Pass { tap, ..self.whole(tokens, positions, mask) })?;
        Ok(hidden.tapped(0).to_vec())
    }

    /// A pass over these tokens with nothing cached, kept or read.
    fn whole(&self, tokens: &[u32], positions: Option<Vec<u32>>, mask: Option<Bits>) -> Pass {
        let sees = match (mask, self.config().attention) {
            (Some(bits), _) => Sees::Mask(bits),
            (None, NativeAttention::Bidirectional) => Sees::Full,
            (None, NativeAttention::BlockCausal) => Sees::Blocks(self.facts.block_length.unwrap_or(1)),
        };
        let positions = positions.unwrap_or_else(|| (0..tokens.len() as u32).collect());
        Pass { tokens: tokens.to_vec(), positions, base: 0, sees, keep: Keep::Nothing, read: Vec::new(), tap: None }
    }

    fn run(&self, pass: Pass) -> Result<Hidden> {
        let (found, limit) = (pass.rows(), self.facts.max_model_len);
        if found > limit {
            return Err(Error::input("token_ids", format!("has {found} tokens, but the model takes at most {limit}")));
        }
        self.model.forward(&mut [(pass, &mut self.model.new_cache())])
    }
}

/// A folder's tokenizer, and its ids of the mask and of the end of sequence.
fn tokenizer(folder: &Folder) -> Result<(Option<Tokenizer>, Option<u32>, Option<u32>)> {
    let tokenizer = Tokenizer::from_files(folder)?;
    let ids = |t: &Tokenizer| (t.mask_token_id(), t.eos_token_id());
    let (mask, eos) = tokenizer.as_ref().map_or((None, None), ids);
    Ok((tokenizer, mask, eos))
}

/// Says which of several requests an error is about.
fn of_several(error: Error, i: usize, n: usize) -> Error {
    match error {
        Error::Input { name, message } if n > 1 => Error::Input { name: format!("{name} (request {} of {n})", i + 1), message },
        other => other,
    }
}

impl crate::tokenizer::Files for Folder {
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        Folder::read(self, name)
    }

    fn describe(&self, name: &str) -> String {
        Folder::describe(self, name)
    }
}
