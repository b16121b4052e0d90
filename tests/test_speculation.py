"""Speculation through the package: the same text in fewer passes, honest counters, and what is refused."""

import dataclasses

import dlmrs
import pytest
from golden_data import GOLDEN, MASK

QUESTIONS = [
    "Mia buys 9 pens for 5 dollars each. How much does Mia spend?",
    "Hugo buys 6 beads for 2 dollars each and 7 marbles for 5 dollars each. How much does Hugo spend?",
    "A bag holds 12 apples and 3 pears. How many fruits?",
]
CHATS = [[{"role": "user", "content": question}] for question in QUESTIONS]


@pytest.fixture(scope="module")
def pair():
    with dlmrs.LLM("tiny-sdar", draft="tiny-sdar-draft", device="cpu", threads=2) as llm:
        yield llm


def texts(outputs):
    return [(output.token_ids, output.text) for output in outputs]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(
    "rule",
    [
        {"strategy": "sequential"},
        {"strategy": "low_confidence_static", "steps": 2},
        {"threshold": 0.9},
        {"strategy": "entropy_bounded", "block_length": 4},
        {"strategy": "margin"},
    ],
)
def test_identical(pair, rule, temperature):
    params = dlmrs.SamplingParams(max_tokens=64, temperature=temperature, seed=3)
    alone = pair.chat(CHATS, params, decoding=dlmrs.BlockDiffusion(**rule))
    for decoding in (
        dlmrs.Lookahead(**rule),
        dlmrs.Lookahead(**rule, blocks=3, probes=0, alternatives=False, max_rows=24),
        dlmrs.SimSD(**rule),
        dlmrs.SimSD(**rule, blocks=2, draft_steps=1),
        dlmrs.SimSD(**rule, blocks=2, draft_steps=1, overlap=True),
        dlmrs.Lookahead(**rule, max_rows="auto"),
        dlmrs.SimSD(**rule, gamma="auto", max_rows="auto", blocks=2),
        dlmrs.SimSD(**rule, gamma=2, own_guesses=False, fallback="target"),
    ):
        found = pair.chat(CHATS, params, decoding=decoding)
        assert texts(found) == texts(alone), decoding
        for a, b in zip(alone, found):
            assert b.stats.target_passes <= a.stats.target_passes


def test_a_dense_draft_for_a_mixture_of_experts():
    params = dlmrs.SamplingParams(max_tokens=24, ignore_eos=True)
    for target in ("sdar_moe", "llada2_moe"):
        with dlmrs.LLM(GOLDEN / target, draft=GOLDEN / "sdar", mask_token_id=MASK, block_length=4, threads=2) as llm:
            [alone] = llm.generate([5, 6, 7], params, decoding=dlmrs.BlockDiffusion(threshold=0.3))
            for decoding in (dlmrs.SimSD(threshold=0.3), dlmrs.SimSD(threshold=0.3, blocks=2, overlap=True)):
                [found] = llm.generate([5, 6, 7], params, decoding=decoding)
                assert found.canvas_token_ids == alone.canvas_token_ids and found.stats.drafted > 0
@pytest.fixture(scope="module")
def llada():
    with dlmrs.LLM("tiny-llada", device="cpu", threads=2) as llm:
        yield llm


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(
    "rule",
    [{}, {"steps": 48}, {"threshold": 0.9}, {"factor": 1.0, "refresh": 2}, {"strategy": "random"}, {"alg": "entropy"}],
)
def test_identical_on_a_canvas(llada, rule, temperature):
    params = dlmrs.SamplingParams(max_tokens=96, temperature=temperature, seed=3)
    canvas = dlmrs.Canvas(cache="dual", block_length=16, **rule)
    alone = llada.chat(CHATS, params, decoding=canvas)
    for more in ({}, {"max_rows": "off"}, {"max_rows": 48, "alternatives": False}, {"max_rows": "auto"}):
        found = llada.chat(CHATS, params, decoding=dlmrs.Lookahead(canvas=canvas, **more))
        assert texts(found) == texts(alone), more
        for a, b in zip(alone, found):
            assert b.stats.target_passes <= a.stats.target_passes
        if not rule and more.get("max_rows") != "auto":
            assert sum(o.stats.target_passes for o in found) < 0.8 * sum(o.stats.target_passes for o in alone), more


