"""SamplingParams, BlockDiffusion and Canvas: checked when they are made, frozen, keyword only."""

import dataclasses
import math
import pickle
from typing import Any

import dlmrs
import numpy as np
import pytest

CLASSES = [dlmrs.SamplingParams, dlmrs.BlockDiffusion, dlmrs.Canvas]


@pytest.mark.parametrize("cls", CLASSES)
def test_they_are_plain_frozen_values(cls: Any) -> None:
    value = cls()
    assert value == cls() and hash(value) == hash(cls()) and pickle.loads(pickle.dumps(value)) == value
    assert repr(value).startswith(cls.__name__)
    field = dataclasses.fields(cls)[0].name
    assert dataclasses.replace(value, **{field: 8}) == cls(**{field: 8})
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, field, 8)
    with pytest.raises(TypeError):
        cls(8)
    with pytest.raises(TypeError, match="nonsense"):
        cls(nonsense=1)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("temperature", "hot", r"temperature: is 'hot' \(str\); a number is needed"),
        ("temperature", None, "temperature: is None"),
        ("temperature", True, "temperature: is True"),
        ("temperature", -0.1, "temperature: is -0.1; 0 .greedy. or a number of at least 0.000001"),
        ("temperature", math.nan, "temperature: is NaN"),
        ("temperature", math.inf, "temperature: is inf"),
        ("max_tokens", -1, r"max_tokens: is -1 \(int\); a whole number from 0"),
        ("max_tokens", 1.5, r"max_tokens: is 1.5 \(float\); a whole number"),
        ("max_tokens", True, "max_tokens: is True"),
        ("max_tokens", 10**30, "max_tokens: is 1000"),
        ("min_tokens", 257, r"min_tokens: is 257, more than max_tokens \(256\)"),
        ("top_p", 0.0, "top_p: is 0; a number above 0"),
        ("top_p", 1.1, "top_p: is 1.1"),
        ("top_p", math.nan, "top_p: is NaN"),
        ("top_k", -1, "top_k: is -1"),
        ("seed", -1, "seed: is -1"),
        ("seed", 2**64, "seed: is 18446744073709551616"),
        ("seed", "x", "seed: is 'x'"),
        ("stop", [""], "stop: holds an empty string"),
        ("stop", 5, "stop: is 5"),
        ("stop", ["a", 5], r"stop\[1\]: is 5"),
        ("stop_token_ids", [-1], r"stop_token_ids\[0\]: is -1"),
        ("stop_token_ids", 5, "stop_token_ids: is 5 .* a list of whole numbers"),
        ("stop_token_ids", "5", "stop_token_ids: is '5'"),
        ("ignore_eos", "yes", "ignore_eos: is 'yes' .* True or False is needed"),
        ("repetition_penalty", 0.0, "repetition_penalty: is 0"),
        ("logit_bias", [1], r"logit_bias: is \[1\]"),
        ("logit_bias", {"a": 1.0}, "logit_bias: is 'a'"),
        ("logit_bias", {1: "a"}, "logit_bias: is 'a'"),
        ("logit_bias", {1: math.nan}, "logit_bias: is NaN for token 1"),
        ("banned_token_ids", [2.5], r"banned_token_ids\[0\]: is 2.5"),
    ],
)
def test_bad_sampling_params(field: str, value: Any, message: str) -> None:
    with pytest.raises(dlmrs.InputError, match=message):
        dlmrs.SamplingParams(**{field: value})


@pytest.mark.parametrize(
    ("cls", "field", "value", "message"),
    [
        (dlmrs.BlockDiffusion, "block_length", 0, "block_length: is 0; at least 1"),
        (dlmrs.BlockDiffusion, "block_length", 4.0, "block_length: is 4.0"),
        (dlmrs.BlockDiffusion, "steps", 0, "steps: is 0"),
        (
            dlmrs.BlockDiffusion,
            "strategy",
            "random",
            "strategy: 'random' is unknown for block diffusion; use sequential",
        ),
        (dlmrs.BlockDiffusion, "strategy", None, "strategy: is None"),
        (dlmrs.BlockDiffusion, "threshold", math.nan, "threshold: is NaN"),
        (dlmrs.BlockDiffusion, "entropy_bound", -1, "entropy_bound: is -1"),
        (dlmrs.Canvas, "strategy", "margin", "strategy: 'margin' is unknown for a canvas"),
        (dlmrs.Canvas, "cfg_scale", -1, "cfg_scale: is -1"),
        (dlmrs.Canvas, "cfg_scale", None, "cfg_scale: is None"),
        (dlmrs.Canvas, "alg", "magic", "alg: 'magic' is unknown"),
        (dlmrs.Canvas, "eps", 0, "eps: is 0"),
        (dlmrs.Canvas, "alg_temp", math.nan, "alg_temp: is NaN"),
        (dlmrs.Canvas, "logits_eos_inf", 1, "logits_eos_inf: is 1"),
    ],
)
def test_bad_decoding(cls: Any, field: str, value: Any, message: str) -> None:
    with pytest.raises(dlmrs.InputError, match=message):
        cls(**{field: value})


def test_legal_extremes() -> None:
    for threshold in (-1.0, 0.0, 1.0, 2.0, 1):
        dlmrs.BlockDiffusion(threshold=threshold)
        dlmrs.Canvas(threshold=threshold)
    dlmrs.SamplingParams(max_tokens=0, top_p=1, top_k=10**6, seed=2**64 - 1, logit_bias={1: -math.inf, 2: 3})
    array: Any = np.array([1, 2])
    dlmrs.SamplingParams(stop="a", stop_token_ids=range(3), banned_token_ids=array)
    dlmrs.SamplingParams(temperature=np.float32(0.5), max_tokens=np.int64(5), stop=["a", "b"])


def test_ids_beyond_the_vocabulary_are_refused_by_the_model(sdar: dlmrs.LLM) -> None:
    for field in ("stop_token_ids", "banned_token_ids"):
        settings: Any = {field: [640]}
        with pytest.raises(dlmrs.InputError, match=f"{field}: holds the id 640"):
            sdar.generate("a", dlmrs.SamplingParams(**settings))
    with pytest.raises(dlmrs.InputError, match="logit_bias: holds the id 640"):
        sdar.generate("a", dlmrs.SamplingParams(logit_bias={640: 1.0}))


def test_a_setting_changed_behind_its_back_is_checked_again(sdar: dlmrs.LLM) -> None:
    ids = [1]
    settings = dlmrs.SamplingParams(stop_token_ids=ids)
    ids.append(-1)
    with pytest.raises(dlmrs.InputError, match=r"stop_token_ids\[1\]: is -1"):
        sdar.generate("a", settings)
