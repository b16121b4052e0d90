#!/usr/bin/env python3
"""From the start of a process to its first output: dlmrs generating, beside the bare import of other libraries.

    python benches/start.py [--rounds N] [--torch-python PYTHON]

See README.md beside this file for what is measured. Needs cargo, and a Python with the dlmrs package.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
QUESTION = "Mia has 63 beads. Mia gives 54 to Dan. How many beads does Mia have now?"

GENERATE = f"""
import dlmrs
llm = dlmrs.LLM("tiny-sdar")
question = {{"role": "user", "content": {QUESTION!r}}}
print(llm.chat([question], dlmrs.SamplingParams(max_tokens=4)).text, flush=True)
"""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11, help="turns of each process that count (%(default)s)")
    parser.add_argument("--binary", type=Path, help="the dlmrs binary (default: the release build, built first)")
    parser.add_argument("--python", default=sys.executable, help="a Python with dlmrs and numpy (this one)")
    parser.add_argument("--torch-python", default=sys.executable, help="a Python with PyTorch (this one)")
    parser.add_argument("--json", type=Path, help="write the numbers to this file too")
    args = parser.parse_args()
    if args.rounds < 1:
        parser.error(f"--rounds is {args.rounds}; at least 1 is needed")
    if args.binary and not args.binary.is_file():
        parser.error(f"--binary: there is no file {args.binary}")
    return args


def build() -> Path:
    """The release build of the standalone binary."""
    subprocess.run(["cargo", "build", "--release", "--quiet", "-p", "dlmrs-cli"], cwd=ROOT, check=True)
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "dlmrs"


def found(program: str) -> str:
    """Where it is. A link is not followed: an environment's Python is one."""
    return os.path.abspath(shutil.which(program) or sys.exit(f"there is no {program}"))


def imports(python: str, module: str) -> list[str]:
    return [python, "-c", f"import {module}; print({module}.__name__, flush=True)"]


def commands(args: argparse.Namespace) -> dict[str, list[str]]:
    # What is named from here must be found from elsewhere.
    binary = str((args.binary or build()).resolve())
    python, torch_python = map(found, (args.python, args.torch_python))
    return {
        "dlmrs generate, 4 tokens": [binary, "generate", "tiny-sdar", QUESTION, "--max-tokens", "4"],
        "python: dlmrs, 4 tokens": [python, "-c", GENERATE],
        "python: import dlmrs": imports(python, "dlmrs"),
        "python: import numpy": imports(python, "numpy"),
        "python: import torch": imports(torch_python, "torch"),
        "python: nothing": imports(python, "sys"),
    }


def milliseconds(command: list[str]) -> float | None:
    """Until the first byte of output; None if the process fails."""
    started = time.perf_counter()
    # Not from the project's root, where a folder could be taken for a module.
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT / "benches") as process:
        assert process.stdout is not None
        first = os.read(process.stdout.fileno(), 1)
        elapsed = time.perf_counter() - started
        process.stdout.read()
    return 1e3 * elapsed if first and process.returncode == 0 else None


def measure(commands: dict[str, list[str]], rounds: int) -> dict[str, list[float]]:
    """The processes take turns, another one first each time; the first turn of each is the warm-up."""
    times: dict[str, list[float]] = {}
    for name, command in commands.items():
        if milliseconds(command) is not None:
            times[name] = []
    names = list(times)
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            elapsed = milliseconds(commands[name])
            if elapsed is None:
                sys.exit(f"{name}: failed, though it worked before: {commands[name]}")
            times[name].append(elapsed)
    return times


def summary(times: list[float], base: list[float]) -> dict[str, Any]:
    ratios = [own / other for own, other in zip(times, base)]
    return {
        "median_ms": statistics.median(times),
        "lowest_ms": min(times),
        "ratio": {"median": statistics.median(ratios), "lowest": min(ratios), "highest": max(ratios)},
        "turns_ms": times,
    }


def main() -> None:
    args = arguments()
    wanted = commands(args)
    base = next(iter(wanted))
    times = measure(wanted, args.rounds)
    if base not in times:
        sys.exit(f"{base}: failed: {wanted[base]}")
    results = {name: summary(own, times[base]) for name, own in times.items()}
    print(f"{args.rounds} rounds after a warm-up")
    print(f"{'start to first output':<26} {'median ms':>10} {'lowest ms':>10}  of the first")
    for name in wanted:
        if name not in results:
            print(f"{name:<26} not installed for {wanted[name][0]}")
            continue
        result, ratio = results[name], results[name]["ratio"]
        spread = f"{ratio['median']:.2f} ({ratio['lowest']:.2f}..{ratio['highest']:.2f})"
        print(f"{name:<26} {result['median_ms']:>10.1f} {result['lowest_ms']:>10.1f}  {spread}")
    if args.json:
        args.json.write_text(json.dumps({"rounds": args.rounds, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
