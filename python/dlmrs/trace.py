"""How each slot of a canvas came to be decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Trace:
    """How each decided slot came to be decided, in order of place; one entry a slot in every array.

    Slots behind the stop or beyond ``max_tokens`` are there too: entry i is a token of the answer if
    ``positions[i] - len(output.prompt_token_ids)`` is from 0 to ``len(output.token_ids) - 1``.
    :func:`dlmrs.plot.reveal_order` draws it.

    Attributes:
        positions: Places in the canvas, prompt included.
        token_ids: What the slots hold.
        passes: The pass of the request that decided the slot, from 1.
        probabilities: The token's probability, as the method's rule took it.
        entropies: Entropy of the slot's row, in nats.
        margins: Probability of the row's first token minus that of its second.
        how: ``ranked``: chosen within the step's share; ``bound``: beyond it, by a threshold or an entropy bound;
            ``accepted``: guessed and confirmed; ``corrected``: put in place of a guess; ``edited``: put in place of a
            token that was decided before.
        replaced: What edited slots held before, as (place, token, the pass that had decided it), in the order in which
            that was decided. The arrays have of each slot the last time only.
        kept_suffix: Of each block of a canvas that was begun, the places behind it that its passes fed.
    """

    positions: npt.NDArray[np.int64]
    token_ids: npt.NDArray[np.int64]
    passes: npt.NDArray[np.int64]
    probabilities: npt.NDArray[np.float32]
    entropies: npt.NDArray[np.float32]
    margins: npt.NDArray[np.float32]
    how: list[Literal["ranked", "bound", "accepted", "corrected", "edited"]]
    replaced: list[tuple[int, int, int]]
    kept_suffix: list[list[int]]

    def __len__(self) -> int:
        return len(self.how)

    def __repr__(self) -> str:
        passes = int(self.passes.max()) if len(self) else 0
        return f"Trace({len(self)} slots in {passes} passes)"
