#!/usr/bin/env python3
"""Block diffusion with a model of SDAR-1.7B's shape, dlmrs beside transformers in bf16, in one alternating run.

    python3 benches/sdar_beside_transformers.py [--env FOLDER] [--dtypes bf16 int8 int4] [--layers N] [--json FILE]

See README.md beside this file for what is measured. PyTorch and transformers are installed into an environment of the benchmark's own.
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
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import random_checkpoint
from forward_beside_torch import Dlmrs

if TYPE_CHECKING:
    import torch

HIDDEN, HEADS, KV_HEADS, HEAD_DIM, INTERMEDIATE, VOCAB = 2048, 16, 8, 128, 6144, 151_936
THETA, EPS, LAYERS = 1_000_000.0, 1e-6, 28
MASK = VOCAB - 1
CACHED, PROMPT, TOKENS = 512, 256, 128


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cache = Path(tempfile.gettempdir()) / "dlmrs-bench-env"
    parser.add_argument("--env", type=Path, default=cache, help="virtual environment, made if it is not there (%(default)s)")
    parser.add_argument("--dtypes", nargs="+", default=["bf16", "int8", "int4"], help="how dlmrs holds the weights (%(default)s)")
    parser.add_argument("--blocks", type=int, nargs="+", default=[4, 16], help="slots of a block (%(default)s)")
    parser.add_argument("--layers", type=int, default=LAYERS, help="layers of the model (%(default)s)")
    parser.add_argument("--rounds", type=int, default=9, help="turns that each side takes for a pass (%(default)s)")
    parser.add_argument("--generations", type=int, default=1, help="turns for a whole answer; 0 leaves these out (%(default)s)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="for each side (%(default)s)")
    parser.add_argument("--json", type=Path, help="write the numbers to this file too")
    return parser.parse_args()


# What follows runs inside the environment.


def shapes(layers: int) -> dict[str, tuple[int, ...]]:
    """Qwen3's names, which are SDAR's; the head is the embedding."""
    c, f, q, kv = HIDDEN, INTERMEDIATE, HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
    found: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (VOCAB, c), "model.norm.weight": (c,)}
    parts = {
        "input_layernorm": (c,),
        "post_attention_layernorm": (c,),
        "self_attn.q_proj": (q, c),
        "self_attn.k_proj": (kv, c),
        "self_attn.v_proj": (kv, c),
        "self_attn.o_proj": (c, q),
        "self_attn.q_norm": (HEAD_DIM,),
        "self_attn.k_norm": (HEAD_DIM,),
        "mlp.gate_proj": (f, c),
        "mlp.up_proj": (f, c),
        "mlp.down_proj": (c, f),
    }
    for layer in range(layers):
        found |= {f"model.layers.{layer}.{name}.weight": shape for name, shape in parts.items()}
    return found


def random_weights(layers: int) -> dict[str, torch.Tensor]:
    import torch

    generator = torch.Generator().manual_seed(1)

    def tensor(name: str, shape: tuple[int, ...]) -> torch.Tensor:
        values = torch.randn(shape, generator=generator)
        if len(shape) == 1:
            values = 1 + 0.1 * values
        elif "embed" not in name:
            values *= 1 / math.sqrt(shape[1])
        return values.to(torch.bfloat16)

    return {name: tensor(name, shape) for name, shape in shapes(layers).items()}


def config(layers: int) -> dict[str, Any]:
    return {
        "architectures": ["SDARForCausalLM"],
        "model_type": "sdar",
        "hidden_size": HIDDEN,
        "num_hidden_layers": layers,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "intermediate_size": INTERMEDIATE,
        "vocab_size": VOCAB,
        "max_position_embeddings": 4096,
        "rope_theta": THETA,
        "rms_norm_eps": EPS,
        "tie_word_embeddings": True,
        "hidden_act": "silu",
        "mask_token_id": MASK,
        "eos_token_id": VOCAB - 2,
        "torch_dtype": "bfloat16",
    }


def write_checkpoint(folder: Path, weights: dict[str, torch.Tensor], layers: int) -> None:
    import torch

    random_checkpoint.write(
        folder, config(layers), "BF16", shapes(layers), lambda name, _: weights[name].view(torch.int16).numpy().data
    )


class Transformers:
    """The same model as transformers' Qwen3, with its cache."""

    def __init__(self, weights: dict[str, torch.Tensor], layers: int) -> None:
        import torch
        from transformers import DynamicCache, Qwen3Config, Qwen3ForCausalLM

        config = Qwen3Config(
            hidden_size=HIDDEN,
            num_hidden_layers=layers,
            num_attention_heads=HEADS,
            num_key_value_heads=KV_HEADS,
            head_dim=HEAD_DIM,
            intermediate_size=INTERMEDIATE,
            vocab_size=VOCAB,
            max_position_embeddings=4096,
            rope_theta=THETA,
            rms_norm_eps=EPS,
            tie_word_embeddings=True,
            attn_implementation="sdpa",
        )
        with torch.device("meta"):
            model = Qwen3ForCausalLM(config)
        rotary = model.model.rotary_emb
        model.load_state_dict(weights | {"lm_head.weight": weights["model.embed_tokens.weight"]}, assign=True)
        # What is no weight is computed, not loaded.
        model.model.rotary_emb = type(rotary)(config=config)
        self.model = model.eval()
        self.new_cache = DynamicCache
        self.cache = DynamicCache()

    def tokens(self, start: int, end: int) -> torch.Tensor:
        import torch

        return ((torch.arange(start, end) * 7919 + 13) % (VOCAB - 1))[None]

    def run(self, ids: torch.Tensor, cache: Any, start: int, block: int | None) -> torch.Tensor:
        """Logits [rows, V] of tokens from position `start` on, which see all that is cached and themselves; block-causal among
        themselves where a block length is given."""
        import torch

        rows = ids.shape[1]
        mask = torch.zeros(1, 1, rows, start + rows, dtype=torch.bfloat16)
        if block is not None:
            own = torch.arange(rows) // block
            mask[0, 0, :, start:].masked_fill_(own[:, None] < own[None, :], float("-inf"))
        positions = torch.arange(start, start + rows)
        out = self.model(
            input_ids=ids, attention_mask=mask, position_ids=positions[None], past_key_values=cache, use_cache=True
        )
        logits: torch.Tensor = out.logits[0]
        return logits

    def fill(self, n: int) -> None:
        import torch

        with torch.inference_mode():
            self.cache = self.new_cache()
            self.run(self.tokens(0, n), self.cache, 0, 4)

    def block(self, rows: int) -> torch.Tensor:
        import torch

        with torch.inference_mode():
            logits = self.run(self.tokens(CACHED, CACHED + rows), self.cache, CACHED, None)
            self.cache.crop(-rows)
            return logits

    def generate(self, block: int, prompt: int, tokens: int) -> None:
        """The public loop: each block of masks is denoised in as many passes as it has slots, the surest slot a pass, then a last pass
        stores its keys and values."""
        import torch

        with torch.inference_mode():
            cache = self.new_cache()
            self.run(self.tokens(0, prompt), cache, 0, block)
            for start in range(prompt, prompt + tokens, block):
                ids = torch.full((1, block), MASK)
                for _ in range(block):
                    logits = self.run(ids, cache, start, None)
                    cache.crop(-block)
                    probabilities, best = torch.softmax(logits, dim=-1).max(dim=-1)
                    sure = torch.where(ids[0] == MASK, probabilities, -torch.inf).argmax()
                    ids[0, sure] = best[sure]
                self.run(ids, cache, start, None)


