#!/usr/bin/env python3
"""Suffix dropout on the bundled LLaDA: the tables of docs/suffix_dropout.md.

    python benches/suffix_dropout.py --quick
    python benches/suffix_dropout.py --part long
    python benches/suffix_dropout.py --part accuracy --problems 200

Parts: long (latency, tokens/s, passes, rows and kept masks by length), forced (one token a pass to the end of the canvas), accuracy, window
(window, budget and curve), attention (where the block's rows look, and what the spotlight changes). Needs the dlmrs package.
"""

from __future__ import annotations

import math

import dlmrs
from canvas_runs import Problem, Run, ask, machine, measure, parser, problems, quotient, share, table

BLOCK = 32
DROPOUT = dlmrs.SuffixDropout()
PARTS = ["long", "forced", "accuracy", "window", "attention"]


def settings() -> dict[str, dlmrs.Canvas]:
    """The rows of the paper's table. "early end" is strict."""

    def canvas(threshold: float | None, cache: str, dropout: bool, ends: bool) -> dlmrs.Canvas:
        return dlmrs.Canvas(
            block_length=BLOCK,
            threshold=threshold,
            cache=cache,  # type: ignore[arg-type]
            suffix=DROPOUT if dropout else None,
            early_stop="strict" if ends else "off",
        )

    return {
        "vanilla": canvas(None, "none", False, False),
        "vanilla, early end": canvas(None, "none", False, True),
        "dropout, early end": canvas(None, "none", True, True),
        "parallel": canvas(0.9, "none", False, False),
        "parallel, early end": canvas(0.9, "none", False, True),
        "parallel, dropout, early end": canvas(0.9, "none", True, True),
        "parallel, prefix": canvas(0.9, "prefix", False, False),
        "parallel, prefix, early end": canvas(0.9, "prefix", False, True),
        "parallel, prefix, dropout, early end": canvas(0.9, "prefix", True, True),
        "parallel, dual": canvas(0.9, "dual", False, False),
        "parallel, dual, early end": canvas(0.9, "dual", False, True),
        "parallel, dual, dropout, early end": canvas(0.9, "dual", True, True),
    }


def long(llm: dlmrs.LLM, lengths: list[int], count: int, skip: list[str]) -> None:
    """Every setting answers the same problems in turn; vanilla only the first, since it takes as many passes for each."""
    chosen = {name: canvas for name, canvas in settings().items() if name not in skip}
    for length in lengths:
        runs = {name: Run(name) for name in chosen}
        for number, problem in enumerate(problems(count)):
            for name, decoding in chosen.items():
                if number and name == "vanilla":
                    continue
                runs[name].add(ask(llm, problem, length, decoding, seed=number), problem)
        base = next(iter(runs.values()))
        rows = []
        for name, run in runs.items():
            rows.append(
                [
                    name,
                    str(run.problems),
                    f"{run.latency:.3f}",
                    f"{base.latency / run.latency:.2f}",
                    f"{base.mean(base.rows) / run.mean(run.rows):.2f}",
                    f"{run.tokens / run.seconds:.1f}",
                    f"{run.mean(run.tokens):.1f}",
                    f"{run.mean(run.refreshes):.1f} + {run.mean(run.passes - run.refreshes):.1f}",
                    f"{run.mean(run.rows):.0f}",
                    f"{run.mean(run.blocks):.1f}",
                    f"{run.mean_kept:.1f}",
                ]
            )
        print(f"{length} slots\n")
        head = ["setting", "n", "s", "speed-up", "fewer rows", "tokens/s", "tokens", "passes (refresh + other)", "rows", "blocks", "kept"]
        table(head, rows)
        for last in ("prefix", "dual"):
            steps = ["vanilla", "vanilla, early end", "dropout, early end", "parallel, dropout, early end", f"parallel, {last}, dropout, early end"]
            names = ["early end", "dropout", "parallel", f"{last} cache"]
            steps, names = steps[len(skip) :], names[len(skip) :]
            for what, costs in (("seconds", [runs[step].latency for step in steps]), ("rows", [runs[step].mean(runs[step].rows) for step in steps])):
                factors = [a / b for a, b in zip(costs, costs[1:])]
                told = " x ".join(f"{factor:.2f} ({name})" for factor, name in zip(factors, names))
                print(f"{what}: {told} = {costs[0] / costs[-1]:.2f}\n", flush=True)


def forced(llm: dlmrs.LLM, length: int, count: int) -> None:
    """Nobody ends early and every pass decides one token, so that what is left is the price of a pass."""
    choices = {
        "vanilla": ("none", None),
        "dropout": ("none", DROPOUT),
        "prefix": ("prefix", None),
        "prefix, dropout": ("prefix", DROPOUT),
        "dual": ("dual", None),
        "dual, dropout": ("dual", DROPOUT),
    }
    built = {name: dlmrs.Canvas(block_length=BLOCK, early_stop="off", cache=cache, suffix=suffix) for name, (cache, suffix) in choices.items()}  # type: ignore[arg-type]
    runs = measure(llm, built, problems(count), length)
    base = runs["vanilla"]
    rows = [
        [name, str(run.problems), f"{run.latency:.2f}", f"{quotient(base.seconds_of, run.seconds_of):.2f}", f"{quotient(base.rows_of, run.rows_of):.2f}", f"{run.mean(run.passes):.0f}", f"{run.mean(run.rows):.0f}"]
        for name, run in runs.items()
    ]
    print(f"{length} slots, one token a pass, to the end\n")
    table(["setting", "n", "s", "speed-up", "fewer rows", "passes", "rows"], rows)


