"""The scripts that check what is given away, with things that they must refuse."""

import importlib.machinery
import importlib.util
import json
import re
import sys
import types
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="the scripts read TOML with tomllib")

ROOT = Path(__file__).resolve().parent.parent
VERSION = re.findall(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(encoding="utf-8"), re.MULTILINE)[0]
CANDLE = re.findall(r'name = "candle-core"\nversion = "(.*)"', (ROOT / "Cargo.lock").read_text(encoding="utf-8"))[0]
NAME = f"dlmrs-{VERSION}-cp310-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
INFO = f"dlmrs-{VERSION}.dist-info"


def script(name: str) -> types.ModuleType:
    """A script as a module."""
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(ROOT / "scripts" / name))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    written = sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # a cache beside the scripts would be litter
    loader.exec_module(module)
    sys.dont_write_bytecode = written
    return module


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("GPL-3.0", False),
        ("GPL-3.0 OR MIT", True),
        ("MIT/Apache-2.0", True),
        ("MIT AND GPL-3.0", False),
        ("(MIT OR GPL-3.0) AND Unicode-3.0", True),
        ("MIT OR GPL-3.0 AND LGPL-2.1", True),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("GPL-2.0 WITH Classpath-exception-2.0", False),
    ],
)
def test_licence_expressions(expression: str, allowed: bool) -> None:
    there = {"MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "Unicode-3.0"}
    assert script("check-licences").satisfied(expression, there.__contains__) is allowed


def test_a_licence_that_is_not_allowed_is_told_with_its_crate() -> None:
    packages = [
        {"name": "good", "version": "1.0.0", "license": "MIT"},
        {"name": "bad", "version": "2.0.0", "license": "GPL-3.0"},
        {"name": "silent", "version": "3.0.0", "license": None},
        {"name": "known", "version": "4.0.0", "license": "MPL-2.0"},
    ]
    rules = {"allow": ["MIT"], "exceptions": [{"crate": "known", "allow": ["MPL-2.0"]}]}
    told = list(script("check-licences").refused({"packages": packages}, rules))
    assert [line.split(" is under ")[0].split(" names ")[0] for line in told] == ["bad 2.0.0", "silent 3.0.0"]


def wheel(folder: Path, *, without: str | None = None, besides: str | None = None, name: str = NAME) -> Path:
    """A wheel in which only what the check reads is real."""
    check = script("check-wheel")
    path = folder / name
    sbom = {"bomFormat": "CycloneDX", "components": [{"name": "candle-core", "version": CANDLE}]}
    content = {
        f"{INFO}/{check.SBOM}": json.dumps(sbom),
        f"{INFO}/METADATA": "Requires-Python: >=3.10\nLicense-Expression: MIT OR Apache-2.0\n\n",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(check.expected(INFO) - {without} | ({besides} if besides else set())):
            archive.writestr(file, content.get(file, ""))
    return path


def test_wheels(tmp_path: Path) -> None:
    complaints = script("check-wheel").complaints
    assert list(complaints(wheel(tmp_path))) == []
    assert list(complaints(wheel(tmp_path, without="dlmrs/py.typed"))) == ["dlmrs/py.typed is missing"]
    assert list(complaints(wheel(tmp_path, besides="tests/a.py"))) == ["tests/a.py does not belong into it"]
    [told] = complaints(wheel(tmp_path, name=f"dlmrs-{VERSION}-cp310-abi3-linux_x86_64.whl"))
    assert "manylinux" in told
    [told] = complaints(wheel(tmp_path, name=NAME.replace(VERSION, "0.0.9")))
    assert "0.0.9" in told


def test_scripts_that_are_named_exist() -> None:
    pages = [ROOT / ".ci" / "run", *ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob(".github/workflows/*.yml")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    named = set(re.findall(r"\bscripts/([a-z][a-z/-]*[a-z](?:\.py)?)", text))
    assert {"test", "wheel"} <= named
    assert [name for name in sorted(named) if not (ROOT / "scripts" / name).is_file()] == []
