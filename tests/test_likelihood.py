"""dlmrs.likelihood against sums made by hand from single forwards, and against every masking there is."""

import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import dlmrs
import numpy as np
import pytest
from dlmrs.likelihood import Likelihood, Score, maskings
from golden_data import word_problems

Load = Callable[..., dlmrs.LLM]
MODELS = ["tiny-sdar", "tiny-llada", "dream", "fast_dllm_v2"]
CONTEXT = [20, 61, 88, 45, 31, 207, 118]
ANSWER = [76, 20, 133]


def log_probabilities(llm: dlmrs.LLM, tokens: Sequence[int], slots: Sequence[int]) -> list[Any]:
    """Rows of log-probabilities for slots of a canvas, from a forward of that canvas alone."""
    rows = [max(slot - 1, 0) if llm.shift else slot for slot in slots]
    logits = llm.forward(tokens, rows=rows).astype(np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    return list(logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)))


def masked_sum(llm: dlmrs.LLM, tokens: list[int], masked: Sequence[int], length: int, read: Sequence[int]) -> float:
    """The sum of log p over the slots that are read, with others masked too, on a canvas filled up with masks."""
    state = [llm.mask_token_id if slot in masked else token for slot, token in enumerate(tokens)]
    state += [llm.mask_token_id] * (length - len(state))
    return float(sum(row[tokens[slot]] for slot, row in zip(read, log_probabilities(llm, state, read), strict=True)))


def blocks_of(llm: dlmrs.LLM, first: int, end: int) -> list[tuple[range, int]]:
    """The answer's slots by block, each with the end of its block; a bidirectional canvas is one block."""
    if llm.attention != "block-causal":
        return [(range(first, end), end)]
    size = llm.block_length or 0
    ends = range(first - first % size + size, end + size, size)
    return [(range(max(first, stop - size), min(end, stop)), stop) for stop in ends]


def by_hand(llm: dlmrs.LLM, context: list[int], answer: list[int], *, random: bool) -> float:
    tokens, total = context + answer, 0.0
    for slots, stop in blocks_of(llm, len(context), len(tokens)):
        known = tokens[: slots[-1] + 1]
        if not random:
            total += sum(masked_sum(llm, known, range(slot, slots[-1] + 1), stop, [slot]) for slot in slots)
            continue
        for count in range(1, len(slots) + 1):
            sets = list(combinations(slots, count))
            mean = sum(masked_sum(llm, known, masked, stop, masked) for masked in sets) / len(sets)
            total += (len(slots) / count) * mean / len(slots)
    return total


@pytest.mark.parametrize("answer", [ANSWER[:1], ANSWER[:2], ANSWER])
@pytest.mark.parametrize("context", [CONTEXT, CONTEXT[:4], CONTEXT[:1], []])
@pytest.mark.parametrize("name", MODELS)
def test_both_estimates_are_the_sums_made_by_hand(load: Load, name: str, context: list[int], answer: list[int]) -> None:
    llm = load(name)
    [ordered] = Likelihood(llm, method="left_to_right").score([(context, answer)])
    assert ordered.log_probability == pytest.approx(by_hand(llm, context, answer, random=False), abs=1e-3)
    [exact] = Likelihood(llm, method="monte_carlo").score([(context, answer)])  # 2^3 - 1 sets: none is drawn
    assert exact.log_probability == pytest.approx(by_hand(llm, context, answer, random=True), abs=1e-3)


@pytest.mark.parametrize("name", MODELS)
def test_draws_come_near_the_enumeration(load: Load, name: str) -> None:
    """100 runs of 6 draws for 7 sets: within 4 standard errors of the exact value, which is not 0 away either."""
    llm = load(name)
    context = CONTEXT[:4]  # the answer begins at a block and lies in one
    [exact] = Likelihood(llm, method="monte_carlo").score([(context, ANSWER)])
    runs = [
        Likelihood(llm, method="monte_carlo", mc_num=6, mc_seed=seed).score([(context, ANSWER)])[0].log_probability
        for seed in range(100)
    ]
    error = np.std(runs) / math.sqrt(len(runs))
    assert 0 < error
    assert abs(np.mean(runs) - exact.log_probability) < 4 * error


