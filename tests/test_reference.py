"""The page docs/python_reference.md, which scripts/python-reference makes of the package."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import dlmrs
import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "python_reference.md"


def check(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "python-reference"), "--check", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_the_page_is_that_of_this_package_and_every_public_name_has_a_docstring() -> None:
    run = check()
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


@pytest.mark.parametrize("change", [lambda text: text.replace("temperature: float", "temperature: int"), lambda _: ""])
def test_another_page_is_refused(tmp_path: Path, change: Callable[[str], str]) -> None:
    page = tmp_path / "page.md"
    page.write_text(change(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    run = check("--page", str(page))
    assert run.returncode == 1 and "run scripts/python-reference" in run.stderr
    assert "+    temperature: float = 0.0," in run.stderr


def test_a_missing_docstring_is_refused(tmp_path: Path) -> None:
    """The script asks each name; one that has lost its docstring is named."""
    code = f"""
import runpy, sys
script = runpy.run_path({str(ROOT / "scripts" / "python-reference")!r})
names = list(script["public"]("dlmrs"))
assert not [path for name in names for path in script["undocumented"](name)]
names[1].members[0].doc = None
print(*script["undocumented"](names[1]))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (run.stdout, run.stderr) == ("dlmrs.LLM.generate\n", "")


def test_all_names_and_links_are_there() -> None:
    text = PAGE.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    anchors |= set(re.findall(r'<a id="(\w+)">', text))
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= anchors
    assert {"dlmrs" + name.lower() for name in dlmrs.__all__} <= anchors
