#!/usr/bin/env python3
"""Caches of a canvas: the tables of docs/caches.md.

    python benches/caches.py --quick
    python benches/caches.py --part drift --problems 200
    python benches/caches.py --part random --layers 16 --hidden 1024

Parts: drift (each cache mode beside no cache: same tokens, accuracy), realised (what of the cost model's saving is measured, by kind of pass,
on the bundled LLaDA), random (the same on random weights in LLaDA's proportions, where rows are dear). Needs the dlmrs package.
"""

from __future__ import annotations

import json
import math
import pathlib
import statistics
import tempfile
import time

import dlmrs
import numpy as np
from canvas_runs import Run, Sizes, machine, measure, parser, problems, shapes, share, table

BLOCK = 32
PARTS = ["drift", "realised", "random"]


def agreement(run: Run, plain: Run) -> float:
    """Of the tokens up to the shorter end, how many stand in both answers at the same place."""
    same = of = 0
    for a, b in zip(run.tokens_of, plain.tokens_of):
        same += sum(x == y for x, y in zip(a, b))
        of += max(len(a), len(b))
    return same / max(of, 1)


def drift(llm: dlmrs.LLM, lengths: list[int], count: int) -> None:
    choices: dict[str, dict[str, object]] = {"none": {}}
    for cache in ("prefix", "dual"):
        for refresh in ("step", "block", 2, 4):
            choices[f"{cache}, refresh {refresh}"] = {"cache": cache, "refresh": refresh}
    for length in lengths:
        for threshold in (None, 0.9):
            built = {name: dlmrs.Canvas(block_length=BLOCK, threshold=threshold, **choice) for name, choice in choices.items()}  # type: ignore[arg-type]
            if threshold is None:  # one token a pass is slow: the two plain modes only
                built = {name: built[name] for name in ("none", "prefix, refresh block", "dual, refresh block")}
            asked = count if threshold else max(count // 4, 1)
            runs = measure(llm, built, problems(asked), length)
            plain = runs["none"]
            print(f"{length} slots, {'one token a pass' if threshold is None else f'threshold {threshold}'}, {asked} problems\n")
            rows = [
                [
                    name,
                    f"{100 * agreement(run, plain):.1f} %",
                    f"{sum(a == b for a, b in zip(run.texts, plain.texts))} of {asked}",
                    share(run.strict, asked),
                    share(run.flexible, asked),
                    f"{run.mean(run.refreshes):.1f} + {run.mean(run.passes - run.refreshes):.1f}",
                    f"{run.mean(run.rows):.0f}",
                ]
                for name, run in runs.items()
            ]
            table(["cache", "same token", "same text", "strict", "flexible", "passes (refresh + other)", "rows"], rows)


def timed(llm: dlmrs.LLM, prompt: list[int], length: int, decoding: dlmrs.Canvas, passes: int) -> list[float]:
    """Milliseconds of the first passes of a request, from event to event; then it is cancelled."""
    params = dlmrs.SamplingParams(max_tokens=length, ignore_eos=True, seed=1)
    found, before = [], time.perf_counter()
    with llm.stream(prompt, params, decoding=decoding) as stream:
        for event in stream:
            if isinstance(event, dlmrs.Revealed):
                now = time.perf_counter()
                found.append(1e3 * (now - before))
                before = now
                if len(found) == passes:
                    break
    return found


def by_kind(llm: dlmrs.LLM, sizes: Sizes, prompt: list[int], length: int, rounds: int, following: int) -> None:
    """A block's first pass and those that follow, in each mode, in turns; predicted is the ratio of the operations."""
    modes = {
        "none": ("none", None),
        "dropout": ("none", dlmrs.SuffixDropout()),
        "prefix": ("prefix", None),
        "prefix, dropout": ("prefix", dlmrs.SuffixDropout()),
        "dual": ("dual", None),
        "dual, dropout": ("dual", dlmrs.SuffixDropout()),
    }
    built = {name: dlmrs.Canvas(block_length=BLOCK, cache=cache, suffix=suffix) for name, (cache, suffix) in modes.items()}  # type: ignore[arg-type]
    # One step a block: the trace tells what the first block keeps.
    kept = {}
    for name, decoding in built.items():
        first = dlmrs.Canvas(block_length=BLOCK, cache=decoding.cache, suffix=decoding.suffix, threshold=0.0)
        params = dlmrs.SamplingParams(max_tokens=length, ignore_eos=True, seed=1, trace=True)
        stream = llm.stream(prompt, params, decoding=first)
        next(event for event in stream if isinstance(event, dlmrs.Revealed))
        stream.cancel()
        output = stream.result()
        assert output.trace is not None
        kept[name] = len(output.trace.kept_suffix[0])
    times: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in built}
    for number in range(rounds + 1):
        order = list(built.items())
        for name, decoding in order[number % len(order) :] + order[: number % len(order)]:
            found = timed(llm, prompt, length, decoding, 1 + following)
            if number:  # the first round is a warm-up
                times[name][0].append(found[0])
                # Events may come late and then together, so not the fastest of these.
                times[name][1].append(statistics.median(found[1:]))
    base = [min(kind) for kind in times["none"]]
    rows = []
    for name, (cache, _) in modes.items():
        sized = shapes(cache, len(prompt), length, BLOCK, 0, kept[name])
        plain = shapes("none", len(prompt), length, BLOCK, 0, kept["none"])
        for index, kind in enumerate(("first", "following")):
            (fed, keys), (all_fed, all_keys) = sized[kind], plain[kind]
            ms = min(times[name][index])
            predicted = sizes.flop(all_fed, all_keys, BLOCK) / sizes.flop(fed, keys, BLOCK)
            measured = base[index] / ms
            saved = "" if name == "none" else f"{measured / predicted:.2f}"
            rows.append([name, kind, str(fed), str(keys), f"{ms:.2f}", f"{measured:.2f}", f"{predicted:.2f}", saved])
    print(f"prompt {len(prompt)}, {length} slots, blocks of {BLOCK}, the first block; the fastest of {rounds} rounds\n")
    table(["mode", "pass", "rows", "keys", "ms", "measured", "predicted", "realised"], rows)


