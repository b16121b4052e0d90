"""SamplingParams and the methods of decoding: checked when they are made, frozen, keyword only."""

import dataclasses
import math
import pickle
from typing import Any

import dlmrs
import numpy as np
import pytest

CLASSES = [
    dlmrs.SamplingParams,
    dlmrs.BlockDiffusion,
    dlmrs.Canvas,
    dlmrs.SubBlockDiffusion,
    dlmrs.SuffixDropout,
    dlmrs.WindowTail,
    dlmrs.Spotlight,
]


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
        (dlmrs.SubBlockDiffusion, "block_length", 0, "block_length: is 0; at least 1"),
        (dlmrs.SubBlockDiffusion, "sub_block", 0, "sub_block: is 0; at least 1"),
        (dlmrs.SubBlockDiffusion, "sub_block", 4.5, r"sub_block: is 4.5 \(float\)"),
        (dlmrs.SubBlockDiffusion, "threshold", 1.01, "threshold: is 1.01; a number from 0 .* to 1"),
        (dlmrs.SubBlockDiffusion, "threshold", -0.5, "threshold: is -0.5; a number from 0"),
        (dlmrs.SubBlockDiffusion, "threshold", math.nan, "threshold: is NaN; a number from 0"),
        (dlmrs.SubBlockDiffusion, "sub_block_cache", "yes", "sub_block_cache: is 'yes' .* True or False"),
        (dlmrs.BlockDiffusion, "editing_threshold", -0.1, "editing_threshold: is -0.1; a number from 0 to below 1"),
        (dlmrs.BlockDiffusion, "editing_threshold", 1, "editing_threshold: is 1; a number from 0 to below 1"),
        (dlmrs.BlockDiffusion, "editing_threshold", math.nan, "editing_threshold: is NaN"),
        (dlmrs.BlockDiffusion, "editing_threshold", None, 'editing_threshold: is None .*; a number'),
        (dlmrs.BlockDiffusion, "editing_threshold", "on", 'editing_threshold: is .on. .*; a number or "off" is needed'),
        (dlmrs.BlockDiffusion, "max_post_steps", 3, "max_post_steps: has an effect with an editing_threshold only"),
        (dlmrs.Canvas, "strategy", "margin", "strategy: 'margin' is unknown for a canvas"),
        (dlmrs.Canvas, "cfg_scale", -1, "cfg_scale: is -1"),
        (dlmrs.Canvas, "cfg_scale", None, "cfg_scale: is None"),
        (dlmrs.Canvas, "alg", "magic", "alg: 'magic' is unknown"),
        (dlmrs.Canvas, "eps", 0, "eps: is 0"),
        (dlmrs.Canvas, "alg_temp", math.nan, "alg_temp: is NaN"),
        (dlmrs.Canvas, "logits_eos_inf", 1, "logits_eos_inf: is 1"),
        (dlmrs.Canvas, "cache", "both", "cache: 'both' is unknown; use none, prefix or dual"),
        (dlmrs.Canvas, "cache", None, "cache: is None"),
        (dlmrs.Canvas, "refresh", 0, "refresh: is 0; at least 1 is needed"),
        (dlmrs.Canvas, "refresh", "never", "refresh: 'never' is unknown; use block, step, or a number"),
        (dlmrs.Canvas, "refresh", 1.5, "refresh: is 1.5"),
        (dlmrs.Canvas, "early_stop", "late", "early_stop: 'late' is unknown"),
        (dlmrs.Canvas, "factor", -1, "factor: is -1; a finite number of at least 0"),
        (dlmrs.Canvas, "max_reveals", 0, "max_reveals: is 0"),
        (dlmrs.Canvas, "suffix", "normal", "suffix: 'normal' is unknown; use off, keep_all"),
        (dlmrs.Canvas, "suffix", "gaussian:window=0", "window: is 0"),
        (dlmrs.Canvas, "suffix", 5, r"suffix: is 5 \(int\); a SuffixDropout, a WindowTail, a Spotlight, a policy's name"),
        (dlmrs.Canvas, "suffix", [[3, 2]], "suffix: the places of block 0 do not rise"),
        (dlmrs.Canvas, "suffix", [[-1]], r"suffix\[0\]\[0\]: is -1"),
        (dlmrs.SuffixDropout, "window", 0, "window: is 0; at least 1 is needed"),
        (dlmrs.SuffixDropout, "window", -1, "window: is -1"),
        (dlmrs.SuffixDropout, "k", 0, "k: is 0; a number above 0"),
        (dlmrs.SuffixDropout, "k", -3, "k: is -3; a number above 0"),
        (dlmrs.SuffixDropout, "a", -0.5, "a: is -0.5; a finite number of at least 0"),
        (dlmrs.SuffixDropout, "a", math.inf, "a: is inf; a finite number"),
        (dlmrs.SuffixDropout, "a", math.nan, "a: is NaN; a finite number"),
        (dlmrs.SuffixDropout, "kind", "normal", "kind: 'normal' is unknown; use gaussian, uniform"),
        (dlmrs.WindowTail, "window", 0, "window: is 0"),
        (dlmrs.WindowTail, "tail", -1, "tail: is -1"),
        (dlmrs.Spotlight, "count", 0, "count: is 0"),
    ],
)
def test_bad_decoding(cls: Any, field: str, value: Any, message: str) -> None:
    with pytest.raises(dlmrs.InputError, match=message):
        cls(**{field: value})


