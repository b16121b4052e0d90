"""The command, as a user of the package runs it."""

import json
import subprocess
import sys
import sysconfig
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
