"""Text generation with diffusion language models.

    import dlmrs

    llm = dlmrs.LLM("tiny-sdar")                        # a bundled model, or the folder of a checkpoint
    [output] = llm.generate("9 * 5 = ", dlmrs.SamplingParams(max_tokens=32))
    output = llm.chat([{"role": "user", "content": "Mia buys 9 pens for 5 dollars each. What does she pay?"}])

How a request is decoded is one dataclass a method: :class:`BlockDiffusion` for block-causal models (SDAR),
:class:`Canvas` for bidirectional ones (LLaDA, Dream). Every exception is a :class:`dlmrs.Error`.
"""

from dlmrs._dlmrs import LLM, __version__, bundled_models, inspect
from dlmrs.decoding import BlockDiffusion, Canvas, Decoding
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
from dlmrs.output import Output, Stats
from dlmrs.params import SamplingParams

__all__ = [
    "LLM",
    "BlockDiffusion",
    "Canvas",
    "CapacityError",
    "CheckpointError",
    "ClosedError",
    "Decoding",
    "DeviceError",
    "Error",
    "InputError",
    "IoError",
    "NotFiniteError",
    "NotFoundError",
    "Output",
    "SamplingParams",
    "Stats",
    "TemplateError",
    "TokenizerError",
    "UnsupportedModelError",
    "__version__",
    "bundled_models",
    "inspect",
]
