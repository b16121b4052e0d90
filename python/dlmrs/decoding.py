"""The methods of decoding: one frozen dataclass each, with the papers' own parameter names.

None means the checkpoint's own way, which each field documents. All values are checked when the object is made; a wrong
one raises :class:`dlmrs.InputError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from dlmrs._dlmrs import (
    block_preset,
    block_presets,
    check_decoding,
    check_suffix,
    kept_probabilities,
    suffix_preset,
    suffix_presets,
)


@dataclass(frozen=True, kw_only=True)
class _BlockRule:
    """The reveal rule of block diffusion, which several methods share."""

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
class BlockDiffusion(_BlockRule):
    """Block diffusion, for block-causal models (SDAR, LLaDA2): blocks from left to right, each denoised in steps.

    Grade of exactness: **identical**. Finished blocks are cached exactly, so the tokens are those of the model without
    a cache. The last block is computed whole and the output is cut to ``max_tokens``.

    With an ``editing_threshold`` (LLaDA2.1) decided tokens of the current block may be rewritten. A block is final, its text
    given out and its stops looked at, only when that has ended.

    Attributes:
        block_length: Slots decided together. None: the checkpoint's. Another than the weights were trained for
            warns.
        steps: Steps **of a block**, NOT of the whole canvas (that is :attr:`Canvas.steps`). None: one token a step.
        strategy: Which slots a step reveals: the leftmost; the most probable, as many as the step's share; all
            above ``threshold`` if these are at least the share, else as before; by rising entropy up to
            ``entropy_bound``; or those with the largest distance between first and second token.
        threshold: For ``low_confidence_dynamic``: reveal above this probability (>). 0 or less reveals all, 1 or
            more none but the step's share. None: the family's own, 0.85 (SDAR) or 0.95
            (LLaDA2).
        entropy_bound: For ``entropy_bounded``, in nats. None: 0.35, the reference's.
        editing_threshold: Each pass also rewrites decided tokens of the current block, but none of the prompt, where the
            model's token is another one and more probable than this, from 0 to below 1. Only for models that were
            trained for it (LLaDA2.1).
        max_post_steps: With an ``editing_threshold``: passes at most over a block that has no mask any more; one that
            rewrites nothing is the last. None: 16, the reference's.
    """

    editing_threshold: float | Literal["off"] = "off"
    max_post_steps: int | None = None

    @classmethod
    def preset(cls, name: str) -> BlockDiffusion:
        """A published setting for LLaDA2: ``llada2.0`` and ``llada2.1`` are the defaults of its generation code,
        ``llada2.1-quality`` and ``llada2.1-speed`` what its authors recommend."""
        return cls(**block_preset(name))

    @staticmethod
    def presets() -> list[str]:
        """The names of all presets."""
        return block_presets()


@dataclass(frozen=True, kw_only=True)
class SuffixDropout:
    """A random draw of the masks behind the current block, thinner with distance (DPad). It is made once a block, kept
    for all its passes, and depends on the seed, the block and the place alone.

    With d = j / (window - 1), j = 0 right behind the block, a mask is kept with probability min(1, p). For ``gaussian`` p
    is a * phi(k * d), phi the density of the standard normal distribution; for ``exponential`` a * exp(-k * d); for
    ``linear`` a * (1 - d); for ``step`` a in the nearer half of the window and a / k in the other. ``uniform`` keeps exactly
    ``budget`` of the window, all equally likely.

    Attributes:
        window: Masks behind the block that may be kept; what reaches beyond the canvas is cut. None: a quarter of
            ``max_tokens``, at least 64 and at most 256.
        k: Where the window ends on the curve. None: 3; for ``step`` 4. Not for ``linear`` and ``uniform``.
        a: Height of the curve; 0 drops all. None: 2.3 for ``gaussian``, else what ``budget`` asks for.
        kind: The curve.
        budget: How many masks a whole window keeps on average, in place of ``a``. None: as many as a ``gaussian`` of
            k 3 and a 2.3 keeps of this window.
    """

    window: int | None = None
    k: float | None = None
    a: float | None = None
    kind: Literal["gaussian", "uniform", "exponential", "linear", "step"] = "gaussian"
    budget: int | None = None

    def __post_init__(self) -> None:
        check_suffix(self)

    @classmethod
    def preset(cls, name: str) -> SuffixDropout:
        """What DPad's scripts use for a model and a task, such as ``llada-1.5-gsm8k``."""
        return cls(**suffix_preset(name))

    @staticmethod
    def presets() -> list[str]:
        """The names of all presets."""
        return suffix_presets()

    def probabilities(self, max_tokens: int) -> list[float]:
        """The probability of each mask of the window to be kept, the nearest first, for an answer of so many slots; for
        ``uniform`` the share that is kept of a whole window."""
        return kept_probabilities(self, max_tokens)


