"""LLM.generate: what it takes, and that a request's result depends on nothing but the request."""

import dataclasses
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import dlmrs
import numpy as np
import pytest

Load = Callable[..., dlmrs.LLM]
PROMPTS = ["9 * 5 = ", "The pens cost ", "Noah has 15 * 5 = 75."]
SHORT = dlmrs.SamplingParams(max_tokens=10)


def same(a: dlmrs.Output, b: dlmrs.Output) -> bool:
    """Equal but for the times."""
    return (a.text, a.canvas_token_ids, a.stats.passes) == (b.text, b.canvas_token_ids, b.stats.passes)


def test_a_single_prompt_gives_a_list_of_one(sdar: dlmrs.LLM) -> None:
    ids = sdar.encode(PROMPTS[0])
    [by_text] = sdar.generate(PROMPTS[0], SHORT)
    assert by_text.prompt_token_ids == ids
    assert by_text.token_ids and isinstance(by_text.token_ids, list)
    assert by_text.text == sdar.decode(by_text.token_ids)
    forms: list[Any] = [ids, tuple(ids), np.array(ids), np.array(ids, dtype=np.uint16), [np.int64(i) for i in ids]]
    for form in forms:
        [output] = sdar.generate(form, SHORT)
        assert same(output, by_text)


def test_outputs_have_all_their_fields(sdar: dlmrs.LLM) -> None:
    """They are made without ``__init__``."""
    [output] = sdar.generate(PROMPTS[0], SHORT)
    made: list[Any] = [output, output.stats]
    for one in made:
        names = [field.name for field in dataclasses.fields(one)]
        assert list(vars(one)) == names
        assert dataclasses.replace(one) == one
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(one, names[0], None)


def test_batches_equal_single_prompts(load: Load) -> None:
    for name in ["tiny-sdar", "tiny-llada"]:
        llm = load(name)
        alone = [llm.generate(prompt, SHORT)[0] for prompt in PROMPTS]
        together = llm.generate(PROMPTS, SHORT)
        forms: list[Any] = [PROMPTS[0], llm.encode(PROMPTS[1]), np.array(llm.encode(PROMPTS[2]))]
        mixed = llm.generate(forms, SHORT)
        assert all(map(same, alone, together)) and all(map(same, alone, mixed))
        rows = llm.generate(np.array([[5, 6, 7], [8, 9, 10]]), SHORT)
        assert [output.prompt_token_ids for output in rows] == [[5, 6, 7], [8, 9, 10]]
        assert llm.generate([], SHORT) == []


def test_one_params_for_all_or_one_for_each(sdar: dlmrs.LLM) -> None:
    settings = [dlmrs.SamplingParams(max_tokens=n, ignore_eos=True) for n in (3, 7, 5)]
    assert [len(output.token_ids) for output in sdar.generate(PROMPTS, settings)] == [3, 7, 5]
    with pytest.raises(dlmrs.InputError, match="params: has 2 entries for 3 prompts"):
        sdar.generate(PROMPTS, settings[:2])
    bad: Any = [settings[0], None, settings[1]]
    with pytest.raises(dlmrs.InputError, match=r"params\[1\]: is None .* a SamplingParams is needed"):
        sdar.generate(PROMPTS, bad)
    bad = {"max_tokens": 3}
    with pytest.raises(dlmrs.InputError, match="params: .*dict"):
        sdar.generate(PROMPTS, bad)


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        ("", "empty"),
        ([[]], "empty"),
        ("\ud800", "without lone surrogates"),
        ([5, 640], "640.*vocabulary has 640"),
        ([5, -1], r"prompts\[1\]: is -1"),
        ([5, 1.5], r"prompts\[1\]: is 1.5"),
        ([5, "a"], r"prompts\[1\]: is 'a'"),
        (["a", 5], r"prompts\[1\]: is 5"),
        ([[1, 2], [3, None]], r"prompts\[1\]\[1\]: is None"),
        ([True, 5], r"prompts\[0\]: is True"),
        (np.array([0.5, 1.0]), r"prompts\[0\]: is 0.5"),
        (5, "prompts: is 5"),
        (None, "prompts: is None"),
        (b"abc", "prompts: is b'abc'"),
        ({"a": 1}, "prompts: is {'a': 1}"),
    ],
)
def test_bad_prompts_are_refused(sdar: dlmrs.LLM, prompts: Any, message: str) -> None:
    with pytest.raises(dlmrs.InputError, match=message):
        sdar.generate(prompts, SHORT)