@pytest.mark.parametrize("slots", [1, 2, 3, 5, 8])
def test_weights_are_fair(slots: int) -> None:
    every = maskings(slots, 2**slots - 1, np.random.default_rng(0))
    assert len(every) == len({masked for masked, _ in every}) == 2**slots - 1
    for slot in range(slots):  # each slot counts once
        assert sum(weight for masked, weight in every if slot in masked) == pytest.approx(1.0)
    if slots < 3:
        return
    drawn = maskings(slots, 6, np.random.default_rng(0))
    assert len(drawn) <= 6 and len({masked for masked, _ in drawn}) == len(drawn)
    # Whatever is drawn, all slots together count `slots` times.
    assert sum(len(masked) * weight for masked, weight in drawn) == pytest.approx(slots)
    means = np.zeros(slots)
    for seed in range(2000):
        for masked, weight in maskings(slots, 6, np.random.default_rng(seed)):
            means[list(masked)] += weight / 2000
    assert np.abs(means - 1).max() < 0.1


def test_the_number_of_masked_slots_runs_evenly() -> None:
    drawn = maskings(8, 64, np.random.default_rng(3))
    for count in range(1, 9):
        draws = sum(weight * count * 64 / 8 for masked, weight in drawn if len(masked) == count)
        assert draws == pytest.approx(8), f"{count} masked slots"


@pytest.mark.parametrize("method", ["monte_carlo", "left_to_right"])
@pytest.mark.parametrize("name", MODELS)
def test_alone_and_in_a_batch_are_the_same_bits(load: Load, name: str, method: Any) -> None:
    llm = load(name)
    random = np.random.default_rng(5)
    pairs = [
        (random.integers(4, 300, size=c).tolist(), random.integers(4, 300, size=a).tolist())
        for c, a in [(9, 3), (40, 6), (0, 4), (9, 0), (17, 1), (120, 9), (5, 20)]
    ]
    judge = Likelihood(llm, method=method, mc_num=12, mc_seed=3)
    together = judge.score(pairs)
    assert together == [judge.score([pair])[0] for pair in pairs]
    assert together == judge.score(pairs)
    assert together[3] == Score(0.0, True)
    assert all(score.log_probability < 0 for score in together[:3])
    other = Likelihood(llm, method=method, mc_num=12, mc_seed=4).score(pairs)
    assert (other == together) == (method == "left_to_right")


@pytest.mark.parametrize("name", ["tiny-sdar", "tiny-llada"])
def test_greedy_is_what_greedy_decoding_gives(load: Load, name: str) -> None:
    llm = load(name)
    chat = llm.encode(
        llm.render_chat([{"role": "user", "content": word_problems(1)[0]["question"]}]), parse_specials=True
    )
    in_order = dlmrs.BlockDiffusion(strategy="sequential") if name == "tiny-sdar" else dlmrs.Canvas(block_length=1)
    length = 16 if name == "tiny-llada" else 16 + -len(chat) % 4
    [output] = llm.generate([chat], dlmrs.SamplingParams(max_tokens=length, ignore_eos=True), decoding=in_order)
    answer = output.token_ids
    judge = Likelihood(llm, method="left_to_right")
    wrong = [*answer[:-1], answer[-1] + 1]
    best, other = judge.score([(chat, answer), (chat, wrong)])
    assert best.is_greedy and not other.is_greedy
    assert best.log_probability > other.log_probability


def test_the_method_fits_the_family(load: Load) -> None:
    assert [Likelihood(load(name)).method for name in MODELS] == [
        "left_to_right",
        "monte_carlo",
        "monte_carlo",
        "left_to_right",
    ]


def test_long_answers(sdar: dlmrs.LLM) -> None:
    """Many states of a long answer, in several forwards; and one token more than fits."""
    llm = dlmrs.LLM("tiny-sdar", max_model_len=131, threads=2)  # 32 whole blocks
    judge = Likelihood(llm)
    assert judge.max_tokens == 128
    tokens = np.random.default_rng(1).integers(4, 300, size=128).tolist()
    [short], [full] = judge.score([(tokens[:28], tokens[28:])]), Likelihood(sdar).score([(tokens[:28], tokens[28:])])
    assert short == full
    with pytest.raises(dlmrs.InputError, match="have 129 tokens together, but the model takes at most 128"):
        judge.score([(tokens, [5])])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "magic"}, "loglikelihood: 'magic' is unknown; use auto, monte_carlo or left_to_right"),
        ({"mc_num": 0}, "mc_num: is 0; a whole number of at least 1"),
        ({"mc_num": 1.5}, "mc_num: is 1.5"),
        ({"mc_seed": -1}, "mc_seed: is -1; a whole number of at least 0"),
        ({"mc_seed": True}, "mc_seed: is True"),
    ],
)
def test_bad_settings(sdar: dlmrs.LLM, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(dlmrs.InputError, match=message):
        Likelihood(sdar, **settings)


def test_importing_dlmrs_leaves_it_alone() -> None:
    code = (
        "import sys, dlmrs; assert not {'dlmrs.likelihood', 'dlmrs.plot', 'lm_eval', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