def timed(f: Callable[[], object]) -> float:
    started = time.perf_counter()
    f()
    return (time.perf_counter() - started) * 1e3


def take_turns(sides: dict[str, Callable[[], float]], rounds: int, warm_up: bool) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    for turn in range(-1 if warm_up else 0, rounds):
        # Another one goes first each time, after a pause in which the other's threads fall asleep.
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            time.sleep(0.05)
            elapsed = sides[name]()
            if turn >= 0:
                times[name].append(elapsed)
    return times


def check(ours: Dlmrs, theirs: Transformers, folder: Path) -> dict[str, float]:
    """bf16 on both sides, and rounded at other places."""
    import numpy as np

    ours.ask(f"block-logits 16 {folder / 'logits'}")
    found = np.fromfile(folder / "logits", dtype=np.float32).reshape(16, VOCAB)
    wanted = theirs.block(16).float().numpy()
    return {
        "correlation": float(np.corrcoef(found.ravel()[::37], wanted.ravel()[::37])[0, 1]),
        "same_argmax": float((found.argmax(1) == wanted.argmax(1)).mean()),
    }


def report(what: str, times: dict[str, list[float]]) -> dict[str, Any]:
    torch_ms, torch_fastest = statistics.median(times["transformers"]), min(times["transformers"])
    for name, turns in times.items():
        ratio, fastest = torch_ms / statistics.median(turns), torch_fastest / min(turns)
        print(f"{what:>28} {name:>13} {statistics.median(turns):>10.1f} {ratio:>8.2f} ({fastest:.2f})", flush=True)
    return {"what": what, "turns_ms": times}