def test_bad_sub_blocks(load: Any, sdar: dlmrs.LLM) -> None:
    with pytest.raises(dlmrs.InputError, match="sub_block: is 8, which does not divide the block length 12"):
        dlmrs.SubBlockDiffusion(block_length=12, sub_block=8)
    fast = load("fast_dllm_v2")
    for settings, message in [
        ({"sub_block": 3}, "sub_block: is 3, which does not divide the block length 8"),
        ({"sub_block": 1, "threshold": 0.5}, "threshold: has no effect with sub-blocks of one slot"),
        ({"sub_block_cache": True}, "sub_block_cache: has an effect only where"),
    ]:
        with pytest.raises(dlmrs.InputError, match=message):
            fast.generate([1, 2], decoding=dlmrs.SubBlockDiffusion(**settings))
    with pytest.raises(dlmrs.InputError, match="decoding: is BlockDiffusion, .* shifted by one; use SubBlockDiffusion"):
        fast.generate([1, 2], decoding=dlmrs.BlockDiffusion())
    with pytest.raises(dlmrs.InputError, match="decoding: is SubBlockDiffusion, .* not shifted; use BlockDiffusion"):
        sdar.generate("a", decoding=dlmrs.SubBlockDiffusion())


def test_bad_suffix_dropout() -> None:
    with pytest.raises(dlmrs.InputError, match="budget: is 33, more than the window of 32 holds"):
        dlmrs.SuffixDropout(kind="uniform", window=32, budget=33)
    with pytest.raises(dlmrs.InputError, match="budget: settles a"):
        dlmrs.SuffixDropout(a=1.0, budget=3)
    with pytest.raises(dlmrs.InputError, match="preset: 'gpt' is unknown; use one of llada-instruct-gsm8k"):
        dlmrs.SuffixDropout.preset("gpt")


def test_presets_and_probabilities() -> None:
    assert dlmrs.SuffixDropout.preset("llada-1.5-gsm8k") == dlmrs.SuffixDropout(window=256, k=3.0, a=1.6)
    assert len(dlmrs.SuffixDropout.presets()) == 15
    likely = dlmrs.SuffixDropout(window=10, k=3.0, a=2.0).probabilities(256)
    assert len(likely) == 10 and likely == sorted(likely, reverse=True)
    assert likely[0] == pytest.approx(2.0 / math.sqrt(2 * math.pi), abs=1e-6)
    assert sum(dlmrs.SuffixDropout(kind="exponential", window=64, budget=20).probabilities(256)) == pytest.approx(20, abs=1e-6)


def test_presets_of_block_diffusion() -> None:
    quality = dlmrs.BlockDiffusion(threshold=0.7, editing_threshold=0.5, max_post_steps=16)
    assert dlmrs.BlockDiffusion.preset("llada2.1-quality") == quality
    assert dlmrs.BlockDiffusion.preset("llada2.1-speed") == dlmrs.BlockDiffusion(threshold=0.5)
    assert dlmrs.BlockDiffusion.presets() == ["llada2.0", "llada2.1", "llada2.1-quality", "llada2.1-speed"]
    with pytest.raises(dlmrs.InputError, match="preset: 'llada3' is unknown; use one of llada2.0"):
        dlmrs.BlockDiffusion.preset("llada3")
    with pytest.raises(dlmrs.InputError, match="max_post_steps: is 65537; at most 65536"):
        dlmrs.BlockDiffusion(editing_threshold=0.5, max_post_steps=65537)


def test_editing_is_refused_where_it_means_nothing(sdar: dlmrs.LLM, llada: dlmrs.LLM) -> None:
    decoding = dlmrs.BlockDiffusion(editing_threshold=0.5)
    with pytest.raises(dlmrs.InputError, match="editing_threshold: is 0.5, but tiny-sdar was not trained to look at"):
        sdar.generate("a", decoding=decoding)
    with pytest.raises(dlmrs.InputError, match="decoding: is BlockDiffusion, but tiny-llada is bidirectional; use Canvas"):
        llada.generate("a", decoding=decoding)


def test_lists_of_places_are_frozen() -> None:
    lists = [[9, 12], np.array([13], dtype=np.int64), []]
    canvas = dlmrs.Canvas(suffix=lists)
    assert canvas.suffix == ((9, 12), (13,), ()) and hash(canvas) == hash(dlmrs.Canvas(suffix=lists))


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