@dataclass(frozen=True, kw_only=True)
class WindowTail:
    """The nearest masks behind the block and the last ones of the canvas, without chance (Streaming-dLLM).

    Attributes:
        window: So many right behind the block. None: a quarter of ``max_tokens``, at least 64 and at most 256.
        tail: And so many at the canvas's end.
    """

    window: int | None = None
    tail: int = 1

    def __post_init__(self) -> None:
        check_suffix(self)


@dataclass(frozen=True, kw_only=True)
class Spotlight:
    """DPad's ablation: after a block's first pass those masks behind it are dropped that its rows give the most
    attention to, mean over layers, heads and rows. Needs attention maps, so each block's first pass is slow.

    Attributes:
        distance: Only masks farther from the block than this; the one right behind it has distance 1.
        count: So many.
    """

    distance: int = 128
    count: int = 10

    def __post_init__(self) -> None:
        check_suffix(self)


SuffixPolicy: TypeAlias = SuffixDropout | WindowTail | Spotlight | str | Sequence[Sequence[int]]
"""Which masks behind a block are fed. A string is ``off``, ``keep_all``, ``drop_all``, or any policy as the command line
takes it (``gaussian:window=128,k=3,a=1.6``); lists are places of the canvas to keep, one list a block."""


@dataclass(frozen=True, kw_only=True)
class Canvas:
    """Canvas diffusion, for bidirectional models (LLaDA, Dream): prompt and all slots in one canvas, decided block by
    block. The canvas is exactly ``max_tokens`` long behind the prompt.

    Grade of exactness: **identical** without ``cache`` and ``suffix``, for nothing is cached, so nothing is stale;
    **approximate** with either.

    Settings that would have no effect together are refused when a request is made, but for ``steps`` beside a
    ``threshold`` or a ``factor``.

    Attributes:
        block_length: Slots decided together, counted from the prompt's end; the last block may be shorter. None: 32
            for LLaDA, and for Dream and RND1 with a cache or a suffix policy; the whole canvas for these without.
        steps: Steps **of the whole canvas**, NOT of a block (that is :attr:`BlockDiffusion.steps`). None: one token
            a step. Ignored with a ``threshold`` or a ``factor``.
        strategy: Which slots stay masked in a step: the least probable, or random ones.
        threshold: Reveal everything at least this probable (>=), and always the most probable. 0 or less reveals
            all, above 1 one a step. None: the fixed schedule of ``steps``.
        factor: In place of a threshold: reveal the n most probable, n the largest for which the m-th has a
            probability of at least 1 - factor / (m + 1) for every m from 2 to n (Fast-dLLM).
        factor_compat: With a factor: as Fast-dLLM's code, which takes the last candidate of a block along where the
            rule stops right before it.
        max_reveals: With a threshold or a factor: at most so many slots a pass.
        cache: What is taken from a cache after a block's first pass: nothing, what stands before the block, or what
            stands before and behind it. A cache is stale from the second layer on.
        refresh: With a cache: when it is computed anew. At every ``block``, in every ``step`` (slow: nothing is stale),
            or every so many blocks; in between a finished block is appended by the next one's first pass.
        suffix: Which masks behind the block are fed. None is ``off``: all of them.
        early_stop: ``strict``: the request ends at the first stop id with no mask before it. ``compat``: as DPad's
            code, a finished block with a stop id anywhere is the last, and fills the rest of the canvas. ``off``: the
            whole canvas is decided, and the text is cut afterwards (a stream then gives all text at the end).
        cfg_scale: Classifier-free guidance; 0 is off. Above 0 every step costs two passes.
        alg: Dream's schedules in place of the fixed one, or RND1's (``even_entropy``: by rising entropy, the same share
            in each step); not together with a ``threshold``. None: ``entropy`` for Dream, ``even_entropy`` for RND1, off
            for LLaDA.
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
    factor: float | None = None
    factor_compat: bool = False
    max_reveals: int | None = None
    cache: Literal["none", "prefix", "dual"] = "none"
    refresh: Literal["block", "step"] | int = "block"
    suffix: SuffixPolicy | None = None
    early_stop: Literal["strict", "compat", "off"] = "strict"
    cfg_scale: float = 0.0
    alg: Literal["origin", "maskgit_plus", "topk_margin", "entropy", "even_entropy"] | None = None
    eps: float = 1e-3
    alg_temp: float = 0.0
    logits_eos_inf: bool = False
    confidence_eos_eot_inf: bool = False

    def __post_init__(self) -> None:
        check_decoding(self)
        if not isinstance(self.suffix, str | SuffixDropout | WindowTail | Spotlight | None):
            # As tuples, so that the settings stay frozen and hashable.
            kept = tuple(tuple(int(place) for place in block) for block in self.suffix)
            object.__setattr__(self, "suffix", kept)


@dataclass(frozen=True, kw_only=True)
class Lookahead(_BlockRule):
    """The same tokens in fewer passes, without a draft model: what the model last said of undecided slots are guesses, and
    one pass judges the states that would follow, in several blocks at once (block diffusion) or inside a block (``canvas``).

    Grade of exactness: **identical** to :class:`BlockDiffusion` with the same reveal rule, or to ``canvas`` alone, at every
    temperature. It never takes more passes, but its passes have more rows.

    Attributes:
        block_length: As in :class:`BlockDiffusion`.
        steps: Steps **of a block**, as in :class:`BlockDiffusion`.
        strategy: The reveal rule, as in :class:`BlockDiffusion`.
        threshold: As in :class:`BlockDiffusion`.
        entropy_bound: As in :class:`BlockDiffusion`.
        canvas: For bidirectional models (LLaDA, Dream), in place of the reveal rule, ``blocks`` and ``probes``: a canvas with
            ``cache="dual"``, where a pass feeds a block alone. Any reveal rule, refresh and suffix of it will do.
        blocks: Blocks that a pass may confirm, 1 to 64.
        probes: Further blocks, all masked, that ride along so that there is something to guess from, 0 to 64.
        alternatives: Beside each guessed step its runner-up, for slots that are decided in another order than guessed:
            more rows, fewer passes.
        max_rows: Rows of guessed states and probes in a pass at most; ``"off"``: no limit; ``"auto"``: as many as have
            paid by the time that passes took, which changes passes and no token. None: no limit, but with a ``canvas``
            4 times its block length.
    """

    canvas: Canvas | None = None
    blocks: int = 2
    probes: int = 1
    alternatives: bool = True
    max_rows: int | Literal["off", "auto"] | None = None


@dataclass(frozen=True, kw_only=True)
class SimSD(_BlockRule):
    """Speculation with a draft model (``LLM(..., draft=...)``): it fills masked slots of the current block, and one pass of
    the target judges them.

    Grade of exactness: with ``states`` and ``identical`` (the defaults) **identical** to :class:`BlockDiffusion` with the
    same reveal rule, at every temperature, never in more target passes. ``states`` or ``no_leak`` with ``rejection``:
    **distribution**, of the target (for ``no_leak`` of the model that the layout defines) in the draft's order. ``states``
    with ``greedy``: identical to the target following the draft's order. ``paired`` is **approximate** beyond one step.

    Attributes:
        block_length: As in :class:`BlockDiffusion`.
        steps: Steps **of a block**, as in :class:`BlockDiffusion`.
        strategy: The reveal rule, as in :class:`BlockDiffusion`.
        threshold: As in :class:`BlockDiffusion`.
        entropy_bound: As in :class:`BlockDiffusion`.
        gamma: Slots of a block that a round drafts at most, 1 to B; slots that one step reveals together are never
            parted, so the last step may go beyond. None: B. ``"auto"`` (with ``identical`` only): as many as have paid by
            the time that passes took, none where drafting does not pay.
        blocks: Blocks that a round drafts and a pass may confirm, 1 to 64; above 1 with ``states`` and ``identical`` only.
        draft_steps: Passes of the draft model a block at most; the rest of its chain is guessed from the last. With
            ``identical`` only. None: as many as it takes.
        own_guesses: Adds the target's own guesses, as :class:`Lookahead` has them; with ``states`` and ``identical``,
            ignored elsewhere.
        alternatives: As in :class:`Lookahead`; with ``states`` and ``identical``, ignored elsewhere.
        max_rows: Rows of guessed states in a pass at most, with ``states`` and ``identical``; ``"off"``: no limit;
            ``"auto"``: as in :class:`Lookahead`.
        layout: The target's pass: the block in every drafted state (``states``), a data and a mask row for each slot
            (``paired``, the paper's), a third row so that no row learns of later drafts (``no_leak``), or one pass a
            state (``sequential``, slow).
        accept: When a drafted token stays: if the target alone would have decided the same slots with the same tokens
            (``identical``), if it would put the same token there (``greedy``), or with probability min(1, p/q)
            (``rejection``).
        align_positions: Whether mask rows of ``paired`` stand at their slots' positions; False only to see what that is
            good for.
        fallback: When fewer masked slots than ``gamma`` are left: draft them (``draft``), or the target alone goes on
            (``target``, the paper's).
        overlap: The draft begins the next round while the target judges this one, on the assumption that everything is
            accepted; both run at the same time. With ``states`` and ``identical``; it changes no token.
    """

    gamma: int | Literal["auto"] | None = None
    blocks: int = 1
    draft_steps: int | None = None
    own_guesses: bool = True
    alternatives: bool = True
    max_rows: int | Literal["off", "auto"] = "off"
    layout: Literal["states", "paired", "no_leak", "sequential"] = "states"
    accept: Literal["identical", "greedy", "rejection"] = "identical"
    align_positions: bool = True
    fallback: Literal["draft", "target"] = "draft"
    overlap: bool = False


@dataclass(frozen=True, kw_only=True)
class MinSpan:
    """:class:`S2D2` verifies runs of at least so many masked slots.

    Attributes:
        min_span: At least so many; 1 is always.
    """

    min_span: int = 1


@dataclass(frozen=True, kw_only=True)
class ScoreThreshold:
    """:class:`S2D2` verifies where the expected number of kept drafts, less a penalty, is at least ``threshold``.

    Attributes:
        threshold: At least this.
        estimator: How the chance of each draft is estimated from its row, by the reference's names.
        estimator_value: The estimator's number (threshold, power, factor or temperature); None: the reference's.
        penalty: What a verification costs, in tokens.
        dynamic: The penalty counts once for each draft above the confidence threshold.
    """

    threshold: float = 0.0
    estimator: Literal[
        "hard_margin_threshold",
        "hard_entropy_threshold",
        "soft_confidence_power",
        "soft_clipped_linear_margin",
        "soft_entropy_negexp",
        "soft_renyi_2_entropy",
    ] = "soft_entropy_negexp"
    estimator_value: float | None = None
    penalty: float = 1.0
    dynamic: bool = False


@dataclass(frozen=True, kw_only=True)
class Hysteresis:
    """:class:`S2D2` verifies from a score above ``on`` until it falls below ``off``.

    Attributes:
        on: Above it, larger than ``off``.
        off: Below it.
        estimator: As in :class:`ScoreThreshold`.
        estimator_value: As in :class:`ScoreThreshold`.
        penalty: As in :class:`ScoreThreshold`.
        dynamic: As in :class:`ScoreThreshold`, here on unless switched off.
    """

    on: float = 1.0
    off: float = -5.0
    estimator: Literal[
        "hard_margin_threshold",
        "hard_entropy_threshold",
        "soft_confidence_power",
        "soft_clipped_linear_margin",
        "soft_entropy_negexp",
        "soft_renyi_2_entropy",
    ] = "soft_entropy_negexp"
    estimator_value: float | None = None
    penalty: float = 1.0
    dynamic: bool = True


@dataclass(frozen=True, kw_only=True)
class S2D2(_BlockRule):
    """Self-speculation: the weights draft in blocks and verify the leftmost masked run from left to right, as the model
    that they are at block length 1. No draft model.

    Grade of exactness: **approximate**: the text is another than block diffusion's. Within it ``greedy`` follows the
    verifier's argmax and needs no seed, ``exact`` draws what is verified from the verifier's distribution, ``paper`` is the
    reference's way, which is neither.

    Attributes:
        block_length: As in :class:`BlockDiffusion`.
        steps: Steps **of a block**, as in :class:`BlockDiffusion`.
        strategy: The reveal rule for what is not verified, as in :class:`BlockDiffusion`.
        threshold: As in :class:`BlockDiffusion`.
        entropy_bound: As in :class:`BlockDiffusion`.
        variant: What makes a draft stay.
        ar_cache: Prefix and decided slots see their left only, as the verifier has it; False: their whole blocks.
        policy: When the leftmost masked run is verified.
    """

    variant: Literal["greedy", "paper", "exact"] = "greedy"
    ar_cache: bool = True
    policy: MinSpan | ScoreThreshold | Hysteresis = field(default_factory=MinSpan)


@dataclass(frozen=True, kw_only=True)
class SubBlockDiffusion:
    """Block diffusion for block-causal models whose predictions are shifted by one (Fast-dLLM v2): the last row of a finished
    block gives the first token of the next one, and a block is filled sub-block by sub-block.

    Grade of exactness: **identical** without ``sub_block_cache``: finished blocks are cached exactly; **approximate** with it.
    The last block is computed whole and the output is cut to ``max_tokens``.

    Settings that would have no effect together are refused when a request is made.

    Attributes:
        block_length: Slots of a block. None: the checkpoint's. Another than the weights were trained for warns.
        sub_block: Slots that are decided before those on their right are; divides the block length. None: 8, or the
            largest smaller number that divides it.
        threshold: Reveal above this probability (>), and always the most probable; 0 reveals all, 1 one a pass. None: the
            family's own, 0.9.
        sub_block_cache: After the whole block has run, passes feed the sub-block alone, as soon as its first slot is
            decided; the rest of the block is as it was (the authors' ``use_block_cache``).
    """

    block_length: int | None = None
    sub_block: int | None = None
    threshold: float | None = None
    sub_block_cache: bool = False

    def __post_init__(self) -> None:
        check_decoding(self)


Decoding: TypeAlias = BlockDiffusion | Canvas | Lookahead | SimSD | S2D2 | SubBlockDiffusion
"""Any method of decoding."""
