#!/usr/bin/env python3
"""One forward of a LLaDA-shaped model, dlmrs beside llama.cpp's diffusion program, in one alternating run.

    python3 benches/forward_beside_llama_cpp.py [--env FOLDER] [--bin FOLDER] [--rows 128 512] [--json FILE]

See README.md beside this file for what is measured. llama.cpp is built from the sources in the `llama-cpp-python` package, in an environment
of the benchmark's own (about ten minutes on two cores).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import random_checkpoint
from forward_beside_torch import EPS, HEADS, HIDDEN, INTERMEDIATE, LAYERS, MASK, THETA, VOCAB, Dlmrs, random_weights

PROGRAMS = ("llama-diffusion-cli", "llama-quantize")
# What is beside what: bits for bits.
BESIDE = {"f32": "F32", "int8": "Q8_0", "int4": "Q4_0"}
# Passes of one run of the diffusion program; the mean of them is one turn.
STEPS = 6
NAMES = {
    "attn_norm": "attn_norm",
    "ff_norm": "ffn_norm",
    "q_proj": "attn_q",
    "k_proj": "attn_k",
    "v_proj": "attn_v",
    "attn_out": "attn_output",
    "ff_proj": "ffn_gate",
    "up_proj": "ffn_up",
    "ff_out": "ffn_down",
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cache = Path(tempfile.gettempdir()) / "dlmrs-bench-llama"
    parser.add_argument(
        "--env", type=Path, default=cache, help="environment of the benchmark, made if it is not there (%(default)s)"
    )
    parser.add_argument("--bin", type=Path, help=f"folder with {' and '.join(PROGRAMS)}, where they are built already")
    parser.add_argument("--rows", type=int, nargs="+", default=[128, 512], help="rows of a forward (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="turns that each side takes (%(default)s)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="for each side (%(default)s)")
    parser.add_argument("--json", type=Path, help="write the numbers to this file too")
    return parser.parse_args()


# What follows runs inside the environment.


def build(env: Path) -> Path:
    """llama.cpp's programs for this machine, but without AMX, with which that version crashes."""
    done = env / "llama.cpp" / "bin"
    if all((done / name).exists() for name in PROGRAMS):
        return done
    print("building llama.cpp (about ten minutes)", file=sys.stderr)
    pip = [sys.executable, "-m", "pip"]
    path = f"{env / 'bin'}{os.pathsep}{os.environ['PATH']}"

    def run(*command: str) -> None:
        done = subprocess.run(
            command, cwd=env, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            sys.exit(f"not built: {' '.join(command)}: {done.stderr[-2000:]}")

    run(*pip, "install", "--quiet", "cmake", "ninja", "scikit-build-core")
    run(*pip, "download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "llama-cpp-python")
    (archive,) = env.glob("llama_cpp_python-*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(env, filter="data")
    (source,) = env.glob("llama_cpp_python-*/vendor/llama.cpp")
    options = [
        "-DCMAKE_BUILD_TYPE=Release",
        "-DBUILD_SHARED_LIBS=OFF",
        "-DLLAMA_CURL=OFF",
        "-DLLAMA_BUILD_TESTS=OFF",
        "-DLLAMA_BUILD_SERVER=OFF",
    ]
    options += [f"-DGGML_AMX_{part}=OFF" for part in ("TILE", "INT8", "BF16")]
    run("cmake", "-S", str(source), "-B", "llama.cpp", "-G", "Ninja", *options)
    run("ninja", "-C", "llama.cpp", *PROGRAMS)
    return done


def write(path: Path) -> None:
    """The checkpoint as llama.cpp's converter would write it, in f32."""
    import gguf
    import numpy as np

    writer = gguf.GGUFWriter(path, "llada")
    writer.add_block_count(LAYERS)
    writer.add_context_length(4096)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INTERMEDIATE)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(EPS)
    writer.add_rope_freq_base(THETA)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_vocab_size(VOCAB)
    writer.add_causal_attention(False)
    writer.add_bool("diffusion.shift_logits", False)
    # Bytes, a pair of them, and names for the rest of the vocabulary.
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = [chr(b) for b in visible] + [chr(256 + i) for i in range(256 - len(visible))]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([*letters, "ab", *(f"<{i}>" for i in range(VOCAB - 257))])
    writer.add_token_types(
        [gguf.TokenType.NORMAL] * 257 + [gguf.TokenType.USER_DEFINED] * (VOCAB - 258) + [gguf.TokenType.CONTROL]
    )
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(MASK - 1)
    writer.add_mask_token_id(MASK)
    writer.add_add_bos_token(False)
    for name, values in random_weights().items():
        parts = name.removeprefix("model.transformer.").removesuffix(".weight").split(".")
        if parts[0] == "blocks":
            short = f"blk.{parts[1]}.{NAMES[parts[2]]}"
            if parts[2] in ("q_proj", "k_proj"):  # the rows that are rotated together stand side by side
                values = np.ascontiguousarray(
                    values.reshape(HEADS, 2, -1, HIDDEN).swapaxes(1, 2).reshape(HIDDEN, HIDDEN)
                )
        else:
            short = {"wte": "token_embd", "ln_f": "output_norm", "ff_out": "output"}[parts[0]]
        writer.add_tensor(f"{short}.weight", values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class LlamaCpp:
    """Its diffusion program on a file: all rows in each pass, the logits of all of them, nothing kept."""

    def __init__(self, program: Path, file: Path, threads: int) -> None:
        self.command = [
            str(program),
            "-m",
            str(file),
            "-p",
            "a",
            "-t",
            str(threads),
            "-tb",
            str(threads),
            "--temp",
            "0",
            "--top-k",
            "1",
        ]
        self.command += ["--diffusion-eps", "0.001", "--diffusion-steps", str(STEPS), "--diffusion-algorithm", "4"]

    def time(self, rows: int) -> float:
        """Milliseconds of a pass, without what it takes to choose tokens."""
        sizes = [option for name in ("-c", "-b", "-ub") for option in (name, str(rows))]
        done = subprocess.run([*self.command, *sizes], capture_output=True, text=True, check=False)
        found = re.search(r"time per step: ([0-9.]+)ms, sampling time per step: ([0-9.]+)ms", done.stdout + done.stderr)
        if done.returncode != 0 or found is None:
            sys.exit(f"llama.cpp failed ({done.returncode}): {(done.stdout + done.stderr)[-1000:]}")
        return float(found[1]) - float(found[2])


def measure(sides: dict[str, Dlmrs | LlamaCpp], rows: int, rounds: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    for turn in range(rounds + 1):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            side = sides[name]
            elapsed = (
                statistics.mean(side.time(rows) for _ in range(STEPS)) if isinstance(side, Dlmrs) else side.time(rows)
            )
            if turn > 0:  # the first is the warm-up
                times[name].append(elapsed)
    return times


def lines(rows: int, times: dict[str, list[float]]) -> list[str]:
    found = []
    for ours, theirs in BESIDE.items():
        own, other = times[f"dlmrs {ours}"], times[f"llama.cpp {theirs}"]
        ratio = statistics.median(other) / statistics.median(own)
        fastest = f"{ratio:.2f} ({min(other) / min(own):.2f})"
        found.append(
            f"{rows:>5} {ours:>6} {statistics.median(own):>9.1f}   {theirs:>6} {statistics.median(other):>9.1f} {fastest:>16}"
        )
    return found


def inside(args: argparse.Namespace) -> None:
    programs = args.bin or build(args.env)
    with tempfile.TemporaryDirectory(prefix="dlmrs-bench-") as temporary:
        full = Path(temporary) / "F32.gguf"
        write(full)
        files = {"F32": full}
        for kind in ("Q8_0", "Q4_0"):
            files[kind] = full.with_name(f"{kind}.gguf")
            # `--pure`: the head too, which is left finer otherwise.
            subprocess.run(
                [programs / "llama-quantize", "--pure", full, files[kind], kind], capture_output=True, check=True
            )
        # Both read the very same file in f32.
        ours = {name: Dlmrs(full, args.threads, name) for name in BESIDE}
        sides: dict[str, Dlmrs | LlamaCpp] = {f"dlmrs {name}": side for name, side in ours.items()}
        sides |= {
            f"llama.cpp {kind}": LlamaCpp(programs / "llama-diffusion-cli", file, args.threads)
            for kind, file in files.items()
        }
        isa = ours["f32"].isa
        print(
            f"{version(args)}, dlmrs at {isa}, {args.threads} threads, medians of {args.rounds} rounds of {STEPS} passes",
            flush=True,
        )
        print(f"{'rows':>5} {'dlmrs':>6} {'ms':>9}   {'llama.cpp':>6} {'ms':>6} {'llama.cpp / dlmrs':>16}", flush=True)
        results: list[dict[str, Any]] = []
        for rows in args.rows:
            times = measure(sides, rows, args.rounds)
            results.append({"rows": rows, "turns": times})
            print("\n".join(lines(rows, times)), flush=True)
        for side in ours.values():
            side.close()
    if args.json:
        args.json.write_text(json.dumps({"isa": isa, "threads": args.threads, "results": results}, indent=1) + "\n")


def version(args: argparse.Namespace) -> str:
    found = sorted(args.env.glob("llama_cpp_python-*.tar.gz"))
    return f"llama.cpp of {found[-1].name.removesuffix('.tar.gz').replace('_', '-')}" if found else "llama.cpp"


def main() -> None:
    args = arguments()
    if Path(sys.prefix).resolve() == args.env.resolve():
        inside(args)
        return
    python = random_checkpoint.environment(args.env, "numpy", "gguf")
    sys.exit(subprocess.run([python, *sys.argv], check=False).returncode)


if __name__ == "__main__":
    main()