def test_counters(pair):
    output = pair.chat(CHATS[0], decoding=dlmrs.SimSD(threshold=0.9))
    stats = output.stats
    assert stats.drafted == stats.accepted + stats.wasted and stats.rounds > 0
    assert stats.acceptance == stats.accepted / stats.drafted
    assert stats.draft_passes["draft"] > 0 and stats.draft_rows["draft"] >= 4 * stats.draft_passes["draft"]
    assert stats.total_passes == sum(stats.passes.values()) + sum(stats.draft_passes.values())
    assert stats.target_passes == sum(stats.passes.values()) - stats.passes["prefill"]
    assert stats.tokens_per_target_pass == stats.tokens / stats.target_passes
    alone = pair.chat(CHATS[0]).stats
    assert alone.drafted == alone.rounds == alone.unfolded_passes == sum(alone.draft_passes.values()) == 0


def test_trace_tells_guesses_apart(pair):
    params = dlmrs.SamplingParams(trace=True)
    trace = pair.chat(CHATS[1], params, decoding=dlmrs.SimSD(strategy="low_confidence_static")).trace
    assert {"accepted", "corrected"} <= set(trace.how)


@pytest.mark.parametrize("layout", ["states", "paired", "no_leak", "sequential"])
@pytest.mark.parametrize("accept", ["greedy", "rejection"])
def test_layouts_and_seeds(pair, layout, accept):
    params = dlmrs.SamplingParams(max_tokens=48, temperature=0.8, seed=5)
    decoding = dlmrs.SimSD(layout=layout, accept=accept)
    together = pair.chat(CHATS, params, decoding=decoding)
    alone = [pair.chat(chat, params, decoding=decoding) for chat in CHATS]
    assert texts(together) == texts(alone)
    assert all(output.stats.accepted for output in together)


def test_self_speculation(pair):
    outputs = pair.chat(CHATS, decoding=dlmrs.S2D2())
    again = pair.chat(CHATS, dlmrs.SamplingParams(seed=9), decoding=dlmrs.S2D2())
    assert texts(outputs) == texts(again), "greedy needs no seed"
    assert all(o.stats.unfolded_passes > o.stats.target_passes for o in outputs)
    for policy in (
        dlmrs.MinSpan(min_span=3),
        dlmrs.ScoreThreshold(threshold=0.5, estimator="soft_renyi_2_entropy", dynamic=True),
        dlmrs.Hysteresis(on=0.9, off=0.1, estimator="hard_margin_threshold", estimator_value=0.2),
    ):
        for variant in ("greedy", "paper", "exact"):
            decoding = dlmrs.S2D2(variant=variant, policy=policy, ar_cache=False)
            assert pair.chat(CHATS[0], dlmrs.SamplingParams(seed=1, temperature=0.7), decoding=decoding).stats.tokens


def test_the_model_drafts_for_itself():
    with dlmrs.LLM("tiny-sdar", draft="tiny-sdar", device="cpu") as llm:
        stats = llm.chat(CHATS[0], decoding=dlmrs.SimSD(own_guesses=False, alternatives=False)).stats
        assert llm.draft == "tiny-sdar"
        assert stats.corrections == stats.wasted == 0 and stats.accepted == stats.drafted


