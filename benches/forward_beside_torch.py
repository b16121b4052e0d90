#!/usr/bin/env python3
"""One forward of a LLaDA-shaped model, dlmrs beside PyTorch, in one alternating run.

    python3 benches/forward_beside_torch.py [--env FOLDER] [--dtypes f32 bf16 int8 int4] [--json FILE]

See README.md beside this file for what is measured. PyTorch is installed into an environment of the benchmark's own.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import random_checkpoint

if TYPE_CHECKING:
    import numpy as np
    import torch

ROOT = Path(__file__).resolve().parent.parent
LAYERS, HIDDEN, HEADS, INTERMEDIATE, VOCAB = 24, 1024, 16, 2816, 32_000
THETA, EPS = 500_000.0, 1e-5
MASK = VOCAB - 1
CHECKED_ROWS = 32

CONFIG = {
    "architectures": ["LLaDAModelLM"],
    "model_type": "llada",
    "d_model": HIDDEN,
    "n_layers": LAYERS,
    "n_heads": HEADS,
    "n_kv_heads": HEADS,
    "mlp_hidden_size": INTERMEDIATE,
    "vocab_size": VOCAB,
    "max_sequence_length": 4096,
    "rope": True,
    "rope_theta": THETA,
    "rope_full_precision": True,
    "rms_norm_eps": EPS,
    "layer_norm_type": "rms",
    "block_type": "llama",
    "activation_type": "silu",
    "weight_tying": False,
    "mask_token_id": MASK,
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cache = Path(tempfile.gettempdir()) / "dlmrs-bench-env"
    parser.add_argument(
        "--env", type=Path, default=cache, help="virtual environment for PyTorch, made if it is not there (%(default)s)"
    )
    parser.add_argument(
        "--rows", type=int, nargs="+", default=[8, 32, 128, 512], help="rows of a forward (%(default)s)"
    )
    parser.add_argument(
        "--dtypes",
        nargs="+",
        default=["f32", "bf16", "int8", "int4"],
        choices=["f32", "bf16", "int8", "int4", "int4-128"],
        help="how dlmrs holds the weights (%(default)s)",
    )
    parser.add_argument("--rounds", type=int, default=7, help="turns that each side takes (%(default)s)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="for each side (%(default)s)")
    parser.add_argument("--json", type=Path, help="write the numbers to this file too")
    return parser.parse_args()


# What follows runs inside the environment.


def shapes() -> dict[str, tuple[int, ...]]:
    c, f = HIDDEN, INTERMEDIATE
    top = "model.transformer."
    all_shapes: dict[str, tuple[int, ...]] = {f"{top}wte.weight": (VOCAB, c)}
    for layer in range(LAYERS):
        parts = {"attn_norm": (c,), "ff_norm": (c,), "ff_proj": (f, c), "up_proj": (f, c), "ff_out": (c, f)}
        parts |= {name: (c, c) for name in ("q_proj", "k_proj", "v_proj", "attn_out")}
        all_shapes |= {f"{top}blocks.{layer}.{name}.weight": shape for name, shape in parts.items()}
    return all_shapes | {f"{top}ln_f.weight": (c,), f"{top}ff_out.weight": (VOCAB, c)}


def random_weights() -> dict[str, np.ndarray]:
    import numpy as np

    generator = np.random.default_rng(1)

    def tensor(name: str, shape: tuple[int, ...]) -> np.ndarray:
        values: np.ndarray = generator.standard_normal(shape, dtype=np.float32)
        if len(shape) == 1:
            values *= np.float32(0.1)
            values += np.float32(1)
            return values
        if "wte" not in name:
            values *= np.float32(1 / math.sqrt(shape[1]))
        return values

    return {name: tensor(name, shape) for name, shape in shapes().items()}


class Torch:
    """The same model on PyTorch's own operations."""

    def __init__(self, weights: dict[str, np.ndarray], dtype: torch.dtype) -> None:
        import torch

        self.weights = {
            name.removeprefix("model.transformer.").removesuffix(".weight"): torch.from_numpy(w).to(dtype)
            for name, w in weights.items()
        }
        self.frequencies = 1.0 / THETA ** (torch.arange(0, HIDDEN // HEADS, 2).float() / (HIDDEN // HEADS))

    def rotate(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        import torch

        a, b = x.chunk(2, dim=-1)  # halves of [H, R, D]
        return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).to(x.dtype)

    def forward(self, rows: int) -> torch.Tensor:
        """[rows, V]"""
        import torch
        from torch.nn import functional

        with torch.inference_mode():
            w = self.weights
            positions = torch.arange(rows)
            angles = positions.float()[:, None] * self.frequencies
            cos, sin = angles.cos(), angles.sin()
            x = w["wte"][(positions * 7919 + 13) % (VOCAB - 1)]
            for layer in range(LAYERS):

                def linear(name: str, y: torch.Tensor, layer: int = layer) -> torch.Tensor:
                    return functional.linear(y, w[f"blocks.{layer}.{name}"])

                h = functional.rms_norm(x, (HIDDEN,), w[f"blocks.{layer}.attn_norm"], EPS)
                q, k, v = (
                    linear(name, h).view(rows, HEADS, -1).transpose(0, 1) for name in ("q_proj", "k_proj", "v_proj")
                )  # [H, R, D]
                q, k = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
                mixed = functional.scaled_dot_product_attention(q[None], k[None], v[None])[0]
                x = x + linear("attn_out", mixed.transpose(0, 1).reshape(rows, HIDDEN))
                h = functional.rms_norm(x, (HIDDEN,), w[f"blocks.{layer}.ff_norm"], EPS)
                x = x + linear("ff_out", functional.silu(linear("ff_proj", h)) * linear("up_proj", h))
            return functional.linear(functional.rms_norm(x, (HIDDEN,), w["ln_f"], EPS), w["ff_out"])

    def time(self, rows: int) -> float:
        started = time.perf_counter()
        self.forward(rows)
        return (time.perf_counter() - started) * 1e3


class Dlmrs:
    """The process of crates/dlmrs/examples/forward_bench.rs."""

    def __init__(self, folder: Path, threads: int, dtype: str) -> None:
        build = ["cargo", "build", "--release", "--quiet", "--workspace", "--example", "forward_bench"]
        subprocess.run(build, cwd=ROOT, check=True)
        target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
        command = [str(target / "release" / "examples" / "forward_bench"), str(folder), str(threads), dtype]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.isa = self.answer().split()[-1]

    def answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        if not line:
            sys.exit(f"forward_bench ended with {self.process.wait()}")
        return line

    def ask(self, line: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.answer()

    def time(self, rows: int) -> float:
        return float(self.ask(f"time {rows}"))

    def close(self) -> None:
        self.process.communicate()


def difference(ours: Dlmrs, theirs: Torch, folder: Path) -> dict[str, Any]:
    import numpy as np

    file = folder / "logits"
    ours.ask(f"logits {CHECKED_ROWS} {file}")
    found = np.fromfile(file, dtype=np.float32).reshape(CHECKED_ROWS, VOCAB)
    wanted = theirs.forward(CHECKED_ROWS).numpy()
    return {
        "max_difference": float(np.abs(found - wanted).max()),
        "max_logit": float(np.abs(wanted).max()),
        "same_argmax": bool((found.argmax(1) == wanted.argmax(1)).all()),
    }


def measure(sides: dict[str, Dlmrs | Torch], rows: int, rounds: int) -> dict[str, Any]:
    times: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    for turn in range(rounds + 1):
        # Another one goes first each time, and each goes after a pause in which the other's threads fall asleep.
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            time.sleep(0.05)
            elapsed = sides[name].time(rows)
            if turn > 0:  # the first is the warm-up
                times[name].append(elapsed)
    return {"rows": rows, "ms": {name: statistics.median(values) for name, values in times.items()}, "turns": times}


def lines(result: dict[str, Any]) -> list[str]:
    """Each side's median, and how many times as long PyTorch takes: medians, and in brackets the fastest turns."""

    def over(name: str, other: str) -> str:
        ratio = result["ms"][other] / result["ms"][name]
        return f"{ratio:.2f} ({min(result['turns'][other]) / min(result['turns'][name]):.2f})"

    return [
        f"{result['rows']:>5} {name:>12} {result['ms'][name]:>9.1f} {over(name, 'torch f32'):>16} {over(name, 'torch bf16'):>16}"
        for name in result["ms"]
    ]


HEAD = f"{'rows':>5} {'':>12} {'ms':>9} {'torch f32 / it':>16} {'torch bf16 / it':>16}"


def inside(args: argparse.Namespace) -> None:
    import torch

    torch.set_num_threads(args.threads)
    with tempfile.TemporaryDirectory(prefix="dlmrs-bench-") as temporary:
        folder = Path(temporary)
        weights = random_weights()
        random_checkpoint.write(folder, CONFIG, "F32", shapes(), lambda name, _: weights[name].data)
        exact, theirs = Dlmrs(folder, args.threads, "f32"), Torch(weights, torch.float32)
        check = difference(exact, theirs, folder)
        print(
            f"{CHECKED_ROWS} rows of logits differ by at most {check['max_difference']:.1e} (largest {check['max_logit']:.1f})",
            flush=True,
        )
        if check["max_difference"] > 2e-4 or not check["same_argmax"]:
            sys.exit("the two sides do not compute the same model")
        ours = {name: exact if name == "f32" else Dlmrs(folder, args.threads, name) for name in args.dtypes}
        sides: dict[str, Dlmrs | Torch] = {f"dlmrs {name}": side for name, side in ours.items()}
        sides |= {"torch f32": theirs, "torch bf16": Torch(weights, torch.bfloat16)}
        print(f"torch {torch.__version__}, {exact.isa}, {args.threads} threads, medians of {args.rounds} rounds")
        print(HEAD, flush=True)
        results = []
        for rows in args.rows:
            result = measure(sides, rows, args.rounds)
            results.append(result)
            print("\n".join(lines(result)), flush=True)
        for side in {*ours.values(), exact}:
            side.close()
    if args.json:
        report = {
            "torch": torch.__version__,
            "isa": exact.isa,
            "threads": args.threads,
            "rounds": args.rounds,
            "check": check,
            "results": results,
        }
        args.json.write_text(json.dumps(report, indent=1) + "\n")


def main() -> None:
    args = arguments()
    if Path(sys.prefix).resolve() == args.env.resolve():
        inside(args)
        return
    python = random_checkpoint.environment(args.env, "torch", "numpy")
    # Some machines set these for another library; inside torch they would choose kernels for the wrong processor.
    clean = {name: value for name, value in os.environ.items() if name not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
    sys.exit(subprocess.run([python, *sys.argv], env=clean, check=False).returncode)


if __name__ == "__main__":
    main()
