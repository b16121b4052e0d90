"""Caches, suffix policies, reveal rules and early ends through the Python API."""

from collections.abc import Callable

import dlmrs
import numpy as np
import pytest
from golden_data import MASK

Load = Callable[..., dlmrs.LLM]
PROMPT = [(i * 37 + 11) % 300 for i in range(9)]
CHAT = [{"role": "user", "content": "Mia has 12 coins. Mia finds 30 more. How many coins does Mia have now?"}]


def whole(max_tokens: int = 40) -> dlmrs.SamplingParams:
    return dlmrs.SamplingParams(max_tokens=max_tokens, ignore_eos=True, seed=7, trace=True)


@pytest.mark.parametrize("family", ["llada", "dream"])
@pytest.mark.parametrize("cache", ["none", "prefix", "dual"])
def test_a_draw_is_in_the_trace_and_is_its_list(load: Load, family: str, cache: str) -> None:
    llm = load(family)
    dropout = dlmrs.SuffixDropout(window=16, k=2.0, a=1.6)
    settings = {"block_length": 8, "threshold": 0.4, "cache": cache}
    [drawn] = llm.generate(PROMPT, whole(), decoding=dlmrs.Canvas(suffix=dropout, **settings))
    assert drawn.trace is not None
    kept = drawn.trace.kept_suffix
    assert drawn.stats.blocks == len(kept) == 5 and kept[-1] == [] and 2 < len(kept[0]) < 14
    assert drawn.stats.mean_kept_suffix == sum(map(len, kept)) / 5
    assert all(17 + 8 * block <= place < 49 for block, places in enumerate(kept) for place in places)
    [listed] = llm.generate(PROMPT, whole(), decoding=dlmrs.Canvas(suffix=kept, **settings))
    [text] = llm.generate(PROMPT, whole(), decoding=dlmrs.Canvas(suffix="gaussian:window=16,k=2,a=1.6", **settings))
    assert listed.canvas_token_ids == text.canvas_token_ids == drawn.canvas_token_ids


@pytest.mark.parametrize("family", ["llada", "dream"])
def test_a_cache_that_is_always_fresh_is_none(load: Load, family: str) -> None:
    llm = load(family)
    [plain] = llm.generate(PROMPT, whole(), decoding=dlmrs.Canvas(block_length=8, threshold=0.4))
    for cache in ("prefix", "dual"):
        fresh = dlmrs.Canvas(block_length=8, threshold=0.4, cache=cache, refresh="step")
        [output] = llm.generate(PROMPT, whole(), decoding=fresh)
        assert output.canvas_token_ids == plain.canvas_token_ids
        assert output.stats.passes["refresh"] == plain.stats.total_passes
        every_third = dlmrs.Canvas(block_length=8, threshold=0.4, cache=cache, refresh=3)
        [output] = llm.generate(PROMPT, whole(), decoding=every_third)
        assert output.stats.passes["refresh"] == 2 and output.stats.rows["commit"] == 24


def test_every_policy_runs(llada: dlmrs.LLM) -> None:
    policies = [
        None,
        "off",
        "keep_all",
        "drop_all",
        dlmrs.SuffixDropout(),
        dlmrs.SuffixDropout(kind="uniform", window=32, budget=9),
        dlmrs.SuffixDropout(kind="exponential"),
        dlmrs.SuffixDropout(kind="linear", budget=12),
        dlmrs.SuffixDropout(kind="step", k=2),
        dlmrs.SuffixDropout.preset("llada-1.5-gsm8k"),
        dlmrs.WindowTail(window=20),
        dlmrs.Spotlight(distance=16, count=4),
    ]
    for policy in policies:
        decoding = dlmrs.Canvas(cache="prefix", suffix=policy, threshold=0.9)
        output = llada.chat(CHAT, dlmrs.SamplingParams(max_tokens=96, seed=1), decoding=decoding)
        assert output.finish_reason == "stop" and "42" in output.text, policy


def test_early_ends(llada: dlmrs.LLM) -> None:
    params = dlmrs.SamplingParams(max_tokens=96, seed=1)
    found = {
        when: llada.chat(CHAT, params, decoding=dlmrs.Canvas(block_length=16, threshold=0.9, early_stop=when))
        for when in ("strict", "compat", "off")
    }
    assert len({output.text for output in found.values()}) == 1
    assert found["strict"].stats.total_passes <= found["compat"].stats.total_passes < found["off"].stats.total_passes
    assert found["off"].stats.blocks == 6 and found["off"].stats.revealed == 96


