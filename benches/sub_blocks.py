#!/usr/bin/env python3
"""Sub-blocks and the sub-block cache of Fast-dLLM v2: the tables of docs/fast_dllm_v2.md.

    python benches/sub_blocks.py --quick
    python benches/sub_blocks.py
    python benches/sub_blocks.py --model ./Fast_dLLM_v2_1.5B --prompts 20

By default the model is the tests' checkpoint of random weights, which has no tokenizer; prompts are random tokens of uneven lengths, the same
every time. Passes, rows and tokens are counted and not timed, so the table is the same on every machine. Needs the dlmrs package.
"""

from __future__ import annotations

import argparse
import pathlib
import random
import warnings

import dlmrs

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "fast_dllm_v2"
GOLDEN_MASK = 317


def prompts_of(llm: dlmrs.LLM, count: int) -> list[list[int]]:
    """Random tokens; a prompt that ends with a block, one that is shorter, and everything between."""
    draws = random.Random(1)
    special = {llm.mask_token_id, *llm.stop_token_ids}
    known = [token for token in range(llm.vocab_size) if token not in special]
    return [[draws.choice(known) for _ in range(draws.randint(5, 90))] for _ in range(count)]


def agreement(found: list[list[int]], wanted: list[list[int]]) -> float:
    """How many tokens are the same, place by place."""
    pairs = [(a, b) for one, other in zip(found, wanted) for a, b in zip(one, other)]
    return sum(a == b for a, b in pairs) / len(pairs)


def before_the_first_difference(found: list[list[int]], wanted: list[list[int]]) -> float:
    """How many tokens are the same before the first that is not, on average."""
    same = [next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), len(other)) for one, other in zip(found, wanted)]
    return sum(same) / len(same)


def blocks_anew(llm: dlmrs.LLM, canvases: list[list[int]], starts: list[int], decoding: dlmrs.SubBlockDiffusion, block: int) -> list[list[int]]:
    """Each generated block of these canvases once more, behind the canvas as it is: what it would be with this setting."""
    prompts = [canvas[:at] for canvas, start in zip(canvases, starts) for at in range(start + -start % block, len(canvas), block)]
    outputs = llm.generate(prompts, dlmrs.SamplingParams(max_tokens=block, ignore_eos=True, seed=1), decoding=decoding)
    return [output.token_ids for output in outputs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a folder (default: the tests' random weights)")
    parser.add_argument("--block", type=int, default=32, help="B (%(default)s)")
    parser.add_argument("--prompts", type=int, help="how many (default: 40)")
    parser.add_argument("--max-tokens", type=int, help="of an answer (default: 256)")
    parser.add_argument("--quick", action="store_true", help="the smallest run that shows whether everything works")
    options = parser.parse_args()

    count, length = options.prompts or (2 if options.quick else 40), options.max_tokens or (40 if options.quick else 256)
    if not options.model:  # random weights are good for any block length
        warnings.filterwarnings("ignore", message="block_length")
    mask = None if options.model else GOLDEN_MASK
    llm = dlmrs.LLM(options.model or GOLDEN, block_length=options.block, mask_token_id=mask)
    prompts = prompts_of(llm, count)
    starts = [len(prompt) for prompt in prompts]
    params = dlmrs.SamplingParams(max_tokens=length, ignore_eos=True, seed=1)
    print(f"{llm.name}, B {options.block}, {count} prompts, {length} tokens each\n")
    heading = "| threshold | sub-block | cache | tokens a pass | rows a token | same token | same before the first difference | same token, block by block |"
    print(heading + "\n|---|---|---|---|---|---|---|---|")
    for threshold in (1.0, 0.5) if options.quick else (1.0, 0.9, 0.5):
        for sub_block in (4, 8) if options.quick else (4, 8, 16, 32):
            exact: list[list[int]] = []
            canvases: list[list[int]] = []
            blocks: list[list[int]] = []
            for cached in (False, True) if sub_block < options.block else (False,):
                decoding = dlmrs.SubBlockDiffusion(sub_block=sub_block, threshold=threshold, sub_block_cache=cached)
                outputs = llm.generate(prompts, params, decoding=decoding)
                slots = sum(output.stats.revealed for output in outputs)
                passes = sum(output.stats.total_passes for output in outputs)
                rows = sum(sum(output.stats.rows.values()) for output in outputs)
                tokens = [output.token_ids for output in outputs]
                drift = ["", "", ""]
                if cached:
                    anew = blocks_anew(llm, canvases, starts, decoding, options.block)
                    drift = [
                        f"{100 * agreement(tokens, exact):.1f} %",
                        f"{before_the_first_difference(tokens, exact):.0f} of {length}",
                        f"{100 * agreement(anew, blocks):.1f} %",
                    ]
                else:
                    exact, canvases = tokens, [output.canvas_token_ids for output in outputs]
                    blocks = blocks_anew(llm, canvases, starts, decoding, options.block)
                print(f"| {threshold} | {sub_block} | {'yes' if cached else 'no'} | {slots / passes:.2f} | {rows / slots:.1f} | " + " | ".join(drift) + " |", flush=True)


if __name__ == "__main__":
    main()
