"""What suffix_dropout.py and caches.py share: the problems, a run of a setting, scores, and the cost model of a pass."""

from __future__ import annotations

import argparse
import json
import math
import pathlib
import re
import time
from dataclasses import dataclass, field

import dlmrs

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROBLEMS = ROOT / "crates" / "dlmrs-tasks" / "data" / "word_problems.jsonl"
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


@dataclass(frozen=True)
class Problem:
    question: str
    answer: str


def problems(count: int, skip: int = 0) -> list[Problem]:
    """The first of the 1,000 problems; none of the bundled models was trained on them."""
    lines = PROBLEMS.read_text(encoding="utf-8").splitlines()[skip : skip + count]
    records = [json.loads(line) for line in lines]
    return [Problem(record["question"], plain(record["answer"].partition("####")[2])) for record in records]


def plain(number: str) -> str:
    return number.strip().replace(",", "").rstrip(".")


def strict(text: str, problem: Problem) -> bool:
    """What follows #### is the answer."""
    words = text.partition("####")[2].split()
    return bool(words) and plain(words[0]) == problem.answer


def flexible(text: str, problem: Problem) -> bool:
    """The last number is the answer."""
    found = NUMBER.findall(text)
    return bool(found) and plain(found[-1]) == problem.answer


@dataclass
class Run:
    """What a setting took over some problems, one at a time."""

    name: str
    problems: int = 0
    seconds: float = 0.0
    tokens: int = 0
    passes: int = 0
    refreshes: int = 0
    rows: int = 0
    blocks: int = 0
    kept: float = 0.0
    strict: int = 0
    flexible: int = 0
    texts: list[str] = field(default_factory=list)
    tokens_of: list[list[int]] = field(default_factory=list)
    seconds_of: list[float] = field(default_factory=list)
    rows_of: list[int] = field(default_factory=list)

    def add(self, output: dlmrs.Output, problem: Problem) -> None:
        stats = output.stats
        self.problems += 1
        self.seconds += stats.total_seconds
        self.tokens += stats.tokens
        self.passes += stats.total_passes
        self.refreshes += stats.passes["refresh"]
        self.rows += sum(stats.rows.values())
        self.blocks += stats.blocks
        self.kept += stats.mean_kept_suffix * stats.blocks
        self.strict += strict(output.text, problem)
        self.flexible += flexible(output.text, problem)
        self.texts.append(output.text)
        self.tokens_of.append(output.token_ids)
        self.seconds_of.append(stats.total_seconds)
        self.rows_of.append(sum(stats.rows.values()))

    def mean(self, total: float) -> float:
        return total / max(self.problems, 1)

    @property
    def latency(self) -> float:
        return self.mean(self.seconds)

    @property
    def mean_kept(self) -> float:
        return self.kept / max(self.blocks, 1)


def quotient(one: list[float] | list[int], other: list[float] | list[int]) -> float:
    """Of two settings' costs, over the problems that both answered; they answered them in turn."""
    both = min(len(one), len(other))
    return sum(one[:both]) / sum(other[:both])


def ask(llm: dlmrs.LLM, problem: Problem, length: int, decoding: dlmrs.Canvas, seed: int = 0) -> dlmrs.Output:
    params = dlmrs.SamplingParams(max_tokens=length, seed=seed, trace=True)
    return llm.chat([{"role": "user", "content": problem.question}], params, decoding=decoding)


def measure(llm: dlmrs.LLM, settings: dict[str, dlmrs.Canvas], asked: list[Problem], length: int) -> dict[str, Run]:
    """Settings take turns, problem by problem, so that what else the machine does falls on all of them."""
    runs = {name: Run(name) for name in settings}
    for number, problem in enumerate(asked):
        order = list(settings.items())
        turn = number % len(order)
        for name, decoding in order[turn:] + order[:turn]:
            runs[name].add(ask(llm, problem, length, decoding, seed=number), problem)
    return runs


def table(head: list[str], rows: list[list[str]]) -> None:
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)


def share(right: int, of: int) -> str:
    """Percent, and the 95 % interval (Wilson)."""
    n, z = max(of, 1), 1.96
    p = right / n
    middle, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    low, high = ((middle + sign * half) / (1 + z * z / n) for sign in (-1, 1))
    return f"{100 * p:.1f} % ({100 * low:.0f} to {100 * high:.0f})"


@dataclass(frozen=True)
class Sizes:
    """Letters as in docs/how_it_works.md: L layers, C hidden, F feed-forward, V vocabulary; G * D of keys equals C here."""

    layers: int
    hidden: int
    feed_forward: int
    vocab: int

    @classmethod
    def of_bundled(cls) -> Sizes:
        config = json.loads((ROOT / "crates/dlmrs/bundled/tiny-llada/config.json").read_text())
        return cls(config["n_layers"], config["d_model"], config["mlp_hidden_size"], config["vocab_size"])

    def flop(self, rows: int, keys: int, read: int) -> float:
        """Of a pass of so many rows that see so many keys, `read` of which get logits. In the last layer only read rows have queries,
        attention and feed-forward, as the engine computes it."""
        c, f = self.hidden, self.feed_forward
        key_value, rest = 4 * c * c, 4 * c * c + 6 * c * f
        whole = (self.layers - 1) * rows * (key_value + rest + 4 * c * keys)
        last = rows * key_value + read * (rest + 4 * c * keys)
        return whole + last + 2 * c * self.vocab * read


def shapes(cache: str, prompt: int, length: int, block: int, number: int, kept: int) -> dict[str, tuple[int, int]]:
    """Rows and keys of a block's first pass and of those that follow."""
    whole = prompt + (number + 1) * block + kept
    following = {"none": whole, "prefix": block + kept, "dual": block}[cache]
    return {"first": (whole, whole), "following": (following, whole)}


def machine() -> str:
    cpu = next((line.split(":")[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), "?")
    return f"{cpu}; dlmrs {dlmrs.__version__}; {time.strftime('%Y-%m-%d')}"


def parser(description: str | None, parts: list[str]) -> argparse.ArgumentParser:
    """The options of both scripts."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the smallest run that shows whether everything works")
    parser.add_argument("--part", choices=parts, nargs="+", default=parts, help="which tables (default: all)")
    parser.add_argument("--problems", type=int, help="how many problems are asked (default: 200; in the part long 8)")
    parser.add_argument("--lengths", type=int, nargs="+", help="lengths of the canvas behind the prompt")
    parser.add_argument("--threads", type=int, help="default: as many as the process may use")
    return parser
