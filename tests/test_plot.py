"""dlmrs.plot, drawn without a screen."""

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dlmrs
import matplotlib
import numpy as np
import pytest
from dlmrs.plot import reveal_order
from matplotlib import pyplot

matplotlib.use("Agg")


@dataclass
class Trace:
    """Slots of one canvas in blocks of 4, some decided together."""

    slots: int
    first: int = 10
    positions: Any = field(init=False)
    passes: Any = field(init=False)
    probabilities: Any = field(init=False)

    def __post_init__(self) -> None:
        slots = np.arange(self.slots)
        self.positions = slots + self.first
        self.passes = 1 + 2 * (slots // 4) + slots % 4 // 3
        self.probabilities = np.linspace(0.2, 1.0, self.slots, dtype=np.float32)


@pytest.fixture(autouse=True)
def _close_all() -> Any:
    yield
    pyplot.close("all")


@pytest.mark.parametrize("slots", [1, 40, 41, 1000])
def test_one_cell_a_slot(slots: int, tmp_path: Path) -> None:
    trace = Trace(slots)
    axes = reveal_order(trace, tokens=[f" t{i}" for i in range(slots)])
    [cells] = axes.collections
    centres = np.array([path.vertices[:4].mean(axis=0) for path in cells.get_paths()])
    np.testing.assert_allclose(centres, np.stack([trace.positions, trace.passes], axis=1))
    np.testing.assert_allclose(cells.get_array(), trace.probabilities)
    assert cells.get_clim() == (0.0, 1.0)
    low, high = axes.get_xlim()
    assert low < trace.positions.min() and trace.positions.max() < high
    bottom, top = axes.get_ylim()
    assert top < 1 and trace.passes.max() < bottom, "pass 1 is at the top"
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert (labels == [f"␣t{i}" for i in range(slots)]) == (slots <= 40)
    axes.figure.savefig(tmp_path / "order.png")
    assert (tmp_path / "order.png").stat().st_size > 1000
    assert max(axes.figure.get_size_inches()) <= 16


def test_an_output_with_a_trace_and_given_axes() -> None:
    _, axes = pyplot.subplots()
    assert reveal_order(SimpleNamespace(trace=Trace(3)), ax=axes, tokens=["a\n", "$x$", "t" * 30]) is axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a⏎", r"\$x\$", "t" * 13 + "…"]
    axes.figure.canvas.draw()


def test_what_cannot_be_drawn() -> None:
    uneven = Trace(3)
    uneven.passes = uneven.passes[:2]
    for trace, options, message in [
        (Trace(0), {}, "trace: is empty"),
        (uneven, {}, "trace: has 3 positions, 2 passes and 3 probabilities"),
        (SimpleNamespace(trace=None), {}, "trace: is SimpleNamespace without a trace"),
        (5, {}, "trace: is int without a trace"),
        (Trace(2), {"tokens": ["a"]}, "tokens: has 1 texts for 2 slots"),
    ]:
        with pytest.raises(dlmrs.InputError, match=message):
            reveal_order(trace, **options)
    assert pyplot.get_fignums() == []


def test_without_matplotlib_it_says_what_to_install() -> None:
    program = "import sys; sys.modules['matplotlib'] = None\nimport dlmrs.plot; dlmrs.plot.reveal_order(None)"
    run = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=120)
    assert "ImportError: dlmrs.plot needs matplotlib, which is not installed: pip install 'dlmrs[plot]'" in run.stderr
