#!/usr/bin/env python3
"""What GGUF's types cost a model: `tiny-llada` written in each, against its own logits and answers.

    python benches/gguf_types.py --problems 20

Needs the `gguf` package, and the helpers of the tests beside it.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import dlmrs
import numpy as np

TESTS = Path(__file__).resolve().parent.parent / "tests"
sys.path.insert(0, str(TESTS))

from gguf_files import Type, convert, everything  # noqa: E402
from golden_data import word_problems  # noqa: E402

TINY = TESTS.parent / "crates" / "dlmrs" / "bundled" / "tiny-llada"


def round_off(number: float) -> str:
    """Two digits, without a power of ten."""
    return np.format_float_positional(number, precision=2, fractional=False, trim="-")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--problems", type=int, default=20, help="word problems to answer")
    problems = word_problems(parser.parse_args().problems)
    questions = [[{"role": "user", "content": problem["question"]}] for problem in problems]
    params = dlmrs.SamplingParams(max_tokens=96)
    own = dlmrs.LLM("tiny-llada")
    texts = [output.text for output in own.chat(questions, params)]
    ids = list(range(40, 64)) + [own.mask_token_id] * 8
    wanted = own.forward(ids)
    print("| type | bytes of the file | logits differ by | same text |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for kind in (Type.F32, Type.BF16, Type.F16, Type.Q8_0, Type.Q4_0):
            path = convert(TINY, Path(folder) / f"{kind.name}.gguf", everything(kind), pre="smollm", stops=(0, 2))
            llm = dlmrs.LLM(path)
            share = np.sqrt(np.square(llm.forward(ids) - wanted).mean() / np.square(wanted).mean())
            same = sum(output.text == text for output, text in zip(llm.chat(questions, params), texts, strict=True))
            print(f"| {kind.name} | {path.stat().st_size:,} | {round_off(100 * share)} % | {same} of {len(texts)} |")


if __name__ == "__main__":
    main()
