"""Other processes and signals: spawned workers, forks with open streams, Ctrl-C, and a short soak."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import dlmrs
import pytest

BENCHES = Path(__file__).resolve().parent.parent / "benches"


def _tokens(prompt: str) -> list[int]:
    """Runs in a worker, which loads its own model."""
    with dlmrs.LLM("tiny-sdar", threads=1) as llm:
        return llm.generate(prompt, dlmrs.SamplingParams(max_tokens=8))[0].token_ids


def test_a_pool_of_spawned_workers(sdar: dlmrs.LLM) -> None:
    prompts = ["9 * 5 =", "The beads cost 6 * 2 ="]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        found = pool.map(_tokens, prompts)
    assert found == [output.token_ids for output in sdar.generate(prompts, dlmrs.SamplingParams(max_tokens=8))]


def _in_a_fork(code: str) -> subprocess.CompletedProcess[str]:
    """Runs code in a process that has streamed and then forks; the child's exit status is printed."""
    program = f"""
import os, warnings, dlmrs
warnings.simplefilter("ignore")
llm = dlmrs.LLM("tiny-sdar", threads=2)
stream = llm.stream("9 * 5 =", dlmrs.SamplingParams(max_tokens=500, ignore_eos=True))
next(stream)
if (child := os.fork()) == 0:
    status = 9
    try:
{code}
    finally:
        os._exit(status)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
stream.cancel()
assert stream.result().finish_reason == "cancelled"
"""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("next(stream)", "belongs to another process"),
        ("stream.result()", "belongs to another process"),
        ("llm.stream('a')", "did not survive the fork"),
        ("llm.generate('a')", "did not survive the fork"),
    ],
)
def test_a_fork_says_what_to_do(call: str, message: str) -> None:
    code = f"""
        try:
            {call}
        except dlmrs.ClosedError as error:
            status = 0 if {message!r} in str(error) else 8
"""
    run = _in_a_fork(code)
    assert (run.stdout, run.stderr, run.returncode) == ("0\n", "", 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_may_drop_everything_and_load_its_own() -> None:
    code = """
        stream.close(); llm.close()
        del stream, llm
        with dlmrs.LLM("tiny-sdar", threads=2) as own:
            status = 0 if own.stream("9 * 5 =", dlmrs.SamplingParams(max_tokens=4)).result().token_ids else 8
"""
    run = _in_a_fork(code)
    assert (run.stdout, run.stderr, run.returncode) == ("0\n", "", 0)


@pytest.mark.parametrize(
    "wait",
    [
        "for event in stream: pass",
        "stream.result()",
        "asyncio.run(output())",
    ],
)
def test_ctrl_c_ends_a_stream(wait: str) -> None:
    program = f"""
import asyncio, dlmrs
async def output(): return await stream
llm = dlmrs.LLM("tiny-llada", threads=1)
stream = llm.stream("9 * 5 =", dlmrs.SamplingParams(max_tokens=1000, ignore_eos=True))
next(stream)
print("begun", flush=True)
try:
    {wait}
    print("never interrupted")
except KeyboardInterrupt:
    stream.cancel()  # it is already, unless the signal came between two waits
    print(stream.result().finish_reason, len(llm.generate("a", dlmrs.SamplingParams(max_tokens=3, ignore_eos=True))[0].token_ids))
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "begun\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=120)[0] == "cancelled 3\n"


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_a_short_soak() -> None:
    command = [sys.executable, str(BENCHES / "soak.py"), "--requests", "400", "--json", "-"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600)
    figures = json.loads(run.stdout)
    assert (figures["requests"], figures["differences"]) == (400, 0)
    assert sorted(figures["by_kind"]) == ["await", "cancel", "drop", "generate", "refuse", "stream"]
    assert run.returncode == 0, run.stderr
