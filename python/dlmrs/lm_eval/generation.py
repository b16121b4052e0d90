"""Generation settings as tasks of the harness write them, and what they are here."""

import logging
from collections.abc import Mapping
from functools import cache
from typing import Any

from dlmrs.errors import InputError
from dlmrs.params import SamplingParams

_LENGTHS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
_SAMPLING = ("top_p", "top_k", "repetition_penalty", "seed")
_KNOWN = ("until", "do_sample", "temperature", *_SAMPLING, *_LENGTHS)

_logger = logging.getLogger("dlmrs.lm_eval")


def sampling_params(gen_kwargs: Mapping[str, Any], *, max_tokens: int, seed: int) -> SamplingParams:
    """The settings of a request.

    Args:
        gen_kwargs: ``until`` (stop strings), ``do_sample`` and ``temperature``, ``top_p``, ``top_k``,
            ``repetition_penalty``, ``seed``, and ``max_gen_toks`` under the names that the harness allows for it. An
            unknown one is warned about by its name, once, and ignored: tasks carry settings of other libraries.
        max_tokens: Where the task gives no length.
        seed: Where the task gives none.
    """
    for name in gen_kwargs:
        if name not in _KNOWN:
            _warn_of(name)
    given = {name: gen_kwargs[name] for name in _SAMPLING if gen_kwargs.get(name) is not None}
    lengths = [gen_kwargs[name] for name in _LENGTHS if gen_kwargs.get(name) is not None]
    return SamplingParams(
        max_tokens=lengths[0] if lengths else max_tokens,
        temperature=_temperature(gen_kwargs.get("do_sample"), gen_kwargs.get("temperature")),
        stop=_until(gen_kwargs.get("until")),
        **{"seed": seed, **given},
    )


def _temperature(do_sample: Any, temperature: Any) -> Any:
    """Greedy if so asked, or if nothing is said; sampling without a temperature is at 1."""
    if do_sample is False:
        return 0.0
    if temperature is None:
        return 1.0 if do_sample else 0.0
    return temperature


def _until(until: Any) -> list[str]:
    """The stop strings, without empty ones, which tasks use for none."""
    strings = [until] if isinstance(until, str) else list(until or ())
    for string in strings:
        if not isinstance(string, str):
            raise InputError(f"until: holds {string!r}; strings are needed")
    return [string for string in strings if string]


@cache
def _warn_of(name: str) -> None:
    _logger.warning("generation_kwargs: %s is unknown here and was ignored; known are %s", name, ", ".join(_KNOWN))