def test_stream(pair):
    stream = pair.stream(CHATS[0], decoding=dlmrs.SimSD(blocks=2))
    *events, last = list(stream)
    assert isinstance(last, dlmrs.Finished)
    assert last.output.text == pair.chat(CHATS[0]).text
    text = "".join(event.text for event in events if isinstance(event, dlmrs.Committed))
    assert text == last.output.text


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: dlmrs.SimSD(gamma=0), "gamma: is 0"),
        (lambda: dlmrs.SimSD(gamma="all"), 'gamma: is .all. .str.; a number of slots, "auto" or None'),
        (lambda: dlmrs.Lookahead(max_rows="of"), "max_rows"),
        (lambda: dlmrs.Lookahead(blocks=0), "blocks: is 0"),
        (lambda: dlmrs.Lookahead(probes=100), "probes: is 100"),
        (lambda: dlmrs.Lookahead(canvas=dlmrs.Canvas()), 'cache: is "none", but lookahead on a canvas needs cache="dual"'),
        (lambda: dlmrs.Lookahead(canvas=dlmrs.Canvas(cache="dual"), blocks=3), "blocks: has no effect with a canvas"),
        (lambda: dlmrs.Lookahead(canvas=dlmrs.Canvas(cache="dual"), threshold=0.9), "canvas: has a reveal rule of its own"),
        (lambda: dlmrs.Lookahead(canvas="dual"), "canvas: is 'dual' (str); a Canvas or None is needed"),
        (lambda: dlmrs.SimSD(overlap=3), "overlap: is 3"),
        (lambda: dlmrs.SimSD(layout="pair"), "layout: 'pair' is unknown; use one of states"),
        (lambda: dlmrs.SimSD(accept="sometimes"), "accept"),
        (lambda: dlmrs.SimSD(fallback="none"), "fallback"),
        (lambda: dlmrs.S2D2(variant="fast"), "variant"),
        (lambda: dlmrs.S2D2(policy="always"), "policy"),
        (lambda: dlmrs.S2D2(policy=dlmrs.MinSpan(min_span=0)), "min_span: is 0"),
        (lambda: dlmrs.S2D2(policy=dlmrs.Hysteresis(on=0, off=1)), "on must be larger than off"),
        (lambda: dlmrs.S2D2(policy=dlmrs.ScoreThreshold(estimator="luck")), "estimator: 'luck' is unknown"),
    ],
)
def test_values_are_refused_when_made(make, words):
    with pytest.raises(dlmrs.InputError, match=words.replace("(", r"\(").replace(")", r"\)")):
        make()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"gamma": "auto", "accept": "greedy"}, "gamma: auto goes by the clock"),
        ({"gamma": 9}, "gamma: is 9, but a block has 4 slots"),
        ({"layout": "paired"}, "accept: identical needs the target's own rows"),
        ({"layout": "paired", "accept": "greedy", "blocks": 2}, "blocks: above 1 needs"),
        ({"accept": "greedy", "draft_steps": 1}, "draft_steps: needs accept identical"),
        ({"accept": "greedy", "max_rows": 8}, "max_rows: has an effect with"),
        ({"overlap": True, "accept": "greedy"}, "overlap: needs layout states"),
        ({"align_positions": False}, "align_positions: can be switched off"),
    ],
)
def test_settings_that_cannot_be_are_refused(pair, changes, words):
    with pytest.raises(dlmrs.InputError, match=words):
        pair.chat(CHATS[0], decoding=dataclasses.replace(dlmrs.SimSD(), **changes))


def test_drafts_that_do_not_fit():
    with pytest.raises(dlmrs.InputError, match="draft: tiny-llada has no block mode"):
        dlmrs.LLM("tiny-sdar", draft="tiny-llada")
    with pytest.raises(dlmrs.InputError, match="needs a block-causal target"):
        dlmrs.LLM("tiny-llada", draft="tiny-sdar-draft")
    with pytest.raises(dlmrs.InputError, match="draft_device: has no meaning without a draft"):
        dlmrs.LLM("tiny-sdar", draft_device="cpu")
    with dlmrs.LLM("tiny-sdar") as llm, pytest.raises(dlmrs.InputError, match="without a draft model"):
        assert llm.draft is None
        llm.chat(CHATS[0], decoding=dlmrs.SimSD())
    with dlmrs.LLM("tiny-llada") as llm, pytest.raises(dlmrs.InputError, match="S2D2, but tiny-llada is bidirectional"):
        llm.chat(CHATS[0], decoding=dlmrs.S2D2())
