"""How well ``gamma="auto"`` and ``max_rows="auto"`` choose: beside every fixed setting, on the bundled models.

    python benches/auto.py --problems 20 --rounds 5
    python benches/auto.py --quick                       # two problems and one round, to see that it runs
    python benches/auto.py --rounds 0                    # counts of the fixed settings alone, the same on every machine

Needs the dlmrs package and numpy. Settings take turns request by request. What ``auto`` chooses goes by the time that passes took, so its
passes differ from run to run; its tokens do not, and every setting's are compared. "time" is a setting's time over that of ``auto``, the
median over the rounds: above 1 ``auto`` is faster. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import statistics
import warnings

import dlmrs
from speculation import DYNAMIC, STATIC, Bench, Setting, table

FIXED = {"max_tokens": 96}


def compare(bench: Bench, title: str, ways: dict[str, dlmrs.Decoding]) -> None:
    """A table of settings, the last of which is auto, and what auto loses to the best of the others."""
    if not bench.rounds:
        ways = {name: decoding for name, decoding in ways.items() if name != "auto"}
    settings = [Setting(name, decoding, FIXED) for name, decoding in ways.items()]
    bench.run(settings)
    wanted = [(output.token_ids, output.text) for output in settings[0].outputs]
    for s in settings:
        assert [(output.token_ids, output.text) for output in s.outputs] == wanted, s.name
    print(f"{title}, {len(bench.problems)} problems\n")
    counts = [[s.name, s.total("target_passes"), s.draft_passes(), s.rows() / s.total("target_passes")] for s in settings]
    head = ["setting", "target passes", "draft passes", "rows a target pass"]
    if not bench.rounds:
        table(head, counts)
        return
    auto = settings[-1]
    ratios = [statistics.median(a / b for a, b in zip(s.seconds, auto.seconds)) for s in settings]
    ms = [1e3 * statistics.median(s.seconds) / s.timed_outputs for s in settings]
    table([*head, "ms a request", "time"], ([*cells, *times] for cells, *times in zip(counts, ms, ratios)))
    best = min(range(len(settings) - 1), key=lambda i: ratios[i])
    print(f"auto takes {1 / ratios[best]:.2f} of the time of the best fixed setting, {settings[best].name}\n", flush=True)


def gamma(bench: Bench) -> None:
    """gamma, SimSD with states and identical"""
    for length, rule in ((4, STATIC), (4, DYNAMIC), (8, DYNAMIC)):
        block = {"block_length": length, **rule}
        ways: dict[str, dlmrs.Decoding] = {"no draft": dlmrs.BlockDiffusion(**block)}
        for slots in (1, 2, 4, 8):
            if slots <= length:
                ways[f"gamma {slots}"] = dlmrs.SimSD(**block, gamma=slots, own_guesses=False)
        ways["auto"] = dlmrs.SimSD(**block, gamma="auto", own_guesses=False)
        compare(bench, f"gamma, B = {length}, {rule['strategy'].removeprefix('low_confidence_')}", ways)


def rows(bench: Bench) -> None:
    """max_rows, Lookahead"""
    for length, rule in ((4, STATIC), (4, DYNAMIC), (8, DYNAMIC)):
        block = {"block_length": length, **rule}
        ways: dict[str, dlmrs.Decoding] = {"no guesses": dlmrs.BlockDiffusion(**block)}
        for most in (2 * length, 16, 32, 64):
            ways[f"max_rows {most}"] = dlmrs.Lookahead(**block, max_rows=most)
        ways["off"] = dlmrs.Lookahead(**block, max_rows="off")
        ways["auto"] = dlmrs.Lookahead(**block, max_rows="auto")
        compare(bench, f"max_rows, B = {length}, {rule['strategy'].removeprefix('low_confidence_')}", ways)


def canvas_rows(bench: Bench) -> None:
    """max_rows, Lookahead on a canvas"""
    bench = Bench(len(bench.problems), bench.timed, bench.rounds, "tiny-llada")
    for name, rule in (("one token a pass", {}), ("threshold 0.9", {"threshold": 0.9})):
        canvas = dlmrs.Canvas(cache="dual", **rule)
        ways: dict[str, dlmrs.Decoding] = {"no guesses": canvas}
        for most in (64, 128, 256):
            ways[f"max_rows {most}"] = dlmrs.Lookahead(canvas=canvas, max_rows=most)
        ways["auto"] = dlmrs.Lookahead(canvas=canvas, max_rows="auto")
        compare(bench, f"max_rows on a canvas, blocks of 32, {name}", ways)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=20, help="how many of the 1,000 problems; all of them are timed")
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds; 0 prints counts of the fixed settings alone")
    parser.add_argument("--quick", action="store_true", help="two problems and one round")
    options = parser.parse_args()
    # The weights serve block lengths up to 16; their config names 4.
    warnings.filterwarnings("ignore", message="block_length")
    bench = Bench(2, 2, 1) if options.quick else Bench(options.problems, options.problems, options.rounds)
    for part in (gamma, rows, canvas_rows):
        print(f"### {part.__doc__}\n")
        part(bench)


if __name__ == "__main__":
    main()
