"""The engine behind the package ``dlmrs``."""

from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, Final, TypeAlias, final, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from dlmrs.decoding import Decoding
from dlmrs.events import Event
from dlmrs.output import Output
from dlmrs.params import SamplingParams

__all__ = [
    "LLM",
    "Stream",
    "__version__",
    "block_preset",
    "block_presets",
    "bundled_models",
    "check_decoding",
    "check_params",
    "check_suffix",
    "inspect",
    "kept_probabilities",
    "run_cli",
    "suffix_preset",
    "suffix_presets",
]

__version__: Final[str]
"""The version of this package and of the engine inside it."""

_Ids: TypeAlias = Sequence[int] | npt.NDArray[np.integer[Any]]
_Prompt: TypeAlias = str | _Ids
_Message: TypeAlias = Mapping[str, Any]
_Params: TypeAlias = SamplingParams | Sequence[SamplingParams] | None

@final
class LLM:
    """A loaded model: a bundled one by its name, the folder of a checkpoint, or a GGUF file."""

    def __new__(
        cls,
        model: str | PathLike[str],
        *,
        draft: str | PathLike[str] | None = None,
        device: str = "auto",
        draft_device: str | None = None,
        dtype: str = "auto",
        threads: int | None = None,
        max_model_len: int | None = None,
        mask_token_id: int | None = None,
        block_length: int | None = None,
        stop_token_ids: Sequence[int] | None = None,
        backend: str = "auto",
    ) -> Self: ...
    def generate(
        self,
        prompts: _Prompt | Iterable[_Prompt],
        params: _Params = None,
        *,
        decoding: Decoding | None = None,
    ) -> list[Output]: ...
    @overload
    def chat(
        self,
        messages: Sequence[_Message],
        params: _Params = None,
        *,
        decoding: Decoding | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **template_options: Any,
    ) -> Output: ...
    @overload
    def chat(
        self,
        messages: Sequence[Sequence[_Message]],
        params: _Params = None,
        *,
        decoding: Decoding | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **template_options: Any,
    ) -> list[Output]: ...
    def stream(
        self,
        prompt: _Prompt | Sequence[_Message],
        params: SamplingParams | None = None,
        *,
        decoding: Decoding | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **template_options: Any,
    ) -> Stream: ...
    def render_chat(
        self,
        messages: Sequence[_Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **template_options: Any,
    ) -> str: ...
    def forward(
        self,
        token_ids: _Ids,
        *,
        positions: _Ids | None = None,
        mask: npt.NDArray[np.bool_] | Sequence[Sequence[bool]] | None = None,
        rows: _Ids | None = None,
    ) -> npt.NDArray[np.float32]: ...
    def attention_mass(
        self,
        token_ids: _Ids,
        queries: _Ids,
        keys: _Ids,
        *,
        positions: _Ids | None = None,
        mask: npt.NDArray[np.bool_] | Sequence[Sequence[bool]] | None = None,
    ) -> npt.NDArray[np.float32]: ...
    def encode(self, text: str, *, parse_specials: bool = False) -> list[int]: ...
    def decode(self, ids: _Ids, *, skip_special: bool = True) -> str: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *args: object) -> None: ...
    def __reduce__(self) -> Any: ...
    @property
    def closed(self) -> bool: ...
    @property
    def name(self) -> str: ...
    @property
    def draft(self) -> str | None: ...
    @property
    def family(self) -> str: ...
    @property
    def attention(self) -> str: ...
    @property
    def shift(self) -> bool: ...
    @property
    def dtype(self) -> str: ...
    @property
    def vocab_size(self) -> int: ...
    @property
    def mask_token_id(self) -> int: ...
    @property
    def block_length(self) -> int | None: ...
    @property
    def stop_token_ids(self) -> list[int]: ...
    @property
    def max_model_len(self) -> int: ...
    @property
    def device(self) -> str: ...
    @property
    def threads(self) -> int: ...

@final
class Stream(Iterator[Event], AsyncIterator[Event], Awaitable[Output]):
    """The events of a request, as LLM.stream gives it: an iterator of Revealed, Committed and Finished."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> Event: ...
    def __aiter__(self) -> Self: ...
    def __anext__(self) -> Awaitable[Event]: ...
    def __await__(self) -> Generator[Any, None, Output]: ...
    def _poll(self) -> Event | None: ...
    def _notify(self, callback: Callable[[], object]) -> None: ...
    def result(self) -> Output: ...
    def cancel(self) -> None: ...
    def close(self) -> None: ...
    @property
    def output(self) -> Output | None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *args: object) -> None: ...

def block_preset(name: str, /) -> dict[str, Any]: ...
def block_presets() -> list[str]: ...
def bundled_models() -> list[str]: ...
def check_decoding(decoding: object, /) -> None: ...
def check_params(params: object, /) -> None: ...
def check_suffix(policy: object, /) -> None: ...
def inspect(
    model: str | PathLike[str],
    *,
    max_model_len: int | None = None,
    mask_token_id: int | None = None,
    block_length: int | None = None,
    stop_token_ids: Sequence[int] | None = None,
) -> dict[str, Any]: ...
def kept_probabilities(policy: object, slots: int, /) -> list[float]: ...
def run_cli(args: Sequence[str], /) -> int: ...
def suffix_preset(name: str, /) -> dict[str, Any]: ...
def suffix_presets() -> list[str]: ...
