"""Speculative decoding on the bundled pair: the tables of docs/speculation.md.

    python benches/speculation.py --problems 200 --rounds 3
    python benches/speculation.py --quick                       # a few problems, to see that it runs
    python benches/speculation.py --tables 1 6

Needs the dlmrs package and numpy. Passes, rows, answers and agreement are counted over all problems and are the same on every machine. Seconds
are not: they are taken over the first `--timed` problems, one request at a time, the settings in turn; a speed-up is the median over the
rounds of the ratio within a round.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import dlmrs
import numpy as np

PROBLEMS = pathlib.Path(__file__).resolve().parent.parent / "crates" / "dlmrs-tasks" / "data" / "word_problems.jsonl"
TARGET, DRAFT = "tiny-sdar", "tiny-sdar-draft"
# What a pass of SDAR-1.7B-Chat reads, beside one of SDAR-8B-Chat: the bytes of their weights.
COST_RATIO = 4.06 / 16.4
Sees = Callable[[int, int], bool]
STATIC, DYNAMIC = {"strategy": "low_confidence_static"}, {"strategy": "low_confidence_dynamic", "threshold": 0.9}


@dataclass
class Setting:
    """A row of a table, with what was measured of it."""

    name: str
    decoding: dlmrs.Decoding
    params: dict[str, object] = field(default_factory=dict)
    outputs: list[dlmrs.Output] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    timed_outputs: int = 0

    def total(self, name: str) -> int:
        return sum(getattr(output.stats, name) for output in self.outputs)

    def draft_passes(self) -> int:
        return sum(output.stats.draft_passes["draft"] for output in self.outputs)

    def rows(self) -> int:
        return sum(sum(o.stats.rows.values()) - o.stats.rows["prefill"] for o in self.outputs)

    def timed(self, name: str) -> int:
        return sum(getattr(output.stats, name) for output in self.outputs[: self.timed_outputs])

    def tokens_per_second(self) -> float:
        return self.timed("tokens") / statistics.median(self.seconds)

    def speed_up(self, base: Setting) -> float:
        """In tokens a second."""
        tokens = self.timed("tokens") / base.timed("tokens")
        return statistics.median(b / a for a, b in zip(self.seconds, base.seconds)) * tokens

    def computed(self, base: Setting) -> float:
        """Tokens for each target pass and draft pass at its price, beside the base's."""
        cost = (self.total("target_passes") + COST_RATIO * self.draft_passes()) / self.total("tokens")
        return base.total("target_passes") / base.total("tokens") / cost


def number(text: str) -> str | None:
    """What follows ####."""
    words = text.partition("####")[2].split()
    return words[0] if words else None


class Bench:
    """The models and the problems."""

    def __init__(self, problems: int, timed: int, rounds: int, model: str = TARGET) -> None:
        self.problems = [json.loads(line) for line in PROBLEMS.read_text(encoding="utf-8").splitlines()[:problems]]
        self.rounds, self.timed = rounds, timed
        self.llm = dlmrs.LLM(TARGET, draft=DRAFT) if model == TARGET else dlmrs.LLM(model)
        self.draft = dlmrs.LLM(DRAFT)
        chats = [[{"role": "user", "content": problem["question"]}] for problem in self.problems]
        self.prompts = [self.llm.encode(self.llm.render_chat(chat), parse_specials=True) for chat in chats]

    def run(self, settings: Sequence[Setting]) -> None:
        """Counts over all problems, a batch at a time, which changes no counter; then times the first, round by round."""

        def params(setting: Setting) -> dlmrs.SamplingParams:
            return dlmrs.SamplingParams(**{"max_tokens": 96, "seed": 0, **setting.params})

        for setting in settings:
            for start in range(0, len(self.prompts), 25):
                setting.outputs += self.llm.generate(self.prompts[start : start + 25], params(setting), decoding=setting.decoding)
            setting.timed_outputs = min(self.timed, len(self.prompts))
        # Settings take turns request by request, so that what else the machine does meets all of them alike.
        for _ in range(self.rounds):
            spent = [0.0] * len(settings)
            for prompt in self.prompts[: self.timed]:
                for i, setting in enumerate(settings):
                    begun = time.perf_counter()
                    self.llm.generate([prompt], params(setting), decoding=setting.decoding)
                    spent[i] += time.perf_counter() - begun
            for setting, seconds in zip(settings, spent):
                setting.seconds.append(seconds)

    def right(self, setting: Setting) -> int:
        pairs = zip(setting.outputs, self.problems)
        return sum(number(output.text) == number(problem["answer"]) for output, problem in pairs)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in row) + " |", flush=True)
    print()


