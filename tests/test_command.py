"""The command, as a user of the package runs it."""

import json
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import dlmrs

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
