"""What may be asked of sampling, whatever the method of decoding."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dlmrs._dlmrs import check_params


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """Settings of one request. The defaults are greedy decoding of at most 256 tokens.

    All values are checked when the object is made; a wrong one raises :class:`dlmrs.InputError`.
    The same request with the same seed gives the same tokens, alone or in a batch and with any number of threads.
    The noise of a token is a function of (seed, position): a slot that several steps look at meets the same noise.
    (The reference implementations draw afresh each step.)

    Attributes:
        max_tokens: At most this many tokens are given back. Prompt and ``max_tokens`` together must fit the model.
        min_tokens: No stop id is drawn, and no stop string counts, before so many tokens.
        temperature: 0 is greedy; above 0 tokens are drawn from softmax(logits / temperature).
        top_p: Draw among the most likely tokens that hold this much probability, above 0 and up to 1; 1 is off.
        top_k: Draw among so many most likely tokens; 0 is off, 1 is greedy.
        seed: 0 to 2**64 - 1. None draws a seed, which :attr:`Output.seed` tells.
        stop: The text ends before the first of these strings. Needs a tokenizer.
        stop_token_ids: Further ids that end the text, besides the checkpoint's own.
        ignore_eos: Switches every early stop off, ``stop`` and ``stop_token_ids`` included.
        repetition_penalty: Divides positive and multiplies negative logits of tokens that the canvas holds; above
            0, 1 is off.
        logit_bias: Added to the logits of these ids. None is no bias; ``-inf`` bans an id.
        banned_token_ids: Ids that are never drawn.
        trace: Whether :attr:`Output.trace` tells how each slot was decided.
    """

    max_tokens: int = 256
    min_tokens: int = 0
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    stop: str | Sequence[str] = ()
    stop_token_ids: Sequence[int] = ()
    ignore_eos: bool = False
    repetition_penalty: float = 1.0
    logit_bias: Mapping[int, float] | None = None
    banned_token_ids: Sequence[int] = ()
    trace: bool = False

    def __post_init__(self) -> None:
        check_params(self)
