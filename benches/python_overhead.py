#!/usr/bin/env python3
"""What the Python layer adds to a request of one pass on the tiny model, above the same request in Rust.

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
from typing import Any, NamedTuple

import dlmrs

ROOT = Path(__file__).resolve().parent.parent
TARGET = 20.0
SLOTS = 4


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11, help="turns of each side that count (%(default)s)")
    parser.add_argument("--requests", type=int, default=300, help="requests in a turn (%(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="for each side (%(default)s)")
    parser.add_argument(
        "--one-pass", type=Path, help="the binary of the Rust side (default: the release build, built first)"
    )
    parser.add_argument("--json", type=Path, help="write the numbers to this file too")
    args = parser.parse_args()
    for name in ("rounds", "requests", "threads"):
        if getattr(args, name) < 1:
            parser.error(f"--{name} is {getattr(args, name)}; at least 1 is needed")
    return args


class Time(NamedTuple):
    """Microseconds of one request."""

    call: float
    """As the caller waits."""
    engine: float
    """From submission to the end, as the output says: the forward and the scan, which are the same on both sides."""

    @property
    def layer(self) -> float:
        """The rest of the call."""
        return self.call - self.engine


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

    def times(self, requests: int) -> list[Time]:
        times = []
        for _ in range(requests):
            started = time.perf_counter_ns()
            outputs = self.llm.generate([self.ids], self.params, decoding=self.decoding)
            call = time.perf_counter_ns() - started
            times.append(Time(call / 1e3, outputs[0].stats.total_seconds * 1e6))
        return times


def build() -> Path:
    """The release build of crates/dlmrs/examples/one_pass.rs."""
    example = ["-p", "dlmrs", "--features", "bundled", "--example", "one_pass"]
    subprocess.run(["cargo", "build", "--release", "--quiet", *example], cwd=ROOT, check=True)
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "examples" / "one_pass"


class Rust:
    """The process of crates/dlmrs/examples/one_pass.rs."""

    def __init__(self, binary: Path, ids: list[int], threads: int) -> None:
        command = [str(binary), "tiny-sdar", str(threads), ",".join(map(str, ids))]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.answer()

    def answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        if not line:
            sys.exit(f"one_pass ended with {self.process.wait()}")
        return line

    def times(self, requests: int) -> list[Time]:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{requests}\n")
        self.process.stdin.flush()
        pairs = (word.split(":") for word in self.answer().split())
        return [Time(int(call) / 1e3, int(engine) / 1e3) for call, engine in pairs]

    def close(self) -> None:
        self.process.communicate()


PARTS = ("call", "layer")


def measure(sides: dict[str, Python | Rust], rounds: int, requests: int) -> dict[str, list[list[Time]]]:
    """The sides take turns, each first every other time. The first turn of each is the warm-up."""
    turns: dict[str, list[list[Time]]] = {name: [] for name in sides}
    for turn in range(rounds + 1):
        for name in list(sides) if turn % 2 else list(sides)[::-1]:
            times = sides[name].times(requests)
            if turn > 0:
                turns[name].append(times)
    return turns


def compare(python: list[list[float]], rust: list[list[float]]) -> dict[str, Any]:
    """Values by turn and request: both sides, and what Python has more."""
    medians = {"python": list(map(statistics.median, python)), "rust": list(map(statistics.median, rust))}
    differences = [ours - theirs for ours, theirs in zip(medians["python"], medians["rust"])]
    lowest = {"python": min(map(min, python)), "rust": min(map(min, rust))}
    return {
        "median": {side: statistics.median(values) for side, values in medians.items()},
        "lowest": lowest,
        "more": {
            "median": statistics.median(differences),
            "lowest_round": min(differences),
            "highest_round": max(differences),
            "of_lowest": lowest["python"] - lowest["rust"],
        },
        "round_medians": medians,
    }


def line(name: str, ours: float, theirs: float, more: float, note: str = "") -> str:
    return f"{name:<22} {ours:>9.1f} {theirs:>9.1f} {more:>9.1f}{note}"


def main() -> None:
    args = arguments()
    ours = Python(args.threads)
    theirs = Rust(args.one_pass or build(), ours.ids, args.threads)
    turns = measure({"python": ours, "rust": theirs}, args.rounds, args.requests)
    theirs.close()
    results = {}
    print(f"{args.rounds} rounds of {args.requests} requests after a warm-up, threads: {args.threads}")
    print(f"{'microseconds':<22} {'Python':>9} {'Rust':>9} {'more':>9}")
    for part in PARTS:
        values = {side: [[getattr(time, part) for time in turn] for turn in of_side] for side, of_side in turns.items()}
        result = compare(values["python"], values["rust"])
        median, lowest, more = result["median"], result["lowest"], result["more"]
        spread = f"  ({more['lowest_round']:.1f}..{more['highest_round']:.1f} by round)"
        print(line(f"{part}, median", median["python"], median["rust"], more["median"], spread))
        print(line(f"{part}, lowest", lowest["python"], lowest["rust"], more["of_lowest"]))
        results[part] = result
    overhead = results["layer"]["more"]["median"]
    verdict = "below" if overhead < TARGET else "NOT below"
    print(f"the Python layer adds {overhead:.1f} microseconds, {verdict} the target of {TARGET:.0f}")
    if args.json:
        report = {"rounds": args.rounds, "requests": args.requests, "threads": args.threads, **results}
        args.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
