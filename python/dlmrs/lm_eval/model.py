"""The model that the harness sees."""

import dataclasses
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Literal

from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window, simple_parse_args_string
from tqdm import tqdm
from typing_extensions import Self

from dlmrs._dlmrs import LLM, inspect
from dlmrs.decoding import BlockDiffusion, Canvas, Decoding, SubBlockDiffusion
from dlmrs.errors import InputError, TemplateError
from dlmrs.likelihood import Likelihood
from dlmrs.lm_eval.generation import sampling_params
from dlmrs.params import SamplingParams

_AUTO_BATCH = 16
"""Requests that run together where the harness asks for ``auto``."""

_NO_DEVICE = "cuda:0"
"""The device that the harness's command line asks for where the user asks for none. ``auto`` finds it, if it is there."""

_NOTHING = -1
"""Stands where the harness wants a token before the first one of a text. No canvas needs it, so it is dropped."""

_PROBE = (
    {"role": "user", "content": "A question."},
    {"role": "assistant", "content": "An answer."},
    {"role": "user", "content": "Another question."},
)
"""The conversation whose rendering tells templates apart."""

_logger = logging.getLogger("dlmrs.lm_eval")

_Tokenized = tuple[tuple[str, str], list[int], list[int]]


@register_model("dlmrs")
class DlmrsLM(TemplateLM):
    """A diffusion language model, for the harness.

    Control tokens in a text, such as those of a chat template, become ids, as with the harness's other models; the
    mask's text stays text, as everywhere in dlmrs.

    Args:
        model: A bundled model by its name, or the folder of a checkpoint.
        device, dtype, threads, mask_token_id: As :class:`dlmrs.LLM` has them.
        block_length: Slots decided together. For a block-causal model (SDAR) likelihoods use it too.
        max_length: Tokens that a context and what follows it may have together; None is the checkpoint's limit.
            Longer contexts lose their beginning, with a warning.
        max_gen_toks: Tokens to generate where a task does not say. A canvas (LLaDA, Dream) is exactly this long.
        batch_size: Requests that run together; ``auto`` is 16. It changes no result. One that is given here counts
            before the harness's own option, which is 1 if it is not given.
        max_batch_size: An upper limit for ``auto``.
        seed: For requests that sample and name no seed. The n-th repeat of a request adds n - 1 to it.
        loglikelihood, mc_num, mc_seed: ``method``, ``mc_num`` and ``mc_seed`` of :class:`dlmrs.likelihood.Likelihood`.
        decoding: The other settings of :class:`dlmrs.BlockDiffusion` for a block-causal model (of
            :class:`dlmrs.SubBlockDiffusion` where predictions are shifted), of :class:`dlmrs.Canvas` for a bidirectional
            one: ``steps``, ``threshold``, ``strategy`` and so on.
    """

    def __init__(
        self,
        model: str | PathLike[str],
        *,
        device: str = "auto",
        dtype: str = "auto",
        threads: int | None = None,
        mask_token_id: int | None = None,
        block_length: int | None = None,
        max_length: int | None = None,
        max_gen_toks: int = 256,
        batch_size: int | str = 1,
        max_batch_size: int | None = None,
        seed: int = 0,
        loglikelihood: Literal["auto", "monte_carlo", "left_to_right"] = "auto",
        mc_num: int = 128,
        mc_seed: int = 0,
        **decoding: Any,
    ) -> None:
        super().__init__()
        self.batch_size = _batch_size(batch_size, max_batch_size)
        report = inspect(model, mask_token_id=mask_token_id)
        blocks = report["attention"] == "block-causal"
        of_blocks = SubBlockDiffusion if report["shift"] else BlockDiffusion
        self.decoding = _decoding(of_blocks if blocks else Canvas, {"block_length": block_length, **decoding})
        self.llm = LLM(
            model,
            device=device,
            dtype=dtype,
            threads=threads,
            max_model_len=max_length,
            mask_token_id=mask_token_id,
            block_length=block_length if blocks else None,
        )
        self.likelihood = Likelihood(self.llm, method=loglikelihood, mc_num=mc_num, mc_seed=mc_seed)
        self._max_gen_toks = max_gen_toks
        self._seed = seed
        self._name = str(model)
        self._mask_text = self.llm.decode([self.llm.mask_token_id], skip_special=False)

    @classmethod
    def create_from_arg_string(cls, arg_string: str, additional_config: dict[str, Any] | None = None) -> Self:
        """The model from ``name=value,name=value``, as :meth:`create_from_arg_obj` does it."""
        return cls.create_from_arg_obj(simple_parse_args_string(arg_string), additional_config)

    @classmethod
    def create_from_arg_obj(cls, arg_dict: dict[str, Any], additional_config: dict[str, Any] | None = None) -> Self:
        """The model from its arguments, which count before the harness's own options (batch size, device)."""
        if "model" not in arg_dict:
            raise InputError("model_args: has no model; give model=NAME or model=FOLDER")
        options = {name: value for name, value in (additional_config or {}).items() if value is not None}
        if options.get("device") == _NO_DEVICE:
            del options["device"]
        return cls(**{**options, **arg_dict})

    @property
    def max_length(self) -> int:
        """Tokens that a context and what follows it may have together."""
        return self.llm.max_model_len

    @property
    def max_gen_toks(self) -> int:
        """Tokens to generate where a task does not say."""
        return self._max_gen_toks

    @property
    def eot_token_id(self) -> int:
        """The lowest id that ends a text."""
        ids = self.llm.stop_token_ids
        if not ids:
            raise InputError(
                f"model: {self._name} has no stop ids; its config.json or generation_config.json gives them"
            )
        return ids[0]

    @property
    def tokenizer_name(self) -> str:
        """What the harness calls the tokenizer in the keys of its caches."""
        return "dlmrs__" + self._name.replace("/", "__")

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        """What tells this model's chat template from others: a short conversation that it rendered."""
        if not chat_template:
            return None
        if isinstance(chat_template, str):
            raise InputError(f"chat_template: is {chat_template!r}, but a checkpoint has one template here; use True")
        return self.llm.render_chat(_PROBE)

    def apply_chat_template(self, chat_history: Sequence[Mapping[str, Any]], add_generation_prompt: bool = True) -> str:
        """The conversation as the checkpoint's template writes it; without a generation prompt the last message is
        left open, for the model to go on with."""
        rendered = self.llm.render_chat(chat_history, add_generation_prompt=add_generation_prompt)
        if add_generation_prompt:
            return rendered
        last = str(chat_history[-1]["content"]).strip()
        place = rendered.rfind(last)
        if place < 0:
            raise TemplateError(
                f"the chat template does not write the last message as it is ({last[:40]!r}), so it cannot be left open"
            )
        return rendered[: place + len(last)]

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **_: Any) -> list[int]:
        """The ids of a text: control tokens as such, but for the mask, whose text stays text."""
        ids: list[int] = []
        for part, text in enumerate(string.split(self._mask_text)):
            if part:
                ids += self.llm.encode(self._mask_text)
            if text:
                ids += self.llm.encode(text, parse_specials=True)
        return ids

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        """Generates a text for each (context, settings), cut before the first of its stop strings."""
        asked = [request.args for request in requests]
        settings = self._settings(asked)
        prompts = self._cut(
            [self.tok_encode(context) for context, _ in asked], [self._room(params) for params in settings]
        )
        texts = [""] * len(asked)
        with self._progress(len(asked), "generate_until", disable_tqdm) as progress:
            for batch in self._batches([len(prompt) for prompt in prompts]):
                outputs = self.llm.generate(
                    [prompts[i] for i in batch], [settings[i] for i in batch], decoding=self.decoding
                )
                for i, output in zip(batch, outputs, strict=True):
                    texts[i] = output.text
                    self.cache_hook.add_partial("generate_until", asked[i], output.text)
                progress.update(len(batch))
        return texts

    def loglikelihood(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """log p(continuation | context) for each pair, and whether every slot's best token was the continuation's.

        A canvas needs no first token, so all of the continuation is scored even where the context is empty.
        """
        tokenized = []
        for context, continuation in (request.args for request in requests):
            pair = self._encode_pair(context, continuation) if context else ([], self.tok_encode(continuation))
            tokenized.append(((context, continuation), *pair))
        return self._loglikelihood_tokens(tokenized, disable_tqdm=disable_tqdm)

    def _loglikelihood_tokens(
        self, requests: Sequence[_Tokenized], disable_tqdm: bool = False, **__: Any
    ) -> list[tuple[float, bool]]:
        rooms = [self.likelihood.max_tokens - len(continuation) for _, _, continuation in requests]
        for room, (_, _, continuation) in zip(rooms, requests, strict=True):
            if room < 0:
                raise InputError(
                    f"continuation: has {len(continuation)} tokens, but the model takes at most {self.likelihood.max_tokens}"
                )
        contexts = self._cut([context for _, context, _ in requests], rooms)
        pairs = [(context, continuation) for context, (_, _, continuation) in zip(contexts, requests, strict=True)]
        found = self._score(pairs, "loglikelihood", disable_tqdm)
        for (texts, _, _), result in zip(requests, found, strict=True):
            self.cache_hook.add_partial("loglikelihood", texts, result)
        return found

    def loglikelihood_rolling(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[float]:
        """log p of whole texts. One that is longer than the model takes is scored in windows, as the harness cuts them:
        each token once, behind one token of context, the last window behind as many as fit."""
        windows: list[tuple[list[int], list[int]]] = []
        owners: list[int] = []
        size = self.likelihood.max_tokens - 1
        for owner, (text,) in enumerate(request.args for request in requests):
            for window in get_rolling_token_windows(self.tok_encode(text), _NOTHING, size, 1):
                context, continuation = make_disjoint_window(window)
                windows.append(([token for token in context if token != _NOTHING], continuation))
                owners.append(owner)
        totals = [0.0] * len(requests)
        for owner, (log_p, _) in zip(owners, self._score(windows, "loglikelihood_rolling", disable_tqdm), strict=True):
            totals[owner] += log_p
        for request, total in zip(requests, totals, strict=True):
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, total)
        return totals

    def _score(
        self, pairs: Sequence[tuple[list[int], list[int]]], what: str, disable_tqdm: bool
    ) -> list[tuple[float, bool]]:
        found = [(0.0, True)] * len(pairs)
        with self._progress(len(pairs), what, disable_tqdm) as progress:
            for batch in self._batches([len(context) + len(answer) for context, answer in pairs]):
                for i, score in zip(batch, self.likelihood.score([pairs[i] for i in batch]), strict=True):
                    found[i] = (score.log_probability, score.is_greedy)
                progress.update(len(batch))
        return found

    def _settings(self, asked: Sequence[tuple[str, Mapping[str, Any]]]) -> list[SamplingParams]:
        """The settings of each request. Repeats of one differ in their seeds, or each would be the same text."""
        repeats: Counter[tuple[str, str]] = Counter()
        settings = []
        for context, gen_kwargs in asked:
            params = sampling_params(gen_kwargs, max_tokens=self._max_gen_toks, seed=self._seed)
            request = (context, repr(params))
            settings.append(dataclasses.replace(params, seed=((params.seed or 0) + repeats[request]) % 2**64))
            repeats[request] += 1
        return settings

    def _room(self, params: SamplingParams) -> int:
        """How long a prompt may be."""
        room = self.max_length - params.max_tokens
        if room < 1:
            raise InputError(
                f"max_gen_toks: is {params.max_tokens}, which leaves no room for a prompt: the model takes {self.max_length} tokens"
            )
        return room

    def _cut(self, contexts: Sequence[list[int]], rooms: Sequence[int]) -> list[list[int]]:
        """The contexts without the beginnings for which there is no room."""
        cut = [context[max(len(context) - room, 0) :] for context, room in zip(contexts, rooms, strict=True)]
        shortened = sum(len(new) < len(old) for new, old in zip(cut, contexts, strict=True))
        if shortened:
            _logger.warning(
                "%d of %d contexts do not fit the model's %d tokens and were cut from the left",
                shortened,
                len(contexts),
                self.max_length,
            )
        return cut

    def _batches(self, lengths: Sequence[int]) -> list[list[int]]:
        """Indices of requests that run together, the longest first, so that what does not fit in memory fails early."""
        order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
        return [order[i : i + self.batch_size] for i in range(0, len(order), self.batch_size)]

    def _progress(self, total: int, what: str, disable_tqdm: bool) -> Any:
        return tqdm(total=total, desc=f"Running {what} requests", disable=disable_tqdm or self.rank != 0)


def _batch_size(given: int | str, limit: int | None) -> int:
    text = str(given)
    size = min(_AUTO_BATCH, limit or _AUTO_BATCH) if text.partition(":")[0] == "auto" else given
    if isinstance(size, str):
        size = int(size) if size.isdecimal() else 0
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise InputError(f"batch_size: is {given!r}; auto or a whole number of at least 1 is needed")
    return size


def _decoding(method: type[BlockDiffusion | SubBlockDiffusion | Canvas], settings: Mapping[str, Any]) -> Decoding:
    """The settings as the family's method, whose names are the only ones allowed."""
    known = [field.name for field in dataclasses.fields(method)]
    for name in settings:
        if name not in known:
            raise InputError(
                f"model_args: {name} is unknown for this model, which decodes by {method.__name__}; use {', '.join(known)}"
            )
    return method(**settings)
