//! `dlmrs.LLM`.

use std::sync::{Arc, Mutex, PoisonError};

use dlmrs::tokenizer::Specials;
use dlmrs::{DraftSource, Error, LoadOptions, Request, device};
use numpy::PyArray2;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::chat::{self, Conversations};
use crate::errors::{Failure, Result};
use crate::forward::{self, Forward};
use crate::loaded::Loaded;
use crate::stream::Stream;
use crate::{decoding, generate, inspect, output, params, prompts, value};

/// A loaded model: a bundled one by its name, the folder of a checkpoint, or a GGUF file.
///
/// Several threads may use it at once. It belongs to the process that loaded it: it can be neither pickled nor used after a fork.
/// As a context manager it closes itself.
///
/// draft: a second checkpoint with the same tokens, or the same name again for the same weights, that drafts for SimSD. Its tokens must be
/// those of the model, which is checked. draft_device: where it runs; None is the model's device.
/// device: "cpu", "cuda", "cuda:N" or "auto" (CUDA if this build and this machine have it).
/// dtype: How the weights are held: "auto" (on a CPU bf16 where they are stored so, which changes no result, and else f32; elsewhere
///     as stored), "f32", "bf16", "f16" (not on a CPU), or rounded as they are read: "int8", "int4" (groups of 32), "int4-128".
/// threads: on the CPU; None is as many as the process may use. The result does not depend on it.
/// max_model_len: the longest prompt and answer together; None is the checkpoint's, which is also the most.
/// mask_token_id, block_length, stop_token_ids: None is what the checkpoint or its family says (see dlmrs.inspect).
/// backend: "kernels" (this engine's own, CPU only), "plain" (Candle's operations) or "auto".
#[pyclass(frozen, weakref, module = "dlmrs", name = "LLM")]
pub(crate) struct Llm {
    name: String,
    loaded: Mutex<Option<Arc<Loaded>>>,
}

impl Llm {
    fn loaded(&self) -> Result<Arc<Loaded>> {
        let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.clone().ok_or_else(|| Failure::Closed(format!("this LLM ({}) was closed; make a new one", self.name)))
    }

    /// The model, unless it was closed.
    fn open(&self) -> Result<Arc<dlmrs::Llm>> {
        Ok(self.loaded()?.llm().clone())
    }

    /// What computes, if it can.
    fn working(&self) -> Result<Arc<Loaded>> {
        let loaded = self.loaded()?;
        if loaded.llm().model().team().forked() {
            let message = "was loaded by another process, and its threads did not survive the fork; load it in this process";
            return Err(Failure::Closed(format!("this LLM ({}) {message}", self.name)));
        }
        Ok(loaded)
    }

    /// The model, if it can compute.
    fn ready(&self) -> Result<Arc<dlmrs::Llm>> {
        Ok(self.working()?.llm().clone())
    }
}

/// One of several words; left out it is "auto".
fn choice(name: &str, word: Option<&Bound<'_, PyAny>>) -> Result<String> {
    word.map_or_else(|| Ok("auto".to_owned()), |word| value::text(name, word))
}

