#!/usr/bin/env python3
"""Every benchmark of speed one after the other, and what they printed into docs/performance.md.

    python3 benches/performance.py [--env FOLDER] [--only kernels sdar llada llama mixture start] [--print]

See README.md beside this file. The benchmarks that need PyTorch or transformers have an environment of their own; what cannot run here is
said to be missing, and the rest runs. Needs cargo; about a quarter of an hour on two quiet cores.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "performance.md"
HEADING = "## Everything, as it was printed"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cache = Path(tempfile.gettempdir()) / "dlmrs-bench-env"
    parser.add_argument("--env", type=Path, default=cache, help="environment of PyTorch and transformers (%(default)s)")
    parser.add_argument("--only", nargs="+", choices=list(benchmarks(cache)), help="these alone")
    parser.add_argument("--print", action="store_true", help="print it, and leave the page as it is")
    return parser.parse_args()


def benchmarks(env: Path) -> dict[str, tuple[str, list[str], list[str]]]:
    """Of each a title, the command, and how it is written on the page."""
    binary = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "dlmrs"

    def script(name: str, *more: str, python: str = sys.executable) -> tuple[list[str], list[str]]:
        return [python, str(ROOT / "benches" / name), *more], ["python3", f"benches/{name}"]

    own, torch = ["--env", str(env)], str(env / "bin" / "python")
    return {
        "kernels": ("products of few rows", [str(binary), "bench", "--kernels"], ["dlmrs", "bench", "--kernels"]),
        "sdar": ("a model of SDAR-1.7B's shape", *script("sdar_beside_transformers.py", *own)),
        "llada": ("a forward of LLaDA's shape", *script("forward_beside_torch.py", *own)),
        "llama": ("a forward of LLaDA's shape beside llama.cpp", *script("forward_beside_llama_cpp.py")),
        "mixture": ("a mixture of experts", *script("mixture_layer.py", python=torch if Path(torch).exists() else sys.executable)),
        "start": ("start to first token", *script("start.py", "--torch-python", torch)),
    }


def machine() -> str:
    cpu = next((line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), "?")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    threads = len(os.sched_getaffinity(0))
    today = datetime.datetime.now(datetime.timezone.utc).date()
    return f"{cpu}, {threads} threads, {platform.system()} {platform.machine()}; commit {commit}, {today}; release build."


def run(title: str, command: list[str], shown: list[str]) -> str:
    print(f"{title} ...", file=sys.stderr, flush=True)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        text = f"not measured: {reason}"
    else:
        text = done.stdout.rstrip()
    return f"`{' '.join(shown)}`: {title}\n\n```text\n{text}\n```\n"


def main() -> None:
    args = arguments()
    subprocess.run(["cargo", "build", "--release", "--quiet", "--locked", "--workspace", "--bin", "dlmrs"], cwd=ROOT, check=True)
    chosen = {name: bench for name, bench in benchmarks(args.env).items() if not args.only or name in args.only}
    parts = [run(*bench) for bench in chosen.values()]
    text = "\n".join([f"{HEADING}\n", f"{machine()} Written by `python3 benches/performance.py`.\n", *parts])
    if args.print:
        print(text)
        return
    # Everything from the heading on is this script's.
    page = re.split(rf"^{re.escape(HEADING)}$", PAGE.read_text(), flags=re.M)[0].rstrip()
    PAGE.write_text(f"{page}\n\n{text}")


if __name__ == "__main__":
    main()
