"""Text generation with diffusion language models.

    import dlmrs

    llm = dlmrs.LLM("tiny-sdar")                        # a bundled model, or the folder of a checkpoint
    [output] = llm.generate("9 * 5 = ", dlmrs.SamplingParams(max_tokens=32))
    output = llm.chat([{"role": "user", "content": "Mia buys 9 pens for 5 dollars each. What does she pay?"}])
    for event in llm.stream("9 * 5 = "):                # Revealed, Committed, and Finished at the end
        print(event)

How a request is decoded is one dataclass a method: :class:`BlockDiffusion` for block-causal models (SDAR),
:class:`SubBlockDiffusion` for those whose predictions are shifted by one (Fast-dLLM v2), :class:`Canvas` for
bidirectional ones (LLaDA, Dream), with or without caches and suffix policies (:class:`SuffixDropout`,
:class:`WindowTail`, :class:`Spotlight`). :class:`Lookahead`, :class:`SimSD` and :class:`S2D2`
speculate on block-causal models. Every exception is a :class:`dlmrs.Error`.
"""

import logging

from dlmrs._dlmrs import LLM, Stream, __version__, bundled_models, inspect
from dlmrs.decoding import (
    S2D2,
    BlockDiffusion,
    Canvas,
    Decoding,
    Hysteresis,
    Lookahead,
    MinSpan,
    ScoreThreshold,
    SimSD,
    Spotlight,
    SubBlockDiffusion,
    SuffixDropout,
    SuffixPolicy,
    WindowTail,
)
from dlmrs.errors import (
    CapacityError,
    CheckpointError,
    ClosedError,
    DeviceError,
    Error,
    InputError,
    IoError,
    NotFiniteError,
    NotFoundError,
    TemplateError,
    TokenizerError,
    UnsupportedModelError,
)
from dlmrs.events import Committed, Event, Finished, Revealed
from dlmrs.output import Output, Stats
from dlmrs.params import SamplingParams
from dlmrs.trace import Trace

# A library prints no log messages by itself; whoever configures logging sees them.
logging.getLogger("dlmrs").addHandler(logging.NullHandler())

__all__ = [
    "LLM",
    "S2D2",
    "BlockDiffusion",
    "Canvas",
    "CapacityError",
    "CheckpointError",
    "ClosedError",
    "Committed",
    "Decoding",
    "DeviceError",
    "Error",
    "Event",
    "Finished",
    "Hysteresis",
    "InputError",
    "IoError",
    "Lookahead",
    "MinSpan",
    "NotFiniteError",
    "NotFoundError",
    "Output",
    "Revealed",
    "SamplingParams",
    "ScoreThreshold",
    "SimSD",
    "Spotlight",
    "Stats",
    "Stream",
    "SubBlockDiffusion",
    "SuffixDropout",
    "SuffixPolicy",
    "TemplateError",
    "TokenizerError",
    "Trace",
    "UnsupportedModelError",
    "WindowTail",
    "__version__",
    "bundled_models",
    "inspect",
]