def test_seeds(load: Load) -> None:
    for name in ["tiny-sdar", "tiny-llada"]:
        llm = load(name)

        def draw(seed: int | None, llm: dlmrs.LLM = llm) -> dlmrs.Output:
            stops = llm.stop_token_ids  # outside its problems tiny-llada ends at once
            settings = dlmrs.SamplingParams(max_tokens=24, temperature=1.5, seed=seed, banned_token_ids=stops)
            return llm.generate(PROMPTS[1], settings)[0]

        assert same(draw(7), draw(7)) and draw(7).seed == 7
        assert draw(7).token_ids != draw(8).token_ids
        unseeded = draw(None)
        assert same(draw(unseeded.seed), unseeded)
        # Another seed changes nothing for greedy requests.
        greedy = [llm.generate(PROMPTS[1], dlmrs.SamplingParams(max_tokens=8, seed=s))[0] for s in (1, 2)]
        assert same(*greedy)


def test_stops(sdar: dlmrs.LLM) -> None:
    free = sdar.generate(PROMPTS[0], dlmrs.SamplingParams(max_tokens=24, ignore_eos=True))[0]
    cut = free.text[3:5]
    by_text = sdar.generate(PROMPTS[0], dlmrs.SamplingParams(max_tokens=24, stop=cut))[0]
    assert by_text.text == free.text[: free.text.index(cut)]
    assert (by_text.finish_reason, by_text.stop_cause) == ("stop", cut)
    token = free.token_ids[4]
    first = free.token_ids.index(token)
    by_id = sdar.generate(PROMPTS[0], dlmrs.SamplingParams(max_tokens=24, stop_token_ids=[token]))[0]
    assert by_id.token_ids == free.token_ids[:first]
    assert (by_id.finish_reason, by_id.stop_cause) == ("stop", token)
    ignored = dlmrs.SamplingParams(max_tokens=24, stop=[cut], stop_token_ids=[token], ignore_eos=True)
    assert same(sdar.generate(PROMPTS[0], ignored)[0], free)


def test_min_tokens_and_bans(sdar: dlmrs.LLM) -> None:
    [eos] = [id for id in sdar.stop_token_ids if sdar.decode([id], skip_special=False) == "<|im_end|>"]
    eager = {eos: 50.0}
    [short] = sdar.generate(PROMPTS[0], dlmrs.SamplingParams(max_tokens=16, logit_bias=eager))
    assert short.token_ids == [] and short.text == "" and short.stop_cause == eos
    [longer] = sdar.generate(PROMPTS[0], dlmrs.SamplingParams(max_tokens=16, min_tokens=5, logit_bias=eager))
    assert len(longer.token_ids) >= 5
    banned = dlmrs.SamplingParams(max_tokens=16, logit_bias=eager, banned_token_ids=[eos])
    [output] = sdar.generate(PROMPTS[0], banned)
    assert eos not in output.token_ids


@pytest.mark.parametrize("block_length", [4, 32])
def test_the_context_limit_counts_prompt_and_max_tokens(block_length: int) -> None:
    limit, prompt = 61, [20] * 10
    decoding = dlmrs.BlockDiffusion(block_length=block_length, threshold=0.0)
    with dlmrs.LLM("tiny-sdar", max_model_len=limit, block_length=block_length, threads=1) as llm:
        assert (llm.max_model_len, llm.block_length) == (limit, block_length)
        for max_tokens in (limit - 11, limit - 10):
            settings = dlmrs.SamplingParams(max_tokens=max_tokens, ignore_eos=True)
            with pytest.warns(UserWarning, match="trained") if block_length == 32 else nullcontext():
                [output] = llm.generate(prompt, settings, decoding=decoding)
            assert len(output.token_ids) == max_tokens and output.finish_reason == "length"
        with pytest.raises(dlmrs.InputError, match="together 62, but the model takes at most 61"):
            llm.generate(prompt, dlmrs.SamplingParams(max_tokens=limit - 9), decoding=decoding)


