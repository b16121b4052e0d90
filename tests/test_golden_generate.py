"""Token-exact generation against the reference samplers, through LLM.generate."""

from collections.abc import Callable

import dlmrs
import pytest
from golden_data import Case, cases

Load = Callable[..., dlmrs.LLM]
BACKENDS = ["kernels", "plain"]


def params(case: Case) -> dlmrs.SamplingParams:
    return dlmrs.SamplingParams(max_tokens=case["gen_length"], ignore_eos=True)


def block_diffusion(case: Case) -> dlmrs.BlockDiffusion:
    return dlmrs.BlockDiffusion(
        block_length=case["block_length"],
        steps=case["steps"],
        strategy=case["strategy"],
        threshold=case.get("confidence_threshold"),
        entropy_bound=case.get("entropy_bound"),
    )


def canvas(case: Case) -> dlmrs.Canvas:
    return dlmrs.Canvas(
        block_length=case["block_length"],
        steps=case.get("steps"),
        threshold=case.get("threshold"),
        cfg_scale=case.get("cfg_scale", 0.0),
        alg=case.get("alg"),
        eps=case.get("eps", 1e-3),
        cache=case["cache"],
        suffix=case.get("kept_suffix"),
    )


def tail(output: dlmrs.Output) -> list[int]:
    """Everything behind the prompt, to the end of the last block."""
    return output.canvas_token_ids[len(output.prompt_token_ids) :]


@pytest.mark.filterwarnings("ignore:block_length")  # other block lengths than the weights were trained for
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("family", "file"),
    [("sdar", "cases.json"), ("sdar_tied", "cases.json"), ("sdar_onelayer", "cases.json"), ("sdar", "own.json")],
)
def test_block_diffusion(load: Load, family: str, file: str, backend: str) -> None:
    llm = load(family, backend=backend)
    for case in cases(family, "generate", file):
        [output] = llm.generate(case["prompt_ids"], params(case), decoding=block_diffusion(case))
        assert tail(output) == case["output_ids"], case["name"]
        assert output.token_ids == case["output_ids"][: case["gen_length"]], case["name"]
        assert output.finish_reason == "length" and output.stop_cause is None
        if "forwards" in case:
            assert output.stats.total_passes < case["forwards"], case["name"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("family", "known"), [("llada", 118), ("dream", 107)])
def test_canvas_diffusion(load: Load, family: str, known: int, backend: str) -> None:
    llm = load(family, backend=backend)
    found = cases(family, "generate")
    assert len(found) == known
    for case in found:
        [output] = llm.generate(case["prompt_ids"], params(case), decoding=canvas(case))
        assert tail(output) == output.token_ids == case["output_ids"], case["name"]
        passes, refreshes = output.stats.total_passes, output.stats.passes["refresh"]
        assert refreshes == (0 if case["cache"] == "none" else case["gen_length"] // case["block_length"]), case["name"]
        if "nfe" in case:
            assert passes == case["nfe"], case["name"]
        if "reference_nfe" in case:
            assert passes - refreshes == case["reference_nfe"], case["name"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_sub_block_diffusion(load: Load, backend: str) -> None:
    llm = load("fast_dllm_v2", backend=backend)
    found = cases("fast_dllm_v2", "generate")
    assert len(found) == 36
    for case in found:
        decoding = dlmrs.SubBlockDiffusion(
            block_length=case["block_length"], sub_block=case["sub_block"], threshold=case["threshold"]
        )
        [output] = llm.generate(case["prompt_ids"], params(case), decoding=decoding)
        # The recorded tokens end with the hand-over token of a block that is not filled.
        wanted = case["output_ids"]
        assert output.token_ids[: len(wanted)] == wanted, case["name"]
        assert len(wanted) >= case["gen_length"] - 7 and len(output.token_ids) == case["gen_length"]
        slots = len(tail(output))
        assert output.stats.total_passes == slots if case["threshold"] == 1.0 else output.stats.total_passes <= slots


@pytest.mark.parametrize("backend", BACKENDS)
def test_editing(load: Load, backend: str) -> None:
    llm = load("llada2_moe", backend=backend)
    found = cases("llada2_moe", "generate")
    assert len(found) == 36
    for case in found:
        threshold = case["editing_threshold"]
        decoding = dlmrs.BlockDiffusion(
            block_length=case["block_length"],
            threshold=case["threshold"],
            editing_threshold="off" if threshold is None else threshold,
            max_post_steps=None if threshold is None else case["max_post_steps"],
        )
        [output] = llm.generate(case["prompt_ids"], params(case), decoding=decoding)
        assert output.token_ids == case["output_ids"], case["name"]
        assert output.stats.total_passes == case["reference_nfe"], case["name"]
        assert (output.stats.edited > 0) == (threshold is not None), case["name"]


def test_edits_are_told_and_traced(load: Load) -> None:
    llm = load("llada2_moe")
    decoding = dlmrs.BlockDiffusion(block_length=8, threshold=0.3, editing_threshold=0.2)
    settings = dlmrs.SamplingParams(max_tokens=24, ignore_eos=True, trace=True)
    holds: dict[int, int] = {}
    committed: list[int] = []
    replaced = []
    for event in llm.stream([5, 6, 7], settings, decoding=decoding):
        if isinstance(event, dlmrs.Revealed):
            for place, token, how in zip(event.positions, event.token_ids, event.how, strict=True):
                assert place >= 3 + len(committed) and (how == "edited") == (place in holds)
                if place in holds:
                    replaced.append((place, holds[place]))
                holds[place] = token
        elif isinstance(event, dlmrs.Committed):
            committed += event.token_ids
        else:
            output = event.output
    assert committed == output.token_ids == [holds[place] for place in range(3, 27)]
    assert output.trace is not None and len(replaced) == output.stats.edited > 0
    assert sorted((place, token) for place, token, _ in output.trace.replaced) == sorted(replaced)
    assert "edited" in output.trace.how and len(output.trace) == output.stats.revealed


def test_rnd1_by_its_own_schedule(load: Load) -> None:
    llm = load("rnd1")
    settings = dlmrs.SamplingParams(max_tokens=20, ignore_eos=True)
    [own] = llm.generate([5, 6, 7], settings, decoding=dlmrs.Canvas(steps=7))
    [named] = llm.generate([5, 6, 7], settings, decoding=dlmrs.Canvas(steps=7, alg="even_entropy"))
    assert own.token_ids == named.token_ids and own.stats.total_passes == 7


def test_a_batch_gives_what_each_prompt_gives_alone(load: Load) -> None:
    llm = load("sdar")
    found = [c for c in cases("sdar", "generate") if c["strategy"] == "low_confidence_dynamic"][:8]
    settings = [params(case) for case in found]
    decoding = dlmrs.BlockDiffusion(threshold=0.3)
    together = llm.generate([case["prompt_ids"] for case in found], settings, decoding=decoding)
    for case, one, output in zip(found, settings, together, strict=True):
        [alone] = llm.generate(case["prompt_ids"], one, decoding=decoding)
        assert alone.canvas_token_ids == output.canvas_token_ids, case["name"]
        assert alone.stats.passes == output.stats.passes, case["name"]
