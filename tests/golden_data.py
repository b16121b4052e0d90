"""Reading the golden data (tests/golden) and the other data of the tests."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

TESTS = Path(__file__).parent
GOLDEN = TESTS / "golden"
MASK = 317
"""The mask token of every golden checkpoint."""

Case = dict[str, Any]


@cache
def tensors(path: Path) -> dict[str, npt.NDArray[np.float32]]:
    """The float32 tensors of a safetensors file: 8 bytes of header length, a JSON header, then the data."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        assert entry["dtype"] == "F32", f"{path}: {name} is {entry['dtype']}"
        begin, end = entry["data_offsets"]
        found[name] = np.frombuffer(data[start + begin : start + end], dtype="<f4").reshape(entry["shape"])
    return found


@cache
def all_cases(family: str, file: str) -> list[Case]:
    """Every case of a file."""
    cases: list[Case] = json.loads((GOLDEN / family / file).read_text())["cases"]
    return cases


def cases(family: str, kind: str, file: str = "cases.json") -> list[Case]:
    """The cases of a kind, which must not be none."""
    found = [case for case in all_cases(family, file) if case["kind"] == kind]
    assert found, f"{family}/{file} has no case of kind {kind}"
    return found


def word_problems(count: int) -> list[dict[str, str]]:
    """The first word problems: question and answer."""
    lines = (TESTS.parent / "crates" / "dlmrs-tasks" / "data" / "word_problems.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines[:count]]
