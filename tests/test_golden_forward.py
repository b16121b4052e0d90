"""Rows of logits against what the reference implementations compute, through LLM.forward."""

from collections.abc import Callable
from typing import Any

import dlmrs
import numpy as np
import numpy.typing as npt
import pytest
from golden_data import GOLDEN, MASK, Case, cases, tensors

Load = Callable[..., dlmrs.LLM]
Bools = npt.NDArray[np.bool_]
SDAR = ["sdar", "sdar_tied", "sdar_onelayer"]
BACKENDS = ["kernels", "plain"]


def recorded(family: str, case: Case, file: str = "logits.safetensors") -> npt.NDArray[np.float32]:
    return tensors(GOLDEN / family / file)[case["logits"]]


def assert_close(name: str, found: npt.NDArray[np.float32], wanted: npt.NDArray[np.float32]) -> None:
    assert found.dtype == np.float32
    assert found.shape == wanted.shape, name
    worst = float(np.abs(found - wanted).max())
    assert worst <= 2e-4, f"{name}: differs by {worst}"


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("family", [*SDAR, "llada", "dream", "fast_dllm_v2"])
def test_every_row_of_a_sequence(load: Load, family: str, backend: str) -> None:
    for case in cases(family, "forward"):
        llm = load(family, block_length=case.get("block_length"), backend=backend)
        wanted = recorded(family, case)
        assert_close(case["name"], llm.forward(case["input_ids"]), wanted)
        # Some rows only, in any order, from an array.
        last = len(wanted) - 1
        some = llm.forward(np.array(case["input_ids"], dtype=np.int32), rows=[last, 0, last])
        assert_close(case["name"], some, wanted[[last, 0, last]])


def block_causal(positions: npt.NDArray[np.int64], block: int) -> Bools:
    blocks = positions // block
    return np.asarray(blocks[None, :] <= blocks[:, None])


def paired_sees(tau: npt.NDArray[np.int64]) -> Bools:
    """The four quadrants of SimSD's paired pass: [2B, 2B], data half and mask half."""
    row, key = tau[:, None], tau[None, :]
    return np.block([[key <= row, key > row], [key < row, key >= row]])


def verify(llm: dlmrs.LLM, case: Case) -> npt.NDArray[np.float32]:
    """The paired pass of a `verify` case with its prefix inside the pass, as one masked forward."""
    prefix, draft, block = case["prefix_ids"], case["draft_ids"], case["block_length"]
    tau = np.array([t if t >= 0 else 1 << 30 for t in case["tau"]])
    p, b = len(prefix), len(draft)
    pair = np.arange(p, p + 2 * b) if not case["aligned"] else np.tile(np.arange(p, p + b), 2)
    mask = np.zeros((p + 2 * b, p + 2 * b), dtype=bool)
    mask[:p, :p] = block_causal(np.arange(p), block)
    mask[p:, :p] = True
    mask[p:, p:] = paired_sees(tau)
    return llm.forward(
        [*prefix, *draft, *[MASK] * b],
        positions=np.concatenate([np.arange(p), pair]),
        mask=mask,
        rows=range(p + b, p + 2 * b),
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("family", SDAR)
def test_paired_verification(load: Load, family: str, backend: str) -> None:
    llm = load(family, backend=backend)
    for case in cases(family, "verify"):
        assert_close(case["name"], verify(llm, case), recorded(family, case))


def test_paired_verification_with_undrafted_slots(load: Load) -> None:
    found = [case for case in cases("sdar", "verify", "own.json") if case["layout"] == "paired"]
    assert found
    for case in found:
        assert_close(case["name"], verify(load("sdar"), case), recorded("sdar", case, "own.safetensors"))


@pytest.mark.parametrize("family", SDAR)
def test_states_of_a_block(load: Load, family: str) -> None:
    for case in cases(family, "state"):
        prefix, block_ids = case["prefix_ids"], case["block_ids"]
        llm = load(family, block_length=case["block_length"])
        rows = range(len(prefix), len(prefix) + len(block_ids))
        assert_close(case["name"], llm.forward(prefix + block_ids, rows=rows), recorded(family, case))


def test_the_native_visibility_is_block_causal_or_full(load: Load) -> None:
    ids = list(range(10, 22))
    n = len(ids)
    block: Any = block_causal(np.arange(n), 4)
    np.testing.assert_array_equal(load("sdar").forward(ids), load("sdar").forward(ids, mask=block))
    full = np.ones((n, n), dtype=bool)
    np.testing.assert_array_equal(load("llada").forward(ids), load("llada").forward(ids, mask=full.tolist()))
