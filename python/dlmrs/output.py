"""What a request gives back."""

from dataclasses import dataclass
from typing import Literal

from dlmrs.trace import Trace


@dataclass(frozen=True, kw_only=True)
class Stats:
    """What a request cost. Passes are the request's own: a forward that serves ten requests is one pass of each.

    Attributes:
        passes: Passes of the model (the target, where there is a draft) by kind: ``prefill``, ``refresh``, ``denoise``, ``draft``, ``verify`` and ``commit``. One that also
            commits a block counts as what it is besides.
        total_passes: Passes of all kinds and of both models (NFE).
        rows: Rows of these passes by what each served, by the same names.
        keys: Keys that these passes' rows could see, by kind of pass, those of all passes added up.
        draft_passes: Passes of the draft model, by the same names; all 0 without one.
        draft_rows: Rows of these.
        target_passes: Passes of the target without its prefill: what speculation saves.
        tokens_per_target_pass: ``tokens / target_passes``; 0 without a pass.
        rounds: Target passes that judged guesses.
        drafted: Slots that were guessed for them, counted again in each round.
        accepted: Slots that hold what was guessed, because the target confirmed it.
        acceptance: ``accepted / drafted``; 0 without a guess.
        corrections: Slots in which the target put its own token where a guess ended.
        wasted: Guesses that came to nothing.
        unfolded_passes: :class:`S2D2`: passes if the prompt and each finished block took one of their own, as in the
            reference; 0 elsewhere.
        scanned_rows: Rows whose logits were computed.
        revealed: Slots that were decided, those beyond the stop included.
        edited: Decided tokens that were rewritten (``editing_threshold``), counted again each time.
        blocks: Blocks of a canvas that were begun; 0 for block diffusion.
        mean_kept_suffix: Masks behind a block that its passes fed, mean over these blocks.
        tokens: Tokens of the output.
        tokens_per_pass: ``tokens / total_passes``; 0 without a pass.
        forward_seconds: Seconds in forwards that this request took part in.
        scan_seconds: Seconds in scans of the output head that this request took part in.
        total_seconds: Seconds from submission to the end.
    """

    passes: dict[str, int]
    total_passes: int
    rows: dict[str, int]
    keys: dict[str, int]
    draft_passes: dict[str, int]
    draft_rows: dict[str, int]
    target_passes: int
    tokens_per_target_pass: float
    rounds: int
    drafted: int
    accepted: int
    acceptance: float
    corrections: int
    wasted: int
    unfolded_passes: int
    scanned_rows: int
    revealed: int
    edited: int
    blocks: int
    mean_kept_suffix: float
    tokens: int
    tokens_per_pass: float
    forward_seconds: float
    scan_seconds: float
    total_seconds: float


@dataclass(frozen=True, kw_only=True, repr=False)
class Output:
    """The result of a request.

    Attributes:
        text: The generated text, cut before what stopped it; special tokens are left out. Empty without a
            tokenizer.
        token_ids: The generated tokens, the stop id left out. With a stop string the last token may reach into it.
        prompt_token_ids: The prompt as it was given.
        canvas_token_ids: The whole canvas as it was left: the prompt with its masks filled in, what was generated,
            and what was not used.
        finish_reason: ``stop``: a stop id or string; ``length``: ``max_tokens``; ``cancelled``: the caller.
        stop_cause: The id or the string that stopped it, if it stopped.
        seed: The seed that was used, for doing it again.
        stats: What it cost.
        trace: How each slot was decided; None unless :attr:`SamplingParams.trace` asked for it.
        warnings: What the caller should know; each was also issued through :func:`warnings.warn`.
    """

    text: str
    token_ids: list[int]
    prompt_token_ids: list[int]
    canvas_token_ids: list[int]
    finish_reason: Literal["stop", "length", "cancelled"]
    stop_cause: int | str | None
    seed: int
    stats: Stats
    trace: Trace | None
    warnings: list[str]

    def __repr__(self) -> str:
        text = self.text if len(self.text) <= 60 else self.text[:57] + "..."
        passes = self.stats.total_passes
        return f"Output({text!r}, tokens={len(self.token_ids)}, finish_reason={self.finish_reason!r}, passes={passes})"
