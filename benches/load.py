#!/usr/bin/env python3
"""A large random model of SDAR's kind loaded: what its weights should take, what they take, and how long a pass is then.

    python3 benches/load.py [--layers 36] [--dtypes auto int8 int4] [--json FILE]

See README.md beside this file for what is measured. Needs numpy, and Linux.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import random_checkpoint
from forward_beside_torch import Dlmrs

HIDDEN, HEADS, KV_HEADS, HEAD_DIM, INTERMEDIATE, VOCAB = 4096, 32, 8, 128, 12_288, 151_936


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=36, help="layers; 36 make 8.2 billion weights, 16.4 GB (%(default)s)")
    parser.add_argument("--dtypes", nargs="+", default=["auto", "int8", "int4"], help="(%(default)s)")
    parser.add_argument("--folder", type=Path, help="where the checkpoint is written for a while (the system's temporary folder)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="(%(default)s)")
    parser.add_argument("--json", type=Path, help="write the numbers to this file too")
    return parser.parse_args()


def shapes(layers: int) -> dict[str, tuple[int, ...]]:
    c, f, q, kv = HIDDEN, INTERMEDIATE, HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
    ends: dict[str, tuple[int, ...]] = {"model.embed_tokens": (VOCAB, c), "lm_head": (VOCAB, c), "model.norm": (c,)}
    own: dict[str, tuple[int, ...]] = {
        "input_layernorm": (c,), "post_attention_layernorm": (c,), "self_attn.q_proj": (q, c), "self_attn.k_proj": (kv, c),
        "self_attn.v_proj": (kv, c), "self_attn.o_proj": (c, q), "self_attn.q_norm": (HEAD_DIM,), "self_attn.k_norm": (HEAD_DIM,),
        "mlp.gate_proj": (f, c), "mlp.up_proj": (f, c), "mlp.down_proj": (c, f),
    }  # fmt: skip
    all_shapes = ends | {f"model.layers.{layer}.{name}": shape for layer in range(layers) for name, shape in own.items()}
    return {f"{name}.weight": shape for name, shape in all_shapes.items()}


def write(folder: Path, layers: int) -> None:
    config = {
        "architectures": ["SDARForCausalLM"], "model_type": "sdar", "hidden_size": HIDDEN, "num_hidden_layers": layers,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM, "intermediate_size": INTERMEDIATE,
        "vocab_size": VOCAB, "max_position_embeddings": 4096, "rope_theta": 1e6, "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False, "hidden_act": "silu", "mask_token_id": VOCAB - 1, "eos_token_id": VOCAB - 2,
    }  # fmt: skip
    # One draw serves all: its length has no factor in common with a row's, so no two rows are alike.
    drawn = np.random.default_rng(1).standard_normal(33_333_331, dtype=np.float32)

    def numbers(_: str, shape: tuple[int, ...]) -> Any:
        values = 1 + drawn / 10 if len(shape) == 1 else drawn / np.float32(np.sqrt(shape[1]))
        return np.resize((values.view(np.uint32) >> 16).astype("<u2"), shape).data

    random_checkpoint.write(folder, config, "BF16", shapes(layers), numbers)


class Watch(threading.Thread):
    """The largest anonymous memory of all processes of the benchmark, while it runs: mapped files do not count."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak, self.over = 0, threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.05):
            for status in Path("/proc").glob("[0-9]*/status"):
                try:
                    text = status.read_text()
                except OSError:
                    continue
                if "Name:\tforward_bench" in text:
                    # A process that has just ended has none.
                    sizes = [int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("RssAnon")]
                    self.peak = max([self.peak, *sizes])


def measure(folder: Path, dtype: str, threads: int) -> dict[str, Any]:
    watch = Watch()
    watch.start()
    begun = time.perf_counter()
    side = Dlmrs(folder, threads, dtype)
    loaded = time.perf_counter() - begun
    side.ask("cache 16")
    times = [float(side.ask("block 4")) for _ in range(6)][1:]  # the first is the warm-up
    side.close()
    watch.over.set()
    watch.join()
    return {"dtype": dtype, "seconds": loaded, "peak_bytes": watch.peak, "ms": statistics.median(times)}


def main() -> None:
    args = arguments()
    with tempfile.TemporaryDirectory(prefix="dlmrs-bench-", dir=args.folder) as temporary:
        folder = Path(temporary)
        write(folder, args.layers)
        weights = sum(int(np.prod(shape)) for shape in shapes(args.layers).values())
        print(f"{weights / 1e9:.2f} billion weights in bf16, {2 * weights / 1e9:.2f} GB", flush=True)
        print(f"{'weights':>8} {'loaded in s':>12} {'peak GB':>8} {'ms a pass of 4':>15}", flush=True)
        results = []
        for dtype in args.dtypes:
            found = measure(folder, dtype, args.threads)
            results.append(found)
            print(f"{dtype:>8} {found['seconds']:>12.1f} {found['peak_bytes'] / 1e9:>8.2f} {found['ms']:>15.1f}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