def test_masks_in_a_prompt_are_filled(load: Load) -> None:
    for name in ["tiny-sdar", "tiny-llada"]:
        llm = load(name)
        mask = llm.mask_token_id
        prompt = [*llm.encode("9 * 5 = "), mask, mask, *llm.encode(". ")]
        [output] = llm.generate(prompt, SHORT)
        canvas = output.canvas_token_ids
        assert output.prompt_token_ids == prompt
        assert mask not in canvas[: len(prompt)]
        assert all(new == old for new, old in zip(canvas, prompt, strict=False) if old != mask)


def test_a_control_token_in_a_text_stays_text(sdar: dlmrs.LLM) -> None:
    text = "<|MASK|> and <|im_end|>"
    ids = sdar.encode(text)
    assert sdar.mask_token_id not in ids and not set(ids) & set(sdar.stop_token_ids)
    assert sdar.decode(ids) == text
    assert sdar.generate(text, SHORT)[0].prompt_token_ids == ids
    parsed = sdar.encode(text, parse_specials=True)
    assert parsed[0] == sdar.mask_token_id
    assert sdar.decode(parsed) == " and " and sdar.decode(parsed, skip_special=False) == text


def test_a_method_for_another_family_is_refused(sdar: dlmrs.LLM, llada: dlmrs.LLM) -> None:
    with pytest.raises(
        dlmrs.InputError, match="decoding: is Canvas, but tiny-sdar is block-causal; use BlockDiffusion"
    ):
        sdar.generate("a", SHORT, decoding=dlmrs.Canvas())
    with pytest.raises(dlmrs.InputError, match="decoding: is BlockDiffusion, .* use Canvas"):
        llada.generate("a", SHORT, decoding=dlmrs.BlockDiffusion())
    bad: Any = "canvas"
    with pytest.raises(dlmrs.InputError, match="decoding: is 'canvas'"):
        sdar.generate("a", SHORT, decoding=bad)


def test_a_foreign_block_length_warns_once(sdar: dlmrs.LLM) -> None:
    decoding = dlmrs.BlockDiffusion(block_length=8)
    with pytest.warns(UserWarning, match="block_length 8 differs from 4") as caught:
        outputs = sdar.generate(PROMPTS, SHORT, decoding=decoding)
    assert len(caught) == 1 and caught[0].filename == __file__
    assert all(len(output.warnings) == 1 for output in outputs)


def test_ids_without_a_tokenizer(load: Load) -> None:
    llm = load("sdar")
    [output] = llm.generate([5, 6, 7], SHORT)
    assert output.text == "" and output.token_ids
    for use in (lambda: llm.generate("a", SHORT), lambda: llm.encode("a"), lambda: llm.decode([1])):
        with pytest.raises(dlmrs.TokenizerError, match="sdar has none; give token ids instead of text"):
            use()


def test_several_threads_at_once(sdar: dlmrs.LLM) -> None:
    settings = dlmrs.SamplingParams(max_tokens=32, ignore_eos=True)
    alone = [sdar.generate(prompt, settings)[0] for prompt in PROMPTS]
    found: dict[int, dlmrs.Output] = {}

    def work(index: int) -> None:
        found[index] = sdar.generate(PROMPTS[index], settings)[0]

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(PROMPTS))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(same(found[index], alone[index]) for index in range(len(PROMPTS)))


def test_outputs_tell_what_they_cost(sdar: dlmrs.LLM) -> None:
    [output] = sdar.generate(PROMPTS[0], dlmrs.SamplingParams(max_tokens=12, ignore_eos=True))
    stats = output.stats
    assert stats.total_passes == sum(stats.passes.values()) > 0
    assert set(stats.passes) == set(stats.rows) == {"prefill", "refresh", "denoise", "draft", "verify", "commit"}
    assert stats.tokens == len(output.token_ids) == 12 and stats.revealed >= 12
    assert stats.tokens_per_pass == pytest.approx(12 / stats.total_passes)
    assert stats.scanned_rows >= 12
    assert 0 < stats.forward_seconds + stats.scan_seconds <= stats.total_seconds
    assert repr(output).startswith("Output('") and "tokens=12" in repr(output)