def accuracy(llm: dlmrs.LLM, lengths: list[int], count: int, slow: int) -> None:
    """With an early end, which changes no text (the tests compare)."""
    chosen = {name: canvas for name, canvas in settings().items() if "early end" in name}
    for length in lengths:
        one = {name: canvas for name, canvas in chosen.items() if "parallel" not in name}
        runs = measure(llm, one, problems(slow), length)
        runs |= measure(llm, {name: canvas for name, canvas in chosen.items() if name not in one}, problems(count), length)
        print(f"{length} slots\n")
        table(
            ["setting", "n", "strict", "flexible", "tokens", "passes"],
            [
                [name, str(run.problems), share(run.strict, run.problems), share(run.flexible, run.problems), f"{run.mean(run.tokens):.1f}", f"{run.mean(run.passes):.1f}"]
                for name, run in runs.items()
            ],
        )


def window(llm: dlmrs.LLM, length: int, count: int, windows: list[int]) -> None:
    """The same number of kept masks, spent in different ways."""
    policies: dict[str, tuple[str, str, object]] = {"all of the suffix": ("", "", None), "none of it": ("", "0", "drop_all")}
    for size in windows:
        for part in (8, 4, 2):
            budget = size // part
            for kind in ("gaussian", "uniform", "exponential", "linear", "step"):
                policy = dlmrs.SuffixDropout(window=size, budget=budget, kind=kind)  # type: ignore[arg-type]
                policies[f"{kind} {size} {budget}"] = (kind, f"{budget} of {size}", policy)
            policies[f"window + tail {size} {budget}"] = ("window + tail", f"{budget} of {size}", dlmrs.WindowTail(window=budget - 1, tail=1))
    built = {name: dlmrs.Canvas(block_length=BLOCK, threshold=0.9, cache="prefix", suffix=policy) for name, (_, _, policy) in policies.items()}  # type: ignore[arg-type]
    runs = measure(llm, built, problems(count), length)
    print(f"{length} slots, {count} problems, prefix cache, threshold 0.9\n")
    rows = []
    for name in ("all of the suffix", "none of it"):
        rows.append([name, "", share(runs[name].strict, count), f"{runs[name].mean(runs[name].passes):.1f}", f"{runs[name].mean_kept:.1f}"])
    kinds = ["gaussian", "uniform", "exponential", "linear", "step", "window + tail"]
    table(["policy", "budget", "strict", "passes", "kept"], rows)
    cells = list(dict.fromkeys(cell for _, cell, policy in policies.values() if cell and policy != "drop_all"))
    by = {(kind, cell): runs[name] for name, (kind, cell, _) in policies.items()}
    table(["budget of window", *kinds], [[cell, *(f"{100 * by[kind, cell].strict / count:.1f} %" for kind in kinds)] for cell in cells])


def prompt_of(llm: dlmrs.LLM, problem: Problem) -> list[int]:
    return llm.chat([{"role": "user", "content": problem.question}], dlmrs.SamplingParams(max_tokens=0)).prompt_token_ids


def suffix_mass(llm: dlmrs.LLM, problem: Problem, length: int, dropped: set[int] | None = None) -> tuple[list[int], list[float]]:
    """Places behind the first block that are fed, and the share of attention that the block's rows give to each on average."""
    prompt = prompt_of(llm, problem)
    from_ = len(prompt)
    canvas = [*prompt, *[llm.mask_token_id] * length]
    places = [place for place in range(len(canvas)) if not dropped or place not in dropped]
    queries = [row for row, place in enumerate(places) if from_ <= place < from_ + BLOCK]
    keys = [row for row, place in enumerate(places) if place >= from_ + BLOCK]
    mass = llm.attention_mass([canvas[place] for place in places], queries, keys, positions=places).mean(axis=0)
    return [places[key] - from_ - BLOCK + 1 for key in keys], [float(share) for share in mass]


