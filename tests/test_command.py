"""The command, as a user of the package runs it."""

import json
import os
import select
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import dlmrs
import pytest

COMMAND = str(Path(sysconfig.get_path("scripts")) / "dlmrs")


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


def test_version() -> None:
    for command in ([COMMAND], [sys.executable, "-m", "dlmrs"]):
        found = run(*command, "--version")
        assert (found.returncode, found.stdout) == (0, f"dlmrs {dlmrs.__version__}\n"), found.stderr


def test_inspect() -> None:
    found = run(sys.executable, "-m", "dlmrs", "inspect", "tiny-sdar", "--json")
    assert found.returncode == 0, found.stderr
    report = json.loads(found.stdout)
    assert report["family"] == "SDAR" and report["vocab"] == 640


def test_wrong_usage_and_failures_have_their_own_status() -> None:
    assert run(COMMAND, "--nonsense").returncode == 2
    failed = run(COMMAND, "inspect", "no/such/folder")
    assert failed.returncode == 1 and "no/such/folder" in failed.stderr


def test_generate() -> None:
    found = run(COMMAND, "generate", "tiny-sdar", "9 * 5 = ", "--raw", "--max-tokens", "8")
    assert found.returncode == 0, found.stderr
    [output] = dlmrs.LLM("tiny-sdar").generate("9 * 5 = ", dlmrs.SamplingParams(max_tokens=8))
    assert output.text.strip() in found.stdout


def test_ctrl_c_ends_it_even_while_it_reads() -> None:
    command = [COMMAND, "generate", "tiny-sdar", "--prompt-file", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        time.sleep(1.5)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130


QUESTION = "Mia has 63 beads. Mia gives 54 to Dan. How many beads does Mia have now?"


def test_chat_in_a_pipe() -> None:
    command = [COMMAND, "chat", "tiny-sdar"]
    lines = f"{QUESTION}\n/reset\n{QUESTION}\n"
    found = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120, input=lines)
    assert found.stdout.splitlines() == 2 * ["That leaves 63 - 54 = 9. #### 9"]


@pytest.mark.skipif(os.name != "posix", reason="closes a stream as a shell does")
def test_a_closed_standard_input_is_an_empty_one() -> None:
    found = run("sh", "-c", 'exec "$0" chat tiny-sdar <&-', COMMAND)
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo terminal")
def test_ctrl_c_stops_an_answer_and_the_chat_goes_on() -> None:
    ours, theirs = os.openpty()
    # A canvas that takes minutes; its first block does not, and has text.
    long = ["--block-length", "4", "--max-tokens", "1500", "--ignore-eos", "--logits-eos-inf"]
    command = [COMMAND, "chat", "tiny-llada", *long]
    seen = ""

    def wait_for(text: str) -> None:
        nonlocal seen
        while text not in seen:
            assert select.select([ours], [], [], 60)[0], f"{text!r} did not come after {seen!r}"
            seen += os.read(ours, 4096).decode()
        seen = seen[seen.index(text) + len(text) :]

    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as process:
        try:
            for _ in range(2):
                wait_for("> ")
                os.write(ours, f"{QUESTION}\r".encode())
                wait_for(" slots decided")
                process.send_signal(signal.SIGINT)
                wait_for("Stopped.")
            wait_for("> ")
            os.write(ours, b"/quit\r")
            assert process.wait(timeout=30) == 0
        finally:
            process.kill()
            os.close(theirs)
            os.close(ours)