def test_factor_and_cap(llada: dlmrs.LLM) -> None:
    params = dlmrs.SamplingParams(max_tokens=64, ignore_eos=True, trace=True)
    passes = {}
    for name, decoding in {
        "one": dlmrs.Canvas(),
        "factor": dlmrs.Canvas(factor=1.0),
        "compat": dlmrs.Canvas(factor=1.0, factor_compat=True),
        "capped": dlmrs.Canvas(factor=1.0, max_reveals=2),
    }.items():
        output = llada.chat(CHAT, params, decoding=decoding)
        assert output.trace is not None and len(output.trace) == 64
        most = int(np.bincount(output.trace.passes).max())
        assert name != "capped" or most == 2
        passes[name] = output.stats.total_passes
    assert passes["factor"] < passes["capped"] < passes["one"] == 64
    assert passes["compat"] <= passes["factor"]


def test_a_stream_with_a_cache(llada: dlmrs.LLM) -> None:
    decoding = dlmrs.Canvas(cache="dual", suffix=dlmrs.SuffixDropout(window=32), threshold=0.9)
    params = dlmrs.SamplingParams(max_tokens=96, seed=4)
    stream = llada.stream(CHAT, params, decoding=decoding)
    text = "".join(event.text for event in stream if isinstance(event, dlmrs.Committed))
    assert stream.output is not None and text == stream.output.text == llada.chat(CHAT, params, decoding=decoding).text


def test_masks_in_a_prompt(load: Load) -> None:
    prompt = [MASK if i in (0, 3, 4) else token for i, token in enumerate(PROMPT)]
    for family in ("llada", "dream"):
        for cache in ("none", "prefix", "dual"):
            [output] = load(family).generate(prompt, whole(16), decoding=dlmrs.Canvas(block_length=8, cache=cache, suffix="drop_all"))
            assert MASK not in output.canvas_token_ids and output.stats.revealed == 19


def test_what_a_block_causal_model_says_to_caches(sdar: dlmrs.LLM) -> None:
    with pytest.raises(dlmrs.InputError, match="is block-causal; use BlockDiffusion, which caches finished blocks exactly"):
        sdar.chat(CHAT, decoding=dlmrs.Canvas(cache="dual"))


def test_settings_without_effect(llada: dlmrs.LLM) -> None:
    for decoding, message in [
        (dlmrs.Canvas(refresh=2), "refresh: has an effect with a cache only"),
        (dlmrs.Canvas(factor=1.0, threshold=0.9), "factor: stands in place of a threshold"),
        (dlmrs.Canvas(factor_compat=True), "factor_compat: has an effect with a factor only"),
        (dlmrs.Canvas(max_reveals=3), "max_reveals: has an effect with a threshold or a factor only"),
        (dlmrs.Canvas(suffix=[[]]), "suffix: has 1 lists, but the canvas has 3 blocks"),
    ]:
        with pytest.raises(dlmrs.InputError, match=message):
            llada.chat(CHAT, dlmrs.SamplingParams(max_tokens=96), decoding=decoding)


def test_attention_mass(load: Load) -> None:
    masses = []
    for backend in ("kernels", "plain"):
        llm = load("llada", backend=backend)
        mass = llm.attention_mass(PROMPT, [2, 5], range(9))
        assert mass.shape == (2, 9) and mass.dtype == np.float32
        assert np.allclose(mass.sum(axis=1), 1, atol=1e-5) and (mass > 0).all()
        masses.append(mass)
    assert np.allclose(*masses, atol=1e-4)
    visible = np.tril(np.ones((9, 9), dtype=bool))
    assert (llm.attention_mass(PROMPT, [2], [3, 8], mask=visible) == 0).all()
    for arguments, message in [
        (([9], [0]), "queries: asks for row 9 of 9 tokens"),
        (([0], [9]), "keys: asks for row 9"),
        (([-1], [0]), r"queries\[0\]: is -1"),
    ]:
        with pytest.raises(dlmrs.InputError, match=message):
            llm.attention_mass(PROMPT, *arguments)