def attention(llm: dlmrs.LLM, length: int, count: int, judged: int, svg: str | None) -> None:
    behind = length - BLOCK
    edges = sorted({edge for edge in (1, 2, 4, 8, 16, 32, 64, 96, 128, 160, 192, 224) if edge < behind} | {behind, behind + 1})
    bins = list(zip(edges, edges[1:]))
    sums, absorbed_near, absorbed, taken = [0.0] * len(bins), 0.0, 0.0, 0.0
    distance, most = length // 8, 10
    for problem in problems(count):
        places, mass = suffix_mass(llm, problem, length)
        for index, (low, high) in enumerate(bins):
            sums[index] += sum(m for place, m in zip(places, mass) if low <= place < high) / count
        far = sorted((place for place in places if place > distance), key=lambda place: -mass[place - 1])[:most]
        start = len(prompt_of(llm, problem)) + BLOCK - 1
        left, after = suffix_mass(llm, problem, length, {start + place for place in far})
        taken += sum(mass[place - 1] for place in far)
        gains = {place: m - mass[place - 1] for place, m in zip(left, after)}
        absorbed += sum(gains.values())
        absorbed_near += sum(gain for place, gain in gains.items() if any(abs(place - gone) <= 3 for gone in far))
    print(f"attention mass of the first block's rows on what is behind it, mean of {count} problems, {length} slots\n")
    widths = [high - low for low, high in bins]
    table(
        ["distance", "mass", "a mask"],
        [[f"{low}" if high == low + 1 else f"{low} to {high - 1}", f"{100 * s:.3f} %", f"{100 * s / w:.5f} %"] for (low, high), s, w in zip(bins, sums, widths)],
    )
    print(f"all of it: {100 * sum(sums):.2f} % of the attention")
    print(
        f"the {most} masks farther than {distance} that get the most: {100 * taken / count:.3f} %; when they are dropped what is left of the suffix gains "
        f"{100 * absorbed / count:.3f} %, the masks within 3 places of them {100 * absorbed_near / count:.3f} %\n"
    )
    policies = {"all of the suffix": None, f"spotlight, {most} beyond {distance}": dlmrs.Spotlight(distance=distance, count=most)}
    built = {name: dlmrs.Canvas(block_length=BLOCK, threshold=0.9, suffix=policy) for name, policy in policies.items()}
    runs = measure(llm, built, problems(judged), length)
    plain = runs["all of the suffix"]
    rows = [
        [name, share(run.strict, judged), share(run.flexible, judged), f"{sum(a == b for a, b in zip(run.texts, plain.texts))} of {judged}"]
        for name, run in runs.items()
    ]
    table(["policy", "strict", "flexible", "same text"], rows)
    if svg:
        plot(svg, [(low, high, s / w) for (low, high), s, w in zip(bins, sums, widths)])


def plot(path: str, bars: list[tuple[int, int, float]]) -> None:
    """Bars on a logarithmic scale: what a single mask gets, by distance."""
    top, bottom = math.ceil(math.log10(max(share for *_, share in bars))), math.floor(math.log10(min(share for *_, share in bars)))
    width, height, left = 52, 220, 70
    y = lambda share: 20 + height * (top - math.log10(share)) / (top - bottom)  # noqa: E731
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width * len(bars) + 20}" height="{height + 80}" font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for power in range(bottom, top + 1):
        at = y(10.0**power)
        parts.append(f'<line x1="{left}" x2="{left + width * len(bars)}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 6}" y="{at + 4:.1f}" text-anchor="end">{100 * 10.0**power:g} %</text>')
    for index, (low, high, share_) in enumerate(bars):
        x, at = left + width * index, y(share_)
        parts.append(f'<rect x="{x + 6}" y="{at:.1f}" width="{width - 12}" height="{20 + height - at:.1f}" fill="#4a7ab5"/>')
        label = str(low) if high == low + 1 else f"{low}-{high - 1}"
        parts.append(f'<text x="{x + width / 2}" y="{height + 36}" text-anchor="middle">{label}</text>')
    parts.append(f'<text x="{left}" y="{height + 62}">distance from the block; share of attention that one mask gets</text></svg>')
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(parts) + "\n")


def main() -> None:
    options_of = parser(__doc__, PARTS)
    options_of.add_argument("--without-vanilla", action="store_true", help="of the part long: leave out the run that decides the whole canvas slot by slot")
    options_of.add_argument("--slow", type=int, help="of the part accuracy: problems where one token is decided a pass (default: half of --problems)")
    options = options_of.parse_args()
    llm = dlmrs.LLM("tiny-llada", threads=options.threads)
    print(f"{machine()}; {llm.threads} threads\n", flush=True)
    quick = options.quick
    count = options.problems or (2 if quick else 200)
    if "long" in options.part:
        long(llm, options.lengths or ([64] if quick else [128, 256, 512, 1024]), options.problems or (1 if quick else 8), ["vanilla"] if options.without_vanilla else [])
    if "forced" in options.part:
        forced(llm, 64 if quick else (options.lengths or [256])[0], 1 if quick else 3)
    if "accuracy" in options.part:
        accuracy(llm, options.lengths or ([64] if quick else [128, 256]), count, options.slow or max(count // 2, 1))
    if "window" in options.part:
        window(llm, 64 if quick else (options.lengths or [256])[0], count, [32] if quick else [32, 64, 128])
    if "attention" in options.part:
        length = 96 if quick else (options.lengths or [256])[0]
        attention(llm, length, 1 if quick else 20, count, None if quick else "docs/suffix_attention.svg")


if __name__ == "__main__":
    main()
