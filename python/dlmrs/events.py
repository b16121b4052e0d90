"""What a stream gives: how a canvas fills, which text is final, and the result."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from dlmrs.output import Output


@dataclass(frozen=True, kw_only=True)
class Revealed:
    """Slots were decided. They may yet be cut off: behind a stop, or beyond ``max_tokens``. With an ``editing_threshold``
    a slot may come again, until its block is committed.

    Attributes:
        pass_number: Passes of the request so far.
        positions: Places in the canvas, prompt included.
        token_ids: What these slots hold.
        probabilities: How sure the model was of each.
        how: Why each was decided now, as in :class:`Trace`; ``edited`` where it held another token before.
    """

    pass_number: int
    positions: list[int]
    token_ids: list[int]
    probabilities: list[float]
    how: list[Literal["ranked", "bound", "accepted", "corrected", "edited"]]


@dataclass(frozen=True, kw_only=True)
class Committed:
    """Tokens that will not change any more: whole blocks or sub-blocks, in order. All texts together are the output's text.

    Attributes:
        token_ids: The new tokens.
        text: Their text, as far as it is complete.
    """

    token_ids: list[int]
    text: str


@dataclass(frozen=True, kw_only=True)
class Finished:
    """The request has ended.

    Attributes:
        output: Its result.
    """

    output: Output


Event: TypeAlias = Revealed | Committed | Finished
"""Anything that a stream gives."""
