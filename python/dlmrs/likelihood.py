"""How probable a model finds an answer: two estimates of log p(answer | context), from rows of :meth:`dlmrs.LLM.forward`.

A diffusion model gives probabilities of masked slots, not of a text, so log p(answer | context) depends on the order in
which slots are decided. With an answer a of L tokens behind a context c:

``left_to_right`` takes the order of reading, which is an exact chain rule of the model's own conditionals::

    sum over i = 1..L of  log p(a_i | c, a_1 .. a_{i-1}, slots i..L masked)

``monte_carlo`` averages over all orders (LLaDA's estimate: Nie et al. 2025, "Large Language Diffusion Models",
arXiv:2502.09992, its equation for conditional likelihoods)::

    E over l in 1..L and over sets M of l slots of  (L / l) * sum over i in M of  log p(a_i | c, answer with M masked)

It is a lower bound in expectation of the log-likelihood of the model that decides slots in random order. ``mc_num`` sets M
are drawn, l in strata (each l equally often, up to rounding); where an answer has no more than ``mc_num`` sets at all
(2^L - 1), each is computed once with its exact weight, and nothing is random.

A bidirectional model (LLaDA, Dream) sees the canvas c + a, no longer than that. A block-causal model (SDAR) cuts the canvas
into blocks of B from position 0; log p is the sum over the blocks that hold answer tokens, each given all earlier blocks
unmasked, and both estimates are applied inside a block (Arriola et al. 2025, "Block Diffusion", arXiv:2503.09573). Slots of
the last block behind the answer are masks, as they are when the block is generated, and they are not scored.

Several canvases go through one forward, under a mask that keeps them apart. On a CPU in f32 the values are the same bits
alone and in a batch.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
import numpy.typing as npt

from dlmrs._dlmrs import LLM
from dlmrs.errors import InputError

__all__ = ["Likelihood", "Score", "maskings"]

_ROWS = 512
"""Rows of a forward, besides the prefix that the states of one answer share, and unless one canvas alone has more."""

_READS = 256
"""Rows of a forward that are read; each is a row of logits of the size of the vocabulary."""


@dataclass(frozen=True)
class Score:
    """What a model thinks of an answer.

    Attributes:
        log_probability: The estimate of log p(answer | context), in nats.
        is_greedy: Whether the most probable token was the answer's in every masked slot that was looked at. With
            ``left_to_right`` that is: whether greedy decoding from left to right would give the answer.
    """

    log_probability: float
    is_greedy: bool


@dataclass(frozen=True)
class _State:
    """A block at one moment (or a whole canvas, which is one block): the rows that are read, -1 the one before it, and the
    tokens wanted there."""

    start: int
    tokens: list[int]
    rows: list[int]
    wanted: list[int]
    weight: float


@dataclass
class _Piece:
    """Some states of one answer, behind one copy of the tokens before them."""

    answer: int
    prefix: list[int]
    states: list[_State]

    def __len__(self) -> int:
        return len(self.prefix) + sum(len(state.tokens) for state in self.states)


class Likelihood:
    """Scores answers with a model.

    Args:
        llm: The model; it is not closed here.
        method: ``auto`` is ``left_to_right`` for block-causal models, where all its states fit one forward, and
            ``monte_carlo`` for bidirectional ones, as LLaDA's authors evaluate them.
        mc_num: Draws of an answer (of a block's part of it, for block-causal models).
        mc_seed: With the context's tokens it fixes which sets of slots are drawn: the same alone and in a batch, and
            the same for answers of one length to one context, which makes them comparable.
    """

    def __init__(
        self,
        llm: LLM,
        *,
        method: Literal["auto", "monte_carlo", "left_to_right"] = "auto",
        mc_num: int = 128,
        mc_seed: int = 0,
    ) -> None:
        if method not in ("auto", "monte_carlo", "left_to_right"):
            raise InputError(f"loglikelihood: {method!r} is unknown; use auto, monte_carlo or left_to_right")
        for name, value, least in (("mc_num", mc_num, 1), ("mc_seed", mc_seed, 0)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(f"{name}: is {value!r}; a whole number of at least {least} is needed")
        self._llm = llm
        self._block = llm.block_length if llm.attention == "block-causal" else None
        self._random = method == "monte_carlo" or (method == "auto" and self._block is None)
        self._mc_num = mc_num
        self._mc_seed = mc_seed

    @property
    def method(self) -> str:
        """The estimate in use: ``monte_carlo`` or ``left_to_right``."""
        return "monte_carlo" if self._random else "left_to_right"

    @property
    def max_tokens(self) -> int:
        """Tokens that context and answer may have together: whole blocks, where there are blocks."""
        limit = self._llm.max_model_len
        return limit if self._block is None else limit - limit % self._block

    def score(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[Score]:
        """Scores (context, answer) pairs of token ids. Either may be empty; an empty answer has probability 1."""
        found: list[list[tuple[float, bool]]] = [[] for _ in pairs]
        for pieces in self._packs(pairs):
            logits = iter(self._forward(pieces))
            for piece in pieces:
                for state in piece.states:
                    rows = [self._read(next(logits), token) for token in state.wanted]
                    found[piece.answer].append(
                        (state.weight * math.fsum(log_p for log_p, _ in rows), all(best for _, best in rows))
                    )
        return [Score(math.fsum(log_p for log_p, _ in states), all(best for _, best in states)) for states in found]

    def _read(self, logits: npt.NDArray[np.float32], token: int) -> tuple[float, bool]:
        """The token's log-probability, and whether it is the most probable one. A mask is never drawn, but counts."""
        top = logits.max()
        log_p = float(logits[token] - top) - math.log(np.exp(logits - top).sum(dtype=np.float64))
        logits[self._llm.mask_token_id] = -np.inf
        return log_p, int(logits.argmax()) == token

    def _packs(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Iterator[list[_Piece]]:
        """All states, as many to a forward as fit. States of an answer share the tokens before them."""
        most = self._llm.max_model_len
        pack: list[_Piece] = []
        rows = reads = 0
        for answer, (context, continuation) in enumerate(pairs):
            tokens = [*context, *continuation]
            for state in self._states(tokens, len(context)):
                new = not pack or pack[-1].answer != answer
                more = len(state.tokens) + state.start - (0 if new else len(pack[-1].prefix))
                limit = min(most, _ROWS if new else _ROWS + state.start)
                if pack and (rows + more > limit or reads + len(state.rows) > _READS):
                    yield pack
                    pack, rows, reads, new = [], 0, 0, True
                    more = len(state.tokens) + state.start
                if new:
                    pack.append(_Piece(answer, [], []))
                piece = pack[-1]
                piece.prefix.extend(tokens[len(piece.prefix) : state.start])
                piece.states.append(state)
                rows, reads = rows + more, reads + len(state.rows)
        if pack:
            yield pack

    def _states(self, tokens: list[int], first: int) -> Iterator[_State]:
        """The states whose rows are needed for ``tokens[first:]``, block by block."""
        if first == len(tokens):
            return
        if len(tokens) > self.max_tokens:
            raise InputError(
                f"context and continuation: have {len(tokens)} tokens together, but the model takes at most {self.max_tokens}"
            )
        block = self._block or len(tokens)
        mask = self._llm.mask_token_id
        shift = int(self._llm.shift)
        random = np.random.default_rng([self._mc_seed, *tokens[:first]])
        for start in range(first - first % block, len(tokens), block):
            filled = tokens[start : start + block]
            filled += [mask] * (block - len(filled))
            slots = range(max(first, start) - start, min(len(tokens) - start, block))
            for masked, weight in self._maskings(len(slots), random):
                state = filled.copy()
                for slot in masked:
                    state[slots[slot]] = mask
                scored = [slots[slot] for slot in (masked if self._random else masked[:1])]
                # A block's first slot has its prediction in the last row before the block, which a state sees as it is.
                rows = [max(slot - shift, -1 if start else 0) for slot in scored]
                yield _State(start, state, rows, [filled[slot] for slot in scored], weight)

    def _maskings(self, slots: int, random: np.random.Generator) -> list[tuple[tuple[int, ...], float]]:
        """Which slots are masked together. From left to right only the first of them is read."""
        if not self._random:
            return [(tuple(range(slot, slots)), 1.0) for slot in range(slots)]
        return maskings(slots, self._mc_num, random)

    def _forward(self, pieces: list[_Piece]) -> npt.NDArray[np.float32]:
        """The rows that are read, in order. Pieces do not see each other; a state sees what is before its start."""
        if len(pieces) == 1 and not pieces[0].prefix and len(pieces[0].states) == 1:
            [state] = pieces[0].states
            return self._llm.forward(state.tokens, rows=state.rows)
        size = sum(map(len, pieces))
        sees = np.zeros((size, size), dtype=np.bool_)  # [R, R]
        tokens: list[int] = []
        positions: list[int] = []
        rows: list[int] = []
        for piece in pieces:
            base, length = len(tokens), len(piece.prefix)
            blocks = np.arange(length) // (self._block or 1)
            sees[base : base + length, base : base + length] = blocks[None, :] <= blocks[:, None]
            tokens += piece.prefix
            positions += range(length)
            for state in piece.states:
                here, end = len(tokens), len(tokens) + len(state.tokens)
                sees[here:end, base : base + state.start] = True
                sees[here:end, here:end] = True
                rows += [here + row if row >= 0 else base + state.start + row for row in state.rows]
                tokens += state.tokens
                positions += range(state.start, state.start + len(state.tokens))
        return self._llm.forward(tokens, positions=positions, mask=sees, rows=rows)


def maskings(slots: int, draws: int, random: np.random.Generator) -> list[tuple[tuple[int, ...], float]]:
    """Sets of masked slots with their weights: the estimate is the weighted sum of the sets' sums of log-probabilities.

    Every set with its exact weight if there are no more than ``draws``; else ``draws`` random ones, where a set that
    is drawn twice counts twice. The number of masked slots runs evenly from 1 to ``slots``, from a random start.
    """
    if 2**slots - 1 <= draws:
        return [
            (masked, 1.0 / (count * math.comb(slots, count)))
            for count in range(1, slots + 1)
            for masked in combinations(range(slots), count)
        ]
    start = random.random()
    weights: dict[tuple[int, ...], float] = {}
    for draw in range(draws):
        count = 1 + min(int(slots * (draw + start) / draws), slots - 1)
        masked = tuple(sorted(random.choice(slots, size=count, replace=False).tolist()))
        weights[masked] = weights.get(masked, 0.0) + slots / (count * draws)
    return list(weights.items())