def main_table(bench: Bench) -> None:
    """1. Speed and accuracy."""
    n = len(bench.problems)
    for length in (4, 8, 16):
        block, dynamic = {"block_length": length, **STATIC}, {"block_length": length, **DYNAMIC}
        policy = dlmrs.ScoreThreshold(threshold=0.0, penalty=1.0 if length == 4 else 0.0)
        settings = [
            Setting("target alone, dynamic 0.9", dlmrs.BlockDiffusion(**dynamic)),
            Setting("target alone, static", dlmrs.BlockDiffusion(**block)),
            Setting("S2D2 greedy", dlmrs.S2D2(block_length=length, policy=policy)),
            Setting("SimSD paired, greedy", dlmrs.SimSD(**block, layout="paired", accept="greedy")),
            Setting("no_leak, greedy", dlmrs.SimSD(**block, layout="no_leak", accept="greedy")),
            Setting("states, greedy", dlmrs.SimSD(**block, layout="states", accept="greedy")),
            Setting("states, rejection, temperature 1", dlmrs.SimSD(**block, layout="states", accept="rejection"), {"temperature": 1.0}),
            Setting("states, identical, static", dlmrs.SimSD(**block)),
            Setting("states, identical, dynamic 0.9", dlmrs.SimSD(**dynamic)),
            Setting("the same, 2 blocks, quick draft", dlmrs.SimSD(**dynamic, blocks=2, draft_steps=1)),
            Setting("Lookahead, dynamic 0.9", dlmrs.Lookahead(**dynamic)),
        ]
        bench.run(settings)
        base = settings[1]
        print(f"B = {length}, {n} problems\n")
        head = ["method", "right", "tokens/s", "speed-up", "target passes", "tokens a target pass", "draft passes", "computed"]
        table(
            head,
            (
                [
                    s.name,
                    f"{bench.right(s)}/{n}",
                    f"{s.tokens_per_second():.0f}",
                    s.speed_up(base),
                    s.total("target_passes"),
                    s.total("tokens") / s.total("target_passes"),
                    s.draft_passes(),
                    s.computed(base),
                ]
                for s in settings
            ),
        )


def aligned_table(bench: Bench) -> None:
    """2. Aligned and unaligned positions."""
    n, rows = len(bench.problems), []
    for aligned in (True, False):
        decoding = dlmrs.SimSD(block_length=4, **STATIC, layout="paired", accept="greedy", align_positions=aligned)
        setting = Setting("aligned" if aligned else "unaligned", decoding)
        bench.run([setting])
        found = [f for f in fidelity(bench, bench.draft, 4) if f.layout == ("paired" if aligned else "unaligned")]
        accepted = setting.total("accepted")
        divergence = sum(f.divergence for f in found) / len(found)
        cells = [setting.name, f"{bench.right(setting)}/{n}", f"{accepted / setting.total('drafted'):.3f}"]
        rows.append([*cells, accepted / setting.total("rounds"), divergence])
    table(["positions of the mask rows", "right", "acceptance", "accepted a round (of 4)", "KL, nats"], rows)


def gamma_table(bench: Bench) -> None:
    """3. gamma at B = 8."""
    n = len(bench.problems)
    settings = [
        Setting(f"{name}, gamma {gamma}", dlmrs.SimSD(block_length=8, **STATIC, gamma=gamma, **how))
        for name, how in (("paired, greedy", {"layout": "paired", "accept": "greedy"}), ("states, identical", {"own_guesses": False}))
        for gamma in (3, 4, 6, 8)
    ]
    bench.run(settings)
    rows = []
    for s in settings:
        ms = 8e3 * statistics.median(s.seconds) / s.timed("revealed")
        drafted, accepted = s.total("drafted"), s.total("accepted")
        cells = [s.name, f"{bench.right(s)}/{n}", f"{s.tokens_per_second():.0f}", f"{accepted / drafted:.3f}"]
        rows.append([*cells, accepted / s.total("rounds"), s.total("target_passes"), s.draft_passes(), ms])
    table(["setting", "right", "tokens/s", "acceptance", "accepted a round", "target passes", "draft passes", "ms for 8 slots"], rows)


