"""The methods of decoding: one frozen dataclass each, with the papers' own parameter names.

None means the checkpoint's own way, which each field documents. All values are checked when the object is made; a wrong
one raises :class:`dlmrs.InputError`.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from dlmrs._dlmrs import check_decoding


@dataclass(frozen=True, kw_only=True)
class BlockDiffusion:
    """Block diffusion, for block-causal models (SDAR): blocks from left to right, each denoised in steps.

    Grade of exactness: **identical**. Finished blocks are cached exactly, so the tokens are those of the model without
    a cache. The last block is computed whole and the output is cut to ``max_tokens``.

    Attributes:
        block_length: Slots decided together. None: the checkpoint's. Another than the weights were trained for
            warns.
        steps: Steps **of a block**, NOT of the whole canvas (that is :attr:`Canvas.steps`). None: one token a step.
        strategy: Which slots a step reveals: the leftmost; the most probable, as many as the step's share; all
            above ``threshold`` if these are at least the share, else as before; by rising entropy up to
            ``entropy_bound``; or those with the largest distance between first and second token.
        threshold: For ``low_confidence_dynamic``: reveal above this probability (>). 0 or less reveals all, 1 or
            more none but the step's share. None: 0.85, the reference's.
        entropy_bound: For ``entropy_bounded``, in nats. None: 0.35, the reference's.
    """

    block_length: int | None = None
    steps: int | None = None
    strategy: Literal["sequential", "low_confidence_static", "low_confidence_dynamic", "entropy_bounded", "margin"] = (
        "low_confidence_dynamic"
    )
    threshold: float | None = None
    entropy_bound: float | None = None

    def __post_init__(self) -> None:
        check_decoding(self)


@dataclass(frozen=True, kw_only=True)
class Canvas:
    """Canvas diffusion, for bidirectional models (LLaDA, Dream): prompt and all slots in one canvas, decided block by
    block, every pass over the whole canvas. The canvas is exactly ``max_tokens`` long behind the prompt.

    Grade of exactness: **identical**. Nothing is cached, so nothing is stale.

    Settings that would have no effect together are refused when a request is made, but for ``steps`` beside a
    ``threshold``.

    Attributes:
        block_length: Slots decided together, counted from the prompt's end; the last block may be shorter. None: 32
            for LLaDA, the whole canvas for Dream.
        steps: Steps **of the whole canvas**, NOT of a block (that is :attr:`BlockDiffusion.steps`). None: one token
            a step. Ignored with a ``threshold``.
        strategy: Which slots stay masked in a step: the least probable, or random ones.
        threshold: Reveal everything at least this probable (>=), and always the most probable. 0 or less reveals
            all, above 1 one a step. None: the fixed schedule of ``steps``.
        cfg_scale: Classifier-free guidance; 0 is off. Above 0 every step costs two passes.
        alg: Dream's schedules in place of the fixed one; not together with a ``threshold``. None: ``entropy`` for
            Dream, off for LLaDA.
        eps: Where Dream's time line ends, between 0 and 1.
        alg_temp: Above 0 the slots of Dream's schedules are drawn from softmax(confidence / alg_temp); 0 takes them
            in order.
        logits_eos_inf: The end-of-text id is never drawn (LLaDA's option of this name).
        confidence_eos_eot_inf: Slots whose token is a stop id are revealed last (LLaDA's option of this name); not
            where slots are drawn at random.
    """

    block_length: int | None = None
    steps: int | None = None
    strategy: Literal["low_confidence", "random"] = "low_confidence"
    threshold: float | None = None
    cfg_scale: float = 0.0
    alg: Literal["origin", "maskgit_plus", "topk_margin", "entropy"] | None = None
    eps: float = 1e-3
    alg_temp: float = 0.0
    logits_eos_inf: bool = False
    confidence_eos_eot_inf: bool = False

    def __post_init__(self) -> None:
        check_decoding(self)


Decoding: TypeAlias = BlockDiffusion | Canvas
"""Any method of decoding."""