def in_all(llm: dlmrs.LLM, sizes: Sizes, prompt: list[int], length: int, passes: int, rounds: int) -> None:
    """Whole runs with the same number of passes a block in every mode; the fastest of some."""
    modes = {
        "none": ("none", None),
        "dropout": ("none", dlmrs.SuffixDropout()),
        "prefix": ("prefix", None),
        "prefix, dropout": ("prefix", dlmrs.SuffixDropout()),
        "dual": ("dual", None),
        "dual, dropout": ("dual", dlmrs.SuffixDropout()),
    }
    rows, base = [], (0.0, 0.0)
    blocks = length // BLOCK
    for name, (cache, suffix) in modes.items():
        decoding = dlmrs.Canvas(block_length=BLOCK, steps=passes * blocks, cache=cache, suffix=suffix)  # type: ignore[arg-type]
        params = dlmrs.SamplingParams(max_tokens=length, ignore_eos=True, seed=1, trace=True)
        outputs = [llm.generate(prompt, params, decoding=decoding)[0] for _ in range(rounds)]
        output = min(outputs, key=lambda output: output.stats.forward_seconds)
        assert output.trace is not None and output.stats.total_passes == passes * blocks
        flop = 0.0
        for number, kept in enumerate(output.trace.kept_suffix):
            sized = shapes(cache, len(prompt), length, BLOCK, number, len(kept))
            left = [BLOCK - BLOCK // passes * step for step in range(passes)]
            flop += sizes.flop(*sized["first"], left[0]) + sum(sizes.flop(*sized["following"], read) for read in left[1:])
        seconds = output.stats.forward_seconds + output.stats.scan_seconds
        base = base if base[0] else (seconds, flop)
        measured, predicted = base[0] / seconds, base[1] / flop
        fed = sum(output.stats.rows.values())
        rows.append([name, str(output.stats.total_passes), str(fed), f"{seconds:.2f}", f"{1e3 * seconds / output.stats.total_passes:.1f}", f"{measured:.2f}", f"{predicted:.2f}", f"{measured / predicted:.2f}"])
    print(f"whole runs: prompt {len(prompt)}, {length} slots, {passes} passes a block; the fastest of {rounds}\n")
    table(["mode", "passes", "rows", "s", "ms a pass", "measured", "predicted", "realised"], rows)


def random_model(folder: pathlib.Path, sizes: Sizes, heads: int) -> None:
    """A LLaDA with random weights, written tensor by tensor."""
    c, f = sizes.hidden, sizes.feed_forward
    config = {
        "architectures": ["LLaDAModelLM"], "model_type": "llada", "d_model": c, "n_heads": heads, "n_kv_heads": heads, "n_layers": sizes.layers,
        "mlp_hidden_size": f, "max_sequence_length": 4096, "vocab_size": sizes.vocab, "embedding_size": sizes.vocab, "rope": True, "rope_theta": 500000.0,
        "rope_full_precision": True, "rms_norm_eps": 1e-5, "include_bias": False, "weight_tying": False, "mask_token_id": sizes.vocab - 1, "eos_token_id": 0,
        "activation_type": "silu", "block_type": "llama", "layer_norm_type": "rms", "alibi": False,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    top = "model.transformer."
    wanted: dict[str, tuple[int, ...]] = {f"{top}wte.weight": (sizes.vocab, c)}
    for layer in range(sizes.layers):
        parts: dict[str, tuple[int, ...]] = {"attn_norm": (c,), "ff_norm": (c,), "ff_proj": (f, c), "up_proj": (f, c), "ff_out": (c, f)}
        parts |= {name: (c, c) for name in ("q_proj", "k_proj", "v_proj", "attn_out")}
        wanted |= {f"{top}blocks.{layer}.{name}.weight": shape for name, shape in parts.items()}
    wanted |= {f"{top}ln_f.weight": (c,), f"{top}ff_out.weight": (sizes.vocab, c)}
    header, end = {}, 0
    for name, shape in wanted.items():
        start, end = end, end + 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    generator = np.random.default_rng(1)
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for shape in wanted.values():
            values = generator.standard_normal(shape, dtype=np.float32)
            scaled = 1 + 0.1 * values if len(shape) == 1 else values / np.float32(math.sqrt(shape[1]))
            file.write(scaled.astype(np.float32).data)


def main() -> None:
    options_of = parser(__doc__, PARTS)
    options_of.add_argument("--layers", type=int, help="of the random model (default: 16)")
    options_of.add_argument("--hidden", type=int, help="C of the random model (default: 1024); the rest follows")
    options_of.add_argument("--vocab", type=int, help="of the random model (default: 32000)")
    options_of.add_argument("--prompt", type=int, help="tokens before the random model's canvas (default: 200)")
    options_of.add_argument("--passes", type=int, default=2, help="a block in the whole runs on random weights (%(default)s)")
    options_of.add_argument("--rounds", type=int, help="turns that count where passes are timed (default: 5)")
    options = options_of.parse_args()
    quick = options.quick
    count = options.problems or (2 if quick else 200)
    rounds = options.rounds or (1 if quick else 5)
    llm = dlmrs.LLM("tiny-llada", threads=options.threads)
    print(f"{machine()}; {llm.threads} threads\n", flush=True)
    if "drift" in options.part:
        drift(llm, options.lengths or ([64] if quick else [128, 256]), count)
    if "realised" in options.part:
        tokens = np.random.default_rng(2).integers(8, 600, size=40).tolist()
        for length in options.lengths or ([64] if quick else [256, 1024]):
            by_kind(llm, Sizes.of_bundled(), tokens, length, rounds, 2 if quick else 5)
    if "random" in options.part:
        hidden = options.hidden or (128 if quick else 1024)
        sizes = Sizes(options.layers or (2 if quick else 16), hidden, hidden * 11 // 4 // 8 * 8, options.vocab or (512 if quick else 32000))
        with tempfile.TemporaryDirectory() as name:
            random_model(pathlib.Path(name), sizes, max(hidden // 64, 1))
            big = dlmrs.LLM(name, threads=options.threads)
        tokens = np.random.default_rng(3).integers(1, sizes.vocab - 2, size=options.prompt or (20 if quick else 200)).tolist()
        print(f"random weights: {sizes}\n")
        length = 64 if quick else (options.lengths or [1024])[0]
        by_kind(big, sizes, tokens, length, rounds, 2 if quick else 5)
        in_all(big, sizes, tokens, length, options.passes, min(rounds, 3))


if __name__ == "__main__":
    main()