#[pymethods]
impl Llm {
    #[new]
    #[pyo3(
        signature = (model, *, draft=None, device=None, draft_device=None, dtype=None, threads=None, max_model_len=None, mask_token_id=None, block_length=None, stop_token_ids=None, backend=None),
        text_signature = "(model, *, draft=None, device='auto', draft_device=None, dtype='auto', threads=None, max_model_len=None, mask_token_id=None, \
                          block_length=None, stop_token_ids=None, backend='auto')"
    )]
    #[allow(clippy::too_many_arguments)]
    fn new(
        model: &Bound<'_, PyAny>,
        draft: Option<&Bound<'_, PyAny>>,
        device: Option<&Bound<'_, PyAny>>,
        draft_device: Option<&Bound<'_, PyAny>>,
        dtype: Option<&Bound<'_, PyAny>>,
        threads: Option<&Bound<'_, PyAny>>,
        max_model_len: Option<&Bound<'_, PyAny>>,
        mask_token_id: Option<&Bound<'_, PyAny>>,
        block_length: Option<&Bound<'_, PyAny>>,
        stop_token_ids: Option<&Bound<'_, PyAny>>,
        backend: Option<&Bound<'_, PyAny>>,
    ) -> Result<Self> {
        let name = inspect::path(model)?;
        let overrides = inspect::overrides(max_model_len, mask_token_id, block_length, stop_token_ids)?;
        let options = LoadOptions {
            device: choice("device", device)?,
            dtype: choice("dtype", dtype)?.parse()?,
            backend: choice("backend", backend)?.parse()?,
            threads: value::given(threads, |threads| value::count("threads", threads))?,
        };
        let draft = value::given(draft, inspect::path)?;
        let draft_device = value::given(draft_device, |device| value::text("draft_device", device))?;
        if draft.is_none() && draft_device.is_some() {
            return Err(Error::input("draft_device", "has no meaning without a draft; add one or leave it out").into());
        }
        let draft = draft.map(|draft| match draft_device {
            None if draft == name => DraftSource::Itself,
            device => {
                let device = device.unwrap_or_else(|| options.device.clone());
                DraftSource::Model { name: draft, options: LoadOptions { device, ..options.clone() } }
            }
        });
        let llm = generate::load(model.py(), &name, draft.as_ref(), &options, &overrides)?;
        Ok(Self { name: llm.name().to_owned(), loaded: Mutex::new(Some(Arc::new(Loaded::new(llm)))) })
    }

    /// Completes prompts, all of them together, and gives a list of Output in their order.
    ///
    /// A prompt is a string or a list (or integer array) of token ids; a single one gives a list of one. In a string everything is
    /// text: a control token that it spells stays text. Mask ids among token ids are slots to fill (see Output.canvas_token_ids).
    /// params: one SamplingParams for all, a list of one for each prompt, or None for the defaults.
    /// decoding: a BlockDiffusion, a Canvas, a Lookahead, a SimSD, an S2D2, or None for the model's own way.
    #[pyo3(signature = (prompts, params=None, *, decoding=None))]
    fn generate<'py>(
        &self,
        prompts: &Bound<'py, PyAny>,
        params: Option<&Bound<'py, PyAny>>,
        decoding: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyList>> {
        let (py, llm) = (prompts.py(), self.ready()?);
        let prompts = prompts::read(prompts)?;
        let (params, decoding) = (params::for_each(params, prompts.len())?, decoding::read(decoding)?);
        let requests = || {
            let request =
                |(prompt, params): (prompts::Prompt, _)| Ok(Request { prompt: prompt.ids(&llm)?, params, decoding: decoding.clone() });
            prompts.into_iter().zip(params).map(request).collect()
        };
        let outputs = generate::run(py, &llm, requests)?;
        Ok(PyList::new(py, output::all(py, outputs)?)?)
    }

    /// Answers a conversation, through the checkpoint's chat template: a list of messages (dicts with "role" and "content") gives an
    /// Output, a list of such lists a list of Output.
    ///
    /// What messages spell is text: a control token in one stays text. tools and further keywords go to the template.
    #[pyo3(signature = (messages, params=None, *, decoding=None, tools=None, add_generation_prompt=true, **template_options))]
    fn chat<'py>(
        &self,
        messages: &Bound<'py, PyAny>,
        params: Option<&Bound<'py, PyAny>>,
        decoding: Option<&Bound<'py, PyAny>>,
        tools: Option<&Bound<'py, PyAny>>,
        add_generation_prompt: bool,
        template_options: Option<&Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, PyAny>> {
        let (py, llm) = (messages.py(), self.ready()?);
        let (conversations, single) = match Conversations::read(messages)? {
            Conversations::One(conversation) => (vec![conversation], true),
            Conversations::Many(conversations) => (conversations, false),
        };
        let options = chat::options(tools, add_generation_prompt, template_options)?;
        let (params, decoding) = (params::for_each(params, conversations.len())?, decoding::read(decoding)?);
        let requests = || {
            let tokenizer = llm.require_tokenizer()?;
            let request = |(messages, params): (Vec<_>, _)| {
                let prompt = tokenizer.encode_chat(&messages, &options, Specials::AsText)?;
                Ok(Request { prompt, params, decoding: decoding.clone() })
            };
            conversations.into_iter().zip(params).map(request).collect()
        };
        let outputs = output::all(py, generate::run(py, &llm, requests)?)?;
        match outputs.first().filter(|_| single) {
            Some(output) => Ok(output.clone()),
            None => Ok(PyList::new(py, outputs)?.into_any()),
        }
    }

    /// Begins a request and gives its events as they come: Revealed, Committed, and Finished at the end. For a prompt (a string or token
    /// ids) as in generate, or for one conversation (a list of messages) as in chat.
    ///
    /// The Stream is an iterator, an async iterator, and in async code `await` gives its Output. Requests of several streams, whatever
    /// their threads, share each pass. What one does not wait for goes on all the same; dropping or closing the stream ends it.
    #[pyo3(signature = (prompt, params=None, *, decoding=None, tools=None, add_generation_prompt=None, **template_options))]
    #[pyo3(text_signature = "($self, prompt, params=None, *, decoding=None, tools=None, add_generation_prompt=True, **template_options)")]
    fn stream(
        &self,
        prompt: &Bound<'_, PyAny>,
        params: Option<&Bound<'_, PyAny>>,
        decoding: Option<&Bound<'_, PyAny>>,
        tools: Option<&Bound<'_, PyAny>>,
        add_generation_prompt: Option<bool>,
        template_options: Option<&Bound<'_, PyDict>>,
    ) -> Result<Stream> {
        let (py, loaded) = (prompt.py(), self.working()?);
        let prompt = if chat::is_conversation(prompt)? {
            let options = chat::options(tools, add_generation_prompt.unwrap_or(true), template_options)?;
            prompts::Prompt::Chat(chat::conversation("prompt", prompt)?, options)
        } else {
            chat::refuse_options(tools, add_generation_prompt, template_options)?;
            prompts::Prompt::read("prompt", prompt)?
        };
        let (params, decoding) = (params::one(params)?, decoding::read(decoding)?);
        let stream = py.detach(|| {
            let request = Request { prompt: prompt.ids(loaded.llm())?, params, decoding };
            loaded.service()?.submit(request)
        })?;
        Ok(Stream::new(self.name.clone(), stream))
    }

    /// The prompt that `chat` makes of a conversation, as text.
    #[pyo3(signature = (messages, *, tools=None, add_generation_prompt=true, **template_options))]
    fn render_chat(
        &self,
        messages: &Bound<'_, PyAny>,
        tools: Option<&Bound<'_, PyAny>>,
        add_generation_prompt: bool,
        template_options: Option<&Bound<'_, PyDict>>,
    ) -> Result<String> {
        let (py, llm) = (messages.py(), self.open()?);
        let messages = chat::conversation("messages", messages)?;
        let options = chat::options(tools, add_generation_prompt, template_options)?;
        Ok(py.detach(|| llm.require_tokenizer()?.render_chat(&messages, &options))?)
    }

    /// The model's own rows of logits, never shifted: a numpy array of float32, [rows, V].
    ///
    /// positions: rotary positions; None is 0, 1, ... mask: a bool array [R, R], True = the row sees the column; None is the family's
    /// own visibility. rows: which rows to give back, in this order; None is all.
    #[pyo3(signature = (token_ids, *, positions=None, mask=None, rows=None))]
    fn forward<'py>(
        &self,
        token_ids: &Bound<'py, PyAny>,
        positions: Option<&Bound<'py, PyAny>>,
        mask: Option<&Bound<'py, PyAny>>,
        rows: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyArray2<f32>>> {
        let llm = self.ready()?;
        let arguments = Forward {
            token_ids: value::ids("token_ids", token_ids)?,
            positions: value::given(positions, |positions| value::ids("positions", positions))?,
            mask: value::given(mask, forward::mask)?,
            rows: value::given(rows, |rows| value::ids("rows", rows))?,
        };
        arguments.run(token_ids.py(), &llm)
    }

    /// How much of their attention the rows `queries` give to the tokens `keys`: a numpy array of float32, [queries, keys], mean over layers
    /// and heads. For looking at a model; it is slow.
    ///
    /// positions and mask as for forward. A row's shares of all tokens that it sees add up to 1.
    #[pyo3(signature = (token_ids, queries, keys, *, positions=None, mask=None))]
    fn attention_mass<'py>(
        &self,
        token_ids: &Bound<'py, PyAny>,
        queries: &Bound<'py, PyAny>,
        keys: &Bound<'py, PyAny>,
        positions: Option<&Bound<'py, PyAny>>,
        mask: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyArray2<f32>>> {
        let llm = self.ready()?;
        let arguments = Forward {
            token_ids: value::ids("token_ids", token_ids)?,
            positions: value::given(positions, |positions| value::ids("positions", positions))?,
            mask: value::given(mask, forward::mask)?,
            rows: None,
        };
        arguments.attention_mass(token_ids.py(), &llm, value::ids("queries", queries)?, value::ids("keys", keys)?)
    }

    /// The token ids of a text; nothing is added at either end.
    ///
    /// parse_specials: whether a control token that the text spells becomes that token. Off, it stays text.
    #[pyo3(signature = (text, *, parse_specials=false))]
    fn encode(&self, text: &Bound<'_, PyAny>, parse_specials: bool) -> Result<Vec<u32>> {
        let (py, llm, text) = (text.py(), self.open()?, value::text("text", text)?);
        let specials = if parse_specials { Specials::Parse } else { Specials::AsText };
        Ok(py.detach(|| llm.require_tokenizer()?.encode(&text, specials))?)
    }

    /// The text of token ids. skip_special: whether special tokens are left out.
    #[pyo3(signature = (ids, *, skip_special=true))]
    fn decode(&self, ids: &Bound<'_, PyAny>, skip_special: bool) -> Result<String> {
        let (py, llm, ids) = (ids.py(), self.open()?, value::ids("ids", ids)?);
        Ok(py.detach(|| llm.require_tokenizer()?.decode(&ids, skip_special))?)
    }

    /// Frees the memory. Calls that are running in other threads end first; later ones, and streams that have not ended, raise
    /// ClosedError. Closing twice is allowed.
    fn close(&self, py: Python<'_>) {
        let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(loaded));
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// The folder's last name, or the bundled model's.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The name of the draft model; None without one.
    #[getter]
    fn draft(&self) -> Result<Option<String>> {
        Ok(self.open()?.draft_name().map(str::to_owned))
    }

    /// The family, such as "SDAR", "LLaDA" or "Dream".
    #[getter]
    fn family(&self) -> Result<&'static str> {
        Ok(self.open()?.config().family.name())
    }

    /// Who sees whom in the family's own forward: "block-causal" or "bidirectional".
    #[getter]
    fn attention(&self) -> Result<&'static str> {
        Ok(self.open()?.config().attention.name())
    }

    /// Whether the prediction for slot i stands in row i - 1 of `forward` (slot 0's in row 0).
    #[getter]
    fn shift(&self) -> Result<bool> {
        Ok(self.open()?.config().shift)
    }

    /// How the weights are held: "f32", "bf16", "f16", "int8", "int4" or "int4-128".
    #[getter]
    fn dtype(&self) -> Result<&'static str> {
        Ok(self.open()?.model().weights())
    }

    /// V, the columns of `forward`.
    #[getter]
    fn vocab_size(&self) -> Result<usize> {
        Ok(self.open()?.config().vocab)
    }

    /// The token that marks an undecided slot.
    #[getter]
    fn mask_token_id(&self) -> Result<u32> {
        Ok(self.open()?.facts().mask_token_id)
    }

    /// Slots decided together; None for a family without a grid of blocks.
    #[getter]
    fn block_length(&self) -> Result<Option<usize>> {
        Ok(self.open()?.facts().block_length)
    }

    /// The tokens that end an answer.
    #[getter]
    fn stop_token_ids(&self) -> Result<Vec<u32>> {
        Ok(self.open()?.facts().stop_token_ids.clone())
    }

    /// The longest prompt and answer together.
    #[getter]
    fn max_model_len(&self) -> Result<usize> {
        Ok(self.open()?.facts().max_model_len)
    }

    /// Where the weights are: "cpu" or "cuda:N".
    #[getter]
    fn device(&self) -> Result<String> {
        Ok(device::name(self.open()?.model().device()))
    }

    /// How many threads share the work on the CPU.
    #[getter]
    fn threads(&self) -> Result<usize> {
        Ok(self.open()?.model().team().threads())
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*args))]
    fn __exit__(&self, args: &Bound<'_, PyTuple>) {
        self.close(args.py());
    }

    fn __reduce__(&self) -> PyResult<()> {
        let message = format!(
            "an LLM cannot be pickled or copied; send its name to the other process and load it there, as in dlmrs.LLM({:?})",
            self.name
        );
        Err(PyTypeError::new_err(message))
    }

    fn __repr__(&self) -> String {
        let Ok(llm) = self.open() else {
            return format!("<LLM {:?}, closed>", self.name);
        };
        let block = llm.facts().block_length.map_or_else(|| "None".to_owned(), |length| length.to_string());
        format!(
            "LLM({:?}, family={:?}, vocab_size={}, block_length={block}, max_model_len={}, device={:?}, threads={})",
            self.name,
            llm.config().family.name(),
            llm.config().vocab,
            llm.facts().max_model_len,
            device::name(llm.model().device()),
            llm.model().team().threads()
        )
    }
}
