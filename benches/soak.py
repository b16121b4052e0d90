#!/usr/bin/env python3
"""Many mixed requests from several threads: every result as it is alone, and memory that does not grow.

    python benches/soak.py                        # 5,000 requests from 8 threads
    python benches/soak.py --requests 200 --json -

Needs the package ``dlmrs`` and Linux (the memory is read from /proc). A request is one of: a whole call, a stream that is read to its
end, a stream that is awaited in an event loop, a stream that is cancelled, one that is dropped half-way, one that is refused. The
exit status is 1 if a result differs from the same request alone, or if memory after the first fifth of the requests (by then all
buffers have their size) grows by more than ``--allow`` MiB.
"""

import argparse
import asyncio
import gc
import itertools
import json
import sys
import threading
from pathlib import Path

import dlmrs

PROMPTS = ["The beads cost 6 * 2 =", "Together that is 12 + 35 =", "9 * 5 =", "Hugo buys 6 beads for 2 dollars each."]
SETTINGS = [
    dlmrs.SamplingParams(max_tokens=8),
    dlmrs.SamplingParams(max_tokens=21, ignore_eos=True),
    dlmrs.SamplingParams(max_tokens=12, temperature=0.9, seed=3),
    dlmrs.SamplingParams(max_tokens=10, temperature=1.1, top_p=0.8, top_k=20, seed=5),
    dlmrs.SamplingParams(max_tokens=16, stop=["."], trace=True),
]
LONG = dlmrs.SamplingParams(max_tokens=200, ignore_eos=True)


def main() -> int:
    """Runs the requests and prints what came of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tiny-sdar")
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--allow", type=float, default=8.0, metavar="MIB", help="growth that is not held for a leak")
    parser.add_argument("--json", metavar="FILE", help="write the figures there too; - is standard output")
    arguments = parser.parse_args()

    llm = dlmrs.LLM(arguments.model)
    cases = list(itertools.product(PROMPTS, SETTINGS))
    alone = [llm.generate(prompt, params)[0].token_ids for prompt, params in cases]
    first = arguments.requests // 5
    counts: dict[str, int] = {}
    differences = run(llm, cases, alone, range(first), arguments.threads, counts)
    before = memory()
    differences += run(llm, cases, alone, range(first, arguments.requests), arguments.threads, counts)
    after = memory()
    figures = {
        "requests": sum(counts.values()),
        "by_kind": counts,
        "differences": differences,
        "mib_after_a_fifth": round(before, 1),
        "mib_at_the_end": round(after, 1),
        "mib_growth": round(after - before, 1),
    }
    print(", ".join(f"{key} {value}" for key, value in figures.items()), file=sys.stderr)
    if arguments.json == "-":
        print(json.dumps(figures))
    elif arguments.json:
        Path(arguments.json).write_text(json.dumps(figures) + "\n", encoding="utf-8")
    return int(differences > 0 or after - before > arguments.allow)


def run(
    llm: dlmrs.LLM,
    cases: list[tuple[str, dlmrs.SamplingParams]],
    alone: list[list[int]],
    numbers: range,
    threads: int,
    counts: dict[str, int],
) -> int:
    """Runs requests with these numbers and gives how many differed."""
    source = iter(numbers)
    lock = threading.Lock()
    differences = 0

    def work() -> None:
        nonlocal differences
        while True:
            with lock:
                number = next(source, None)
            if number is None:
                return
            index = number % len(cases)
            kind, tokens = request(llm, number, *cases[index])
            with lock:
                counts[kind] = counts.get(kind, 0) + 1
                differences += tokens is not None and tokens != alone[index]

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return differences


def request(llm: dlmrs.LLM, number: int, prompt: str, params: dlmrs.SamplingParams) -> tuple[str, list[int] | None]:
    """Makes one request; gives its kind and its tokens if it was read to its end."""
    match number % 7:
        case 0 | 1:
            return "generate", llm.generate(prompt, params)[0].token_ids
        case 2 | 3:
            committed = [event for event in llm.stream(prompt, params) if isinstance(event, dlmrs.Committed)]
            return "stream", [token for event in committed for token in event.token_ids]
        case 4:

            async def output() -> dlmrs.Output:
                return await llm.stream(prompt, params)

            return "await", asyncio.run(output()).token_ids
        case 5:
            stream = llm.stream(prompt, LONG)
            next(stream)
            if number % 2:
                return "drop", None
            stream.cancel()
            assert stream.result().finish_reason == "cancelled"
            return "cancel", None
        case _:
            try:
                llm.stream([llm.vocab_size])
            except dlmrs.InputError:
                return "refuse", None
            raise AssertionError("an id beyond the vocabulary was taken")


def memory() -> float:
    """Resident memory of this process in MiB."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 2**20


if __name__ == "__main__":
    sys.exit(main())
