"""What the tests share: where the data is, and models that are loaded once."""

from collections.abc import Callable
from functools import cache

import dlmrs
import pytest
from golden_data import GOLDEN, MASK


@cache
def _load(name: str, block_length: int | None, backend: str) -> dlmrs.LLM:
    golden = (GOLDEN / name).is_dir()
    return dlmrs.LLM(
        GOLDEN / name if golden else name,
        mask_token_id=MASK if golden else None,
        block_length=block_length,
        backend=backend,
        threads=2,
    )


@pytest.fixture(scope="session")
def load() -> Callable[..., dlmrs.LLM]:
    """A model by its name: a folder of the golden data, or a bundled one."""

    def by_name(name: str, *, block_length: int | None = None, backend: str = "auto") -> dlmrs.LLM:
        return _load(name, block_length, backend)

    return by_name


@pytest.fixture(scope="session")
def sdar(load: Callable[..., dlmrs.LLM]) -> dlmrs.LLM:
    """The bundled block-causal model."""
    return load("tiny-sdar")


@pytest.fixture(scope="session")
def llada(load: Callable[..., dlmrs.LLM]) -> dlmrs.LLM:
    """The bundled bidirectional model."""
    return load("tiny-llada")
