#!/usr/bin/env python3
"""A mixture of experts of LLaDA2-mini's shape: time over the time that reading the experts which were chosen takes.

    python3 benches/mixture_layer.py [--rows 4 16 64] [--experts 256] [--dtypes auto int8] [--json FILE]

See README.md beside this file for what is measured. Needs numpy.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import random_checkpoint
from forward_beside_torch import Dlmrs

HIDDEN, HEADS, KV_HEADS, HEAD_DIM, INTERMEDIATE, VOCAB, TOP = 2048, 16, 4, 128, 512, 2048, 8
BYTES = {"auto": 2.0, "bf16": 2.0, "int8": 130 / 128, "int4": 18 / 32}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[4, 16, 64], help="rows of a forward (%(default)s)")
    parser.add_argument("--experts", type=int, default=256, help="experts of the layer (%(default)s)")
    parser.add_argument("--dtypes", nargs="+", default=["auto", "int8", "int4"], choices=list(BYTES), help="(%(default)s)")
    parser.add_argument("--rounds", type=int, default=15, help="turns (%(default)s)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="(%(default)s)")
    parser.add_argument("--json", type=Path, help="write the numbers to this file too")
    return parser.parse_args()


def write_checkpoint(folder: Path, experts: int) -> int:
    """A dense first layer and the mixture, in bf16; returns how many weights stand outside the experts."""
    config = {
        "architectures": ["LLaDA2MoeModelLM"], "model_type": "llada2_moe", "vocab_size": VOCAB, "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE, "num_hidden_layers": 2, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS,
        "hidden_act": "silu", "use_qkv_bias": False, "use_qk_norm": True, "use_bias": False, "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False, "max_position_embeddings": 4096, "rope_theta": 600000.0, "num_experts": experts,
        "num_shared_experts": 1, "num_experts_per_tok": TOP, "n_group": 8, "topk_group": 4, "routed_scaling_factor": 2.5,
        "moe_intermediate_size": INTERMEDIATE, "first_k_dense_replace": 1, "head_dim": HEAD_DIM, "partial_rotary_factor": 0.5,
        "score_function": "sigmoid", "moe_router_enable_expert_bias": True, "norm_topk_prob": True, "router_dtype": "fp32",
        "moe_shared_expert_intermediate_size": INTERMEDIATE, "mask_token_id": VOCAB - 1, "eos_token_id": VOCAB - 2,
    }  # fmt: skip
    c, f, qkv = HIDDEN, INTERMEDIATE, (HEADS + 2 * KV_HEADS) * HEAD_DIM
    shapes: dict[str, tuple[int, ...]] = {"model.word_embeddings.weight": (VOCAB, c), "lm_head.weight": (VOCAB, c)}
    shapes["model.norm.weight"] = (c,)
    swiglu = {"gate_proj": (f, c), "up_proj": (f, c), "down_proj": (c, f)}
    for layer in range(2):
        own: dict[str, tuple[int, ...]] = {
            "input_layernorm": (c,), "post_attention_layernorm": (c,), "attention.query_layernorm": (HEAD_DIM,),
            "attention.key_layernorm": (HEAD_DIM,), "attention.query_key_value": (qkv, c), "attention.dense": (c, HEADS * HEAD_DIM),
        }  # fmt: skip
        parts = ["mlp"] if layer == 0 else ["mlp.shared_experts", *(f"mlp.experts.{index}" for index in range(experts))]
        own |= {f"{part}.{name}": shape for part in parts for name, shape in swiglu.items()}
        if layer == 1:
            own["mlp.gate"] = (experts, c)
            shapes["model.layers.1.mlp.gate.expert_bias"] = (experts,)
        shapes |= {f"model.layers.{layer}.{name}.weight": shape for name, shape in own.items()}
    generator = np.random.default_rng(1)

    def numbers(_: str, shape: tuple[int, ...]) -> Any:
        values = generator.standard_normal(shape, dtype=np.float32)
        values = 1 + values / 10 if len(shape) == 1 else values / np.float32(np.sqrt(shape[1]))
        return (values.view(np.uint32) >> 16).astype("<u2").data

    random_checkpoint.write(folder, config, "BF16", shapes, numbers)
    looked_up = {"model.word_embeddings.weight"}
    return sum(int(np.prod(s)) for name, s in shapes.items() if ".experts." not in name and name not in looked_up)


def measure(side: Dlmrs, rows: int, rest: int, size: float, rounds: int) -> dict[str, Any]:
    """Of each turn the time and that of reading as many bytes as the chosen experts and all other weights have, by the bandwidth of a
    read of 256 MB right before."""
    reads = int(side.ask(f"experts {rows}"))
    needed = (reads * 3 * HIDDEN * INTERMEDIATE + rest) * size
    times, floors, far = [], [], 256 << 20
    for turn in range(rounds + 1):
        time.sleep(0.02)
        floor = float(side.ask(f"read {far}")) * needed / far
        elapsed = side.time(rows)
        if turn > 0:  # the first is the warm-up
            times.append(elapsed)
            floors.append(floor)
    over = statistics.median(elapsed / floor for elapsed, floor in zip(times, floors, strict=True))
    return {"rows": rows, "experts": reads, "megabytes": needed / 1e6, "ms": statistics.median(times), "over_floor": over}


def main() -> None:
    args = arguments()
    with tempfile.TemporaryDirectory(prefix="dlmrs-bench-") as temporary:
        folder = Path(temporary)
        rest = write_checkpoint(folder, args.experts)
        results = []
        print(f"{'weights':>8} {'rows':>5} {'experts read':>13} {'MB':>8} {'ms':>8} {'over the floor':>15}", flush=True)
        for dtype in args.dtypes:
            side = Dlmrs(folder, args.threads, dtype)
            for rows in args.rows:
                found = {"dtype": dtype} | measure(side, rows, rest, BYTES[dtype], args.rounds)
                results.append(found)
                read = f"{found['experts']} of {args.experts}"
                print(
                    f"{dtype:>8} {rows:>5} {read:>13} {found['megabytes']:>8.1f} {found['ms']:>8.2f} {found['over_floor']:>15.2f}",
                    flush=True,
                )
            print(f"{side.isa}, {args.threads} threads", file=sys.stderr)
            side.close()
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