def inside(args: argparse.Namespace) -> None:
    import torch
    import transformers

    torch.set_num_threads(args.threads)
    # transformers 5.24 renames an argument that older ones know by this name only.
    warnings.filterwarnings("ignore", category=FutureWarning)
    with tempfile.TemporaryDirectory(prefix="dlmrs-bench-") as temporary:
        folder = Path(temporary)
        weights = random_weights(args.layers)
        write_checkpoint(folder, weights, args.layers)
        ours = {f"dlmrs {dtype}": Dlmrs(folder, args.threads, dtype) for dtype in args.dtypes}
        theirs = Transformers(weights, args.layers)
        theirs.fill(CACHED)
        for side in ours.values():
            side.ask(f"cache {CACHED}")
        likeness = check(next(iter(ours.values())), theirs, folder)
        print(f"logits of a block: correlation {likeness['correlation']:.5f}, argmax the same in {likeness['same_argmax']:.2f} of the rows")
        if likeness["correlation"] < 0.99:
            sys.exit("the two sides do not compute the same model")
        isa = next(iter(ours.values())).isa
        print(f"torch {torch.__version__}, transformers {transformers.__version__}, {isa}, {args.threads} threads, {args.layers} layers")
        print(f"{'':>28} {'':>13} {'ms':>10} transformers / it (of the fastest turns)", flush=True)
        results = []
        for block in args.blocks:
            passes = {name: lambda side=side, block=block: float(side.ask(f"block {block}")) for name, side in ours.items()}
            passes["transformers"] = lambda block=block: timed(lambda: theirs.block(block))
            results.append(report(f"a pass of {block} over {CACHED}", take_turns(passes, args.rounds, True)))
        for block in args.blocks if args.generations else []:
            ask = f"generate {block} {PROMPT} {TOKENS}"
            answers = {name: lambda side=side, ask=ask: float(side.ask(ask)) for name, side in ours.items()}
            answers["transformers"] = lambda block=block: timed(lambda: theirs.generate(block, PROMPT, TOKENS))
            results.append(report(f"{TOKENS} tokens in blocks of {block}", take_turns(answers, args.generations, False)))
        for side in ours.values():
            side.close()
    if args.json:
        versions = {"torch": torch.__version__, "transformers": transformers.__version__}
        numbers = {**versions, "isa": isa, "threads": args.threads, "layers": args.layers, "likeness": likeness, "results": results}
        args.json.write_text(json.dumps(numbers, indent=1) + "\n")


def main() -> None:
    args = arguments()
    if Path(sys.prefix).resolve() == args.env.resolve():
        inside(args)
        return
    python = random_checkpoint.environment(args.env, "torch", "numpy", "transformers")
    clean = {name: value for name, value in os.environ.items() if name not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
    sys.exit(subprocess.run([python, *sys.argv], env=clean, check=False).returncode)


if __name__ == "__main__":
    main()