@dataclass
class Fidelity:
    """A row of a layout beside the same row of the sequential state."""

    layout: str
    step: int
    agrees: bool
    divergence: float


def fidelity(bench: Bench, draft: dlmrs.LLM, length: int) -> list[Fidelity]:
    """Each layout's rows beside those of the sequential states, for the second block of the answer as `draft` would fill it."""
    found = []
    for prompt in bench.prompts:
        params = dlmrs.SamplingParams(max_tokens=length, ignore_eos=True, trace=True, seed=0)
        start = -(-len(prompt) // length) * length
        decoding = dlmrs.BlockDiffusion(block_length=length, **STATIC)
        fill = dlmrs.SamplingParams(max_tokens=max(start - len(prompt), 0), ignore_eos=True)
        prefix = bench.llm.generate([prompt], fill, decoding=decoding)[0].canvas_token_ids[:start]
        trace = draft.generate([prefix], params, decoding=decoding)[0].trace
        assert trace is not None
        slots = sorted(zip((trace.positions - start).tolist(), trace.token_ids.tolist(), trace.passes.tolist()))
        tokens, tau = [token for _, token, _ in slots], [step for _, _, step in slots]
        found += compare(bench.llm, prefix, tokens, tau)
    return found


def log_softmax(row: np.ndarray) -> np.ndarray:
    row = row.astype(np.float64)
    return row - row.max() - np.log(np.exp(row - row.max()).sum())


def compare(llm: dlmrs.LLM, prefix: list[int], tokens: list[int], tau: list[int]) -> list[Fidelity]:
    """All rows of one drafted block."""
    length, found = len(tokens), []
    states = {}
    for step in sorted(set(tau)):
        block = [token if t < step else llm.mask_token_id for token, t in zip(tokens, tau)]
        rows = forward(llm, length, prefix, block, list(range(length)), lambda row, key: True)
        states.update({i: log_softmax(rows[i]) for i in range(length) if tau[i] == step})
    kinds = {"paired": (2, True), "unaligned": (2, False), "no_leak": (3, True)}
    for layout, (copies, aligned) in kinds.items():
        block = tokens + [llm.mask_token_id] * length * (copies - 1)
        places = [i % length if aligned else i for i in range(length * copies)]
        sees = paired if copies == 2 else no_leak

        def visible(row: int, key: int, sees=sees) -> bool:
            return sees(row // length, tau[row % length], key // length, tau[key % length])

        rows = forward(llm, length, prefix, block, places, visible)[length : 2 * length]
        for i in range(length):
            p, q = states[i], log_softmax(rows[i])
            divergence = float((np.exp(p) * (p - q)).sum())
            found.append(Fidelity(layout, tau[i], int(p.argmax()) == int(q.argmax()), divergence))
    return found


def paired(copy: int, own: int, other: int, key: int) -> bool:
    if copy == 0:
        return key <= own if other == 0 else key > own
    return key < own if other == 0 else key >= own


def no_leak(copy: int, own: int, other: int, key: int) -> bool:
    match copy, other:
        case 0, 0:
            return key <= own
        case (0, 2) | (1, 2):
            return key > own
        case 1, 0:
            return key < own
        case 1, 1:
            return key == own
        case 2, 2:
            return True
    return False


def forward(llm: dlmrs.LLM, length: int, prefix: list[int], block: list[int], places: list[int], sees: Sees) -> np.ndarray:
    """Rows of copies of a block behind a block-causal prefix; `sees` says which row sees which."""
    start, n = len(prefix), len(block)
    mask = np.zeros((start + n, start + n), dtype=bool)
    blocks = np.arange(start) // length
    mask[:start, :start] = blocks[None, :] <= blocks[:, None]
    mask[start:, :start] = True
    mask[start:, start:] = [[sees(row, key) for key in range(n)] for row in range(n)]
    positions = list(range(start)) + [start + place for place in places]
    return llm.forward(prefix + block, positions=positions, mask=mask, rows=list(range(start, start + n)))


def agreement_table(bench: Bench) -> None:
    """4. Top-1 agreement with the sequential states, by step."""
    rows = []
    for length in (4, 8):
        for name, draft in (("self", bench.llm), ("cross", bench.draft)):
            found = fidelity(bench, draft, length)
            for layout in ("paired", "no_leak"):
                own = [f for f in found if f.layout == layout]
                by_step = [[f.agrees for f in own if f.step == step] for step in range(1, length + 1)]
                steps = " ".join(f"{sum(step) / len(step):.3f}" for step in by_step if step)
                mean = sum(f.agrees for f in own) / len(own)
                rows.append([length, name, layout, f"{mean:.3f}", f"{sum(f.divergence for f in own) / len(own):.4f}", steps])
    table(["B", "draft", "layout", "agreement", "KL, nats", "by step"], rows)


def identical_table(bench: Bench) -> None:
    """5. How often `identical` differs from the target alone."""
    rules = {
        "sequential": {"strategy": "sequential"},
        "static": STATIC,
        "static, 2 a step": {**STATIC, "steps": 2},
        "dynamic 0.9": DYNAMIC,
        "entropy_bounded": {"strategy": "entropy_bounded"},
        "margin": {"strategy": "margin"},
    }
    rows, rounds = [], bench.rounds
    bench.rounds = 0
    for name, rule in rules.items():
        for temperature in (0.0, 1.0):
            ways: dict[str, dlmrs.Decoding] = {
                "alone": dlmrs.BlockDiffusion(**rule),
                "SimSD": dlmrs.SimSD(**rule, blocks=2),
                "Lookahead": dlmrs.Lookahead(**rule),
            }
            settings = [Setting(way, decoding, {"temperature": temperature}) for way, decoding in ways.items()]
            bench.run(settings)
            wanted = [(output.token_ids, output.text) for output in settings[0].outputs]
            differ = [sum((o.token_ids, o.text) != w for o, w in zip(s.outputs, wanted)) for s in settings[1:]]
            passes = [s.total("target_passes") for s in settings]
            rows.append([name, f"{temperature:g}", *differ, " / ".join(map(str, passes))])
    bench.rounds = rounds
    table(["rule", "temperature", "SimSD differs", "Lookahead differs", "target passes alone / SimSD / Lookahead"], rows)


def lookahead_table(bench: Bench) -> None:
    """6. Lookahead, and drafts over several blocks."""
    fixed = {"max_tokens": 40, "ignore_eos": True}
    for length, rule in ((4, STATIC), (4, DYNAMIC), (8, STATIC), (8, DYNAMIC), (16, DYNAMIC)):
        block = {"block_length": length, **rule}
        ways: dict[str, dlmrs.Decoding] = {"target alone": dlmrs.BlockDiffusion(**block)}
        for blocks, probes in ((1, 0), (2, 0), (2, 1), (4, 1)):
            ways[f"Lookahead {blocks}+{probes}"] = dlmrs.Lookahead(**block, blocks=blocks, probes=probes)
        ways["Lookahead 2+1, no alternatives"] = dlmrs.Lookahead(**block, alternatives=False)
        ways["Lookahead 2+1, max_rows 32"] = dlmrs.Lookahead(**block, max_rows=32)
        for blocks in (1, 2, 4):
            ways[f"draft, {blocks} blocks"] = dlmrs.SimSD(**block, blocks=blocks, own_guesses=False)
        ways["quick draft, 2 blocks"] = dlmrs.SimSD(**block, blocks=2, draft_steps=1, own_guesses=False)
        ways["draft and own guesses, 2 blocks"] = dlmrs.SimSD(**block, blocks=2)
        ways["quick draft and own guesses, 2 blocks"] = dlmrs.SimSD(**block, blocks=2, draft_steps=1)
        ways["quick draft and own guesses, 4 blocks"] = dlmrs.SimSD(**block, blocks=4, draft_steps=1)
        settings = [Setting(name, decoding, fixed) for name, decoding in ways.items()]
        bench.run(settings)
        base = settings[0]
        print(f"B = {length}, {rule['strategy'].removeprefix('low_confidence_')}, {len(bench.problems)} problems\n")
        rows = []
        for s in settings:
            passes = s.total("target_passes")
            assert [o.token_ids for o in s.outputs] == [o.token_ids for o in base.outputs], s.name
            cells = [s.name, passes, f"{base.total('target_passes') / passes:.2f} x", s.rows() / passes]
            rows.append([*cells, s.draft_passes() / passes, 1e3 * statistics.median(s.seconds) / s.timed_outputs, s.speed_up(base)])
        table(["setting", "target passes", "fewer", "rows a pass", "draft passes a pass", "ms a request", "speed-up"], rows)


def canvas_table(bench: Bench) -> None:
    """7. Lookahead inside a canvas's block."""
    bench = Bench(len(bench.problems), bench.timed, bench.rounds, "tiny-llada")
    fixed = {"max_tokens": 128}
    for name, rule in (("one token a pass", {}), ("threshold 0.9", {"threshold": 0.9})):
        canvas = dlmrs.Canvas(cache="dual", **rule)
        ways: dict[str, dlmrs.Decoding] = {"dual cache alone": canvas}
        for copies in (2, 4, 8):
            ways[f"Lookahead, {copies} copies"] = dlmrs.Lookahead(canvas=canvas, max_rows=32 * copies)
            ways[f"{copies} copies, no alternatives"] = dlmrs.Lookahead(canvas=canvas, max_rows=32 * copies, alternatives=False)
        ways["Lookahead, all guesses"] = dlmrs.Lookahead(canvas=canvas, max_rows="off")
        settings = [Setting(way, decoding, fixed) for way, decoding in ways.items()]
        bench.run(settings)
        base = settings[0]
        print(f"128 slots, blocks of 32, {name}, {len(bench.problems)} problems\n")
        rows = []
        for s in settings:
            assert [(o.token_ids, o.text) for o in s.outputs] == [(o.token_ids, o.text) for o in base.outputs], s.name
            refreshes = sum(o.stats.passes["refresh"] for o in s.outputs)
            cached, alone = s.total("target_passes") - refreshes, base.total("target_passes") - refreshes
            fed = s.rows() - sum(o.stats.rows["refresh"] for o in s.outputs)
            times = [1e3 * statistics.median(s.seconds) / s.timed_outputs, s.speed_up(base)] if s.seconds else []
            # Where a few easy problems are done by their refreshes there is nothing to compare.
            per_pass = [f"{alone / cached:.2f} x", fed / cached] if cached else ["", ""]
            rows.append([s.name, refreshes, cached, *per_pass, *times])
        head = ["setting", "refreshes", "cached passes", "fewer", "rows a cached pass", "ms a request", "speed-up"]
        table(head[: len(rows[0])], rows)


TABLES = {1: main_table, 2: aligned_table, 3: gamma_table, 4: agreement_table, 5: identical_table, 6: lookahead_table, 7: canvas_table}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=200, help="how many of the 1,000 problems")
    parser.add_argument("--timed", type=int, default=40, help="how many of them are timed, too")
    parser.add_argument("--rounds", type=int, default=3, help="timed rounds; table 7 alone can do with 0, and then only counts")
    parser.add_argument("--tables", type=int, nargs="+", default=sorted(TABLES), choices=sorted(TABLES), help="which tables")
    parser.add_argument("--quick", action="store_true", help="two problems and one round")
    options = parser.parse_args()
    # The weights serve block lengths up to 16; their config names 4.
    warnings.filterwarnings("ignore", message="block_length")
    bench = Bench(2, 2, 1) if options.quick else Bench(options.problems, options.timed, options.rounds)
    for chosen in options.tables:
        print(f"### {TABLES[chosen].__doc__}\n")
        TABLES[chosen](bench)


if __name__ == "__main__":
    main()
