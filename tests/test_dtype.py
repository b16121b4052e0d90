"""How the weights are held."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dlmrs

PROBLEM = "Mia has 63 beads. Mia gives 54 to Dan. How many beads does Mia have now?"


def test_auto_is_bf16_where_weights_are_stored_so() -> None:
    with dlmrs.LLM("tiny-sdar") as auto, dlmrs.LLM("tiny-sdar", dtype="f32") as wide:
        assert (auto.dtype, wide.dtype) == ("bf16", "f32")
        ids = list(range(20, 60))
        assert np.array_equal(auto.forward(ids), wide.forward(ids))


@pytest.mark.parametrize(("dtype", "alike"), [("bf16", 0.95), ("int8", 0.9), ("int4", 0.6), ("int4-128", 0.5)])
@pytest.mark.parametrize("model", ["tiny-sdar", "tiny-llada"])
def test_rounded_weights(model: str, dtype: str, alike: float) -> None:
    with dlmrs.LLM(model) as exact, dlmrs.LLM(model, dtype=dtype, threads=2) as llm:
        assert llm.dtype == dtype
        ids = [exact.mask_token_id if i % 3 == 2 else 20 + i * 7919 % 600 for i in range(48)]
        wanted, found = exact.forward(ids), llm.forward(ids)
        assert not np.array_equal(found, wanted)
        assert (found.argmax(1) == wanted.argmax(1)).mean() >= alike
        together = llm.chat([[{"role": "user", "content": PROBLEM}], [{"role": "user", "content": "Ann has 9 books."}]])
        alone = llm.chat([{"role": "user", "content": PROBLEM}])
        assert together[0].token_ids == alone.token_ids


def test_a_draft_in_fewer_bits_changes_no_token() -> None:
    params = dlmrs.SamplingParams(max_tokens=40)
    with dlmrs.LLM("tiny-sdar", draft="tiny-sdar-draft", dtype="int8") as pair:
        chat = [{"role": "user", "content": PROBLEM}]
        alone = pair.chat(chat, params, decoding=dlmrs.BlockDiffusion())
        found = pair.chat(chat, params, decoding=dlmrs.SimSD())
        assert found.token_ids == alone.token_ids


def test_quantize_writes_a_model(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dlmrs", "quantize", "tiny-sdar", str(tmp_path / "small"), "--dtype", "int4", "--no-compare"]
    assert "as int4" in subprocess.run(command, check=True, capture_output=True, text=True).stdout
    with dlmrs.LLM(tmp_path / "small") as written, dlmrs.LLM("tiny-sdar", dtype="int4") as loaded:
        assert written.dtype == "int4"
        ids = list(range(20, 60))
        assert np.array_equal(written.forward(ids), loaded.forward(ids))
