"""Pictures of how a text came about (``pip install 'dlmrs[plot]'``)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from dlmrs.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Revealed", "reveal_order"]

_LABELLED = 40
"""Up to so many slots each gets its text; more would overlap."""

_CELL = 0.34
"""Inches of a slot's width where it has a text."""

_HEIGHT = 8.0
"""Inches that a picture is high at most."""

_WIDTH = 16.0
"""Inches that a picture is wide at most."""


class Revealed(Protocol):
    """What is drawn of a trace: arrays of one length, ordered by place in the canvas."""

    @property
    def positions(self) -> npt.NDArray[np.int64]: ...
    @property
    def passes(self) -> npt.NDArray[np.int64]: ...
    @property
    def probabilities(self) -> npt.NDArray[np.float32]: ...


def reveal_order(trace: Any, *, tokens: Sequence[str] | None = None, ax: "Axes | None" = None) -> "Axes":
    """Draws which pass decided each slot: slots from left to right, passes from top to bottom, the darker the more
    probable the token was. Slots on one row were decided together.

    Args:
        trace: A :class:`dlmrs.Trace`, an :class:`dlmrs.Output` that has one, or anything with the arrays of
            :class:`Revealed`.
        tokens: The text of each slot, written under it where there is room (up to 40 slots).
        ax: Where to draw; None makes a figure that fits.

    Returns:
        The axes; ``ax.figure.savefig("order.png")`` keeps the picture.
    """
    try:
        from matplotlib import pyplot
        from matplotlib.collections import PolyCollection
        from matplotlib.ticker import MaxNLocator
    except ImportError as error:
        raise ImportError("dlmrs.plot needs matplotlib, which is not installed: pip install 'dlmrs[plot]'") from error

    positions, passes, probabilities = _arrays(trace)
    texts = _texts(tokens, len(positions))
    if ax is None:
        _, ax = pyplot.subplots(
            figsize=_size(len(positions), int(passes.max() - passes.min()) + 1), layout="constrained"
        )
    corners = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
    cells = PolyCollection(
        np.stack([positions, passes], axis=1)[:, None, :] + corners,  # [slots, 4, 2]
        array=probabilities,
        cmap="viridis_r",
        edgecolors="white",
        linewidths=0.5 if len(positions) <= 4 * _LABELLED else 0.0,
    )
    cells.set_clim(0.0, 1.0)
    ax.add_collection(cells)
    ax.set_xlim(positions.min() - 0.5, positions.max() + 0.5)
    ax.set_ylim(passes.max() + 0.5, passes.min() - 0.5)
    ax.set_ylabel("pass")
    ax.set_axisbelow(True)
    ax.grid(axis="y", alpha=0.3)
    ax.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    if texts is not None and len(positions) <= _LABELLED:
        ax.set_xticks(positions, texts, rotation=90, fontfamily="monospace", fontsize="small")
        ax.set_xlabel("token")
    else:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        ax.set_xlabel("place in the canvas")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.figure.colorbar(cells, ax=ax, label="probability", pad=0.01)
    return ax


def _arrays(trace: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Positions, passes and probabilities, of one length above 0."""
    if not hasattr(trace, "positions"):
        if getattr(trace, "trace", None) is None:
            raise InputError(
                f"trace: is {type(trace).__name__} without a trace; a Trace, or an Output that has one, is needed"
            )
        trace = trace.trace
    positions, passes = np.asarray(trace.positions, dtype=np.int64), np.asarray(trace.passes, dtype=np.int64)
    probabilities = np.asarray(trace.probabilities, dtype=np.float64)
    lengths = [len(positions), len(passes), len(probabilities)]
    if len(set(lengths)) > 1:
        raise InputError(
            f"trace: has {lengths[0]} positions, {lengths[1]} passes and {lengths[2]} probabilities; one each a slot is needed"
        )
    if not lengths[0]:
        raise InputError("trace: is empty; at least one slot is needed")
    return positions, passes, probabilities


def _texts(tokens: Sequence[str] | None, slots: int) -> list[str] | None:
    """The texts with their white space made visible, and dollar signs that do not begin a formula."""
    if tokens is None:
        return None
    if len(tokens) != slots:
        raise InputError(f"tokens: has {len(tokens)} texts for {slots} slots")
    shown = [text.replace(" ", "␣").replace("\n", "⏎").replace("\t", "⇥").replace("$", r"\$") for text in tokens]
    return [text if len(text) <= 14 else text[:13] + "…" for text in shown]


def _size(slots: int, passes: int) -> tuple[float, float]:
    """Inches of a figure."""
    width = slots * _CELL if slots <= _LABELLED else _WIDTH
    return min(max(width, 2.0) + 2.0, _WIDTH), min(passes * 0.22 + 1.6, _HEIGHT)
