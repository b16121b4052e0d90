"""Passes and accuracy of each strategy on the bundled word problems: a table for the pages in docs/.

    python benches/word_problems.py --model tiny-sdar --problems 50

Needs the dlmrs package. Passes are counted, not timed, so the table is the same on every machine.
"""

from __future__ import annotations

import argparse
import json
import pathlib

import dlmrs

PROBLEMS = pathlib.Path(__file__).resolve().parent.parent / "crates" / "dlmrs-tasks" / "data" / "word_problems.jsonl"


def block_settings() -> dict[str, dlmrs.BlockDiffusion]:
    settings: dict[str, dlmrs.BlockDiffusion] = {}
    for length in (4, 8, 16):
        settings[f"B {length}, sequential"] = dlmrs.BlockDiffusion(block_length=length, strategy="sequential")
        settings[f"B {length}, low_confidence_static"] = dlmrs.BlockDiffusion(block_length=length, strategy="low_confidence_static")
        settings[f"B {length}, margin"] = dlmrs.BlockDiffusion(block_length=length, strategy="margin")
        for threshold in (0.95, 0.85):
            settings[f"B {length}, low_confidence_dynamic {threshold}"] = dlmrs.BlockDiffusion(
                block_length=length, strategy="low_confidence_dynamic", threshold=threshold
            )
        settings[f"B {length}, entropy_bounded 0.35"] = dlmrs.BlockDiffusion(
            block_length=length, strategy="entropy_bounded", entropy_bound=0.35
        )
    return settings


def canvas_settings() -> dict[str, dlmrs.Canvas]:
    settings: dict[str, dlmrs.Canvas] = {}
    for length in (8, 32):
        settings[f"block {length}, one token a step"] = dlmrs.Canvas(block_length=length)
        settings[f"block {length}, 48 steps"] = dlmrs.Canvas(block_length=length, steps=48)
        settings[f"block {length}, random"] = dlmrs.Canvas(block_length=length, strategy="random")
        for threshold in (0.95, 0.9, 0.7):
            settings[f"block {length}, threshold {threshold}"] = dlmrs.Canvas(block_length=length, threshold=threshold)
        settings[f"block {length}, entropy, 48 steps"] = dlmrs.Canvas(block_length=length, steps=48, alg="entropy")
    return settings


def number(text: str) -> str | None:
    """What follows ####."""
    words = text.partition("####")[2].split()
    return words[0] if words else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tiny-sdar", help="tiny-sdar, tiny-sdar-draft, tiny-llada")
    parser.add_argument("--problems", type=int, default=50, help="how many of the 1,000 problems")
    parser.add_argument("--json", action="store_true", help="one JSON object a setting instead of a table")
    options = parser.parse_args()

    problems = [json.loads(line) for line in PROBLEMS.read_text(encoding="utf-8").splitlines()[: options.problems]]
    conversations = [[{"role": "user", "content": problem["question"]}] for problem in problems]
    llm = dlmrs.LLM(options.model)
    settings = block_settings() if llm.attention == "block-causal" else canvas_settings()
    params = dlmrs.SamplingParams(max_tokens=96, seed=0)
    if not options.json:
        print("| setting | right | passes | rows | tokens a pass |\n|---|---|---|---|---|")
    for name, decoding in settings.items():
        outputs = llm.chat(conversations, params, decoding=decoding)
        right = sum(number(output.text) == number(problem["answer"]) for output, problem in zip(outputs, problems))
        passes = sum(output.stats.total_passes for output in outputs)
        rows = sum(sum(output.stats.rows.values()) for output in outputs)
        rate = sum(output.stats.tokens for output in outputs) / passes
        if options.json:
            print(json.dumps({"setting": name, "problems": len(problems), "right": right, "passes": passes, "rows": rows, "tokens_per_pass": rate}))
        else:
            print(f"| {name} | {right}/{len(problems)} | {passes} | {rows} | {rate:.2f} |")


if __name__ == "__main__":
    main()
