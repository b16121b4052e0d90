#!/usr/bin/env python3
"""What the Python layer adds to a request of one pass on the tiny model, beside the same request in Rust.

    python benches/python_overhead.py [--rounds N] [--requests N]

See README.md beside this file for what is measured. Needs cargo, and the dlmrs package in this Python.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import dlmrs

ROOT = Path(__file__).resolve().parent.parent
TARGET = 20.0
SLOTS = 4


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11, help="turns of each side that count (%(default)s)")
    parser.add_argument("--requests", type=int, default=300, help="requests in a turn (%(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="for each side (%(default)s)")
    parser.add_argument("--json", type=Path, help="write the numbers to this file too")
    args = parser.parse_args()
    for name in ("rounds", "requests", "threads"):
        if getattr(args, name) < 1:
            parser.error(f"--{name} is {getattr(args, name)}; at least 1 is needed")
    return args


class Python:
    """This process."""

    def __init__(self, threads: int) -> None:
        self.llm = dlmrs.LLM("tiny-sdar", device="cpu", threads=threads)
        ids = self.llm.encode("Mia has 63 beads. Mia gives 54 to Dan.")
        # Whole blocks, so that all slots are in one block.
        self.ids = ids[: len(ids) // SLOTS * SLOTS]
        self.params = dlmrs.SamplingParams(max_tokens=SLOTS, seed=0, ignore_eos=True)
        # A threshold that every slot is above.
        self.decoding = dlmrs.BlockDiffusion(block_length=SLOTS, threshold=0.0)
        passes = self.llm.generate([self.ids], self.params, decoding=self.decoding)[0].stats.total_passes
        assert passes == 1, f"{passes} passes"

    def nanoseconds(self, requests: int) -> list[int]:
        times = []
        for _ in range(requests):
            started = time.perf_counter_ns()
            self.llm.generate([self.ids], self.params, decoding=self.decoding)
            times.append(time.perf_counter_ns() - started)
        return times


class Rust:
    """The process of crates/dlmrs/examples/one_pass.rs."""

    def __init__(self, ids: list[int], threads: int) -> None:
        build = ["cargo", "build", "--release", "--quiet", "-p", "dlmrs", "--features", "bundled", "--example", "one_pass"]
        subprocess.run(build, cwd=ROOT, check=True)
        target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "examples" / "one_pass"
        command = [str(target), "tiny-sdar", str(threads), ",".join(map(str, ids))]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.answer()

    def answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        if not line:
            sys.exit(f"one_pass ended with {self.process.wait()}")
        return line

    def nanoseconds(self, requests: int) -> list[int]:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{requests}\n")
        self.process.stdin.flush()
        return [int(word) for word in self.answer().split()]

    def close(self) -> None:
        self.process.communicate()


def measure(sides: dict[str, Python | Rust], rounds: int, requests: int) -> dict[str, dict[str, list[float]]]:
    """Microseconds a request, the median and the lowest of each turn. The first turn of each side is the warm-up."""
    turns: dict[str, dict[str, list[float]]] = {name: {"median": [], "lowest": []} for name in sides}
    for turn in range(rounds + 1):
        names = list(sides) if turn % 2 else list(sides)[::-1]
        for name in names:
            times = sides[name].nanoseconds(requests)
            if turn > 0:
                turns[name]["median"].append(statistics.median(times) / 1e3)
                turns[name]["lowest"].append(min(times) / 1e3)
    return turns


def summary(turns: dict[str, dict[str, list[float]]]) -> dict[str, Any]:
    differences = [python - rust for python, rust in zip(turns["python"]["median"], turns["rust"]["median"])]
    return {
        "python_us": statistics.median(turns["python"]["median"]),
        "rust_us": statistics.median(turns["rust"]["median"]),
        "overhead_us": {
            "median": statistics.median(differences),
            "lowest": min(differences),
            "highest": max(differences),
        },
        "python_lowest_us": min(turns["python"]["lowest"]),
        "rust_lowest_us": min(turns["rust"]["lowest"]),
        "overhead_of_lowest_us": min(turns["python"]["lowest"]) - min(turns["rust"]["lowest"]),
        "turns": turns,
    }


def main() -> None:
    args = arguments()
    ours = Python(args.threads)
    theirs = Rust(ours.ids, args.threads)
    result = summary(measure({"python": ours, "rust": theirs}, args.rounds, args.requests))
    theirs.close()
    spread = result["overhead_us"]
    print(f"{args.rounds} rounds of {args.requests} requests after a warm-up, {args.threads} threads; microseconds a request")
    print(f"{'':<16} {'Python':>8} {'Rust':>8} {'overhead':>9}")
    print(
        f"{'median':<16} {result['python_us']:>8.1f} {result['rust_us']:>8.1f} {spread['median']:>9.1f}"
        f"  ({spread['lowest']:.1f}..{spread['highest']:.1f} by round)"
    )
    print(
        f"{'lowest':<16} {result['python_lowest_us']:>8.1f} {result['rust_lowest_us']:>8.1f}"
        f" {result['overhead_of_lowest_us']:>9.1f}"
    )
    verdict = "below" if spread["median"] < TARGET else "NOT below"
    print(f"the median overhead is {verdict} the target of {TARGET:.0f} microseconds")
    if args.json:
        report = {"rounds": args.rounds, "requests": args.requests, "threads": args.threads, **result}
        args.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
