"""Random checkpoints for the benchmarks: config and safetensors, written as a stream, and environments of the benchmarks' own."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

SIZES = {"F32": 4, "BF16": 2}


def write(
    folder: Path,
    config: Mapping[str, Any],
    dtype: str,
    shapes: Mapping[str, tuple[int, ...]],
    numbers: Callable[[str, tuple[int, ...]], Any],
) -> None:
    """The length of the header, the header, the numbers one after the other; `numbers` gives a tensor's as a buffer."""
    (folder / "config.json").write_text(json.dumps(config))
    header, end = {}, 0
    for name, shape in shapes.items():
        start, end = end, end + SIZES[dtype] * math.prod(shape)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, shape in shapes.items():
            file.write(numbers(name, shape))


def environment(folder: Path, *packages: str) -> Path:
    """The Python of a virtual environment that has these packages, made if it is not there."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    if subprocess.run([python, "-c", f"import {', '.join(packages)}"], capture_output=True, check=False).returncode != 0:
        print(f"installing {' and '.join(packages)} into {folder} (several GB)", file=sys.stderr)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    return python
