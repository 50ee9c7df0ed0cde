"""transformers' own Trainer tests, stock and with every Trainer made robust by `toughen.plain()`.

    TRANSFORMERS_SOURCE=~/transformers python -m benchmarks.outside.trainer_tests
    TRANSFORMERS_SOURCE=~/transformers python -m benchmarks.outside.trainer_tests test_trainer_data.py

Prints each test that passes stock and not with `plain()`. Tests that need the network or a GPU pass in neither.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import transformers

import toughen

from . import find_checkout, import_leniently

KNOWN = "_OverrideGuard"  # in the message of a test that lists all callbacks: robust(Trainer) has some of its own


@cache
def plainly(kind: type[transformers.Trainer]) -> type[transformers.Trainer]:
    """The class made robust, with `plain()` where it is given no method."""

    class Plainly(toughen.robust(kind)):
        is_robust = True

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **{"method": toughen.plain(), **kwargs})

    return Plainly


def make_every_trainer_robust() -> None:
    def new(kind: type[transformers.Trainer], *_: Any, **__: Any) -> Any:
        return object.__new__(kind if hasattr(kind, "is_robust") else plainly(kind))

    transformers.Trainer.__new__ = new


def run_here(robust: bool, files: list[str], report: str) -> int:
    root = find_checkout()
    transformers.logging.disable_progress_bar()
    for file in files:
        import_leniently(f"tests.trainer.{Path(file).stem}")
    if robust:
        make_every_trainer_robust()
    paths = [str(root / "tests" / "trainer" / file) for file in files]
    return pytest.main(["-q", "-p", "no:cacheprovider", "--no-header", "--tb=short", f"--junitxml={report}", *paths])


def outcomes(report: Path) -> dict[str, str]:
    """Each test's failure in a line, or nothing if it passed; skipped tests are left out."""
    found: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        bad = case.find("failure") if case.find("failure") is not None else case.find("error")
        if case.find("skipped") is None:
            message = "" if bad is None else bad.get("message", "") or "failed"
            found[f"{case.get('classname')}::{case.get('name')}"] = message.splitlines()[0] if message else ""
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="of tests/trainer (default: all)")
    parser.add_argument("--here", choices=["stock", "robust"], help=argparse.SUPPRESS)
    parser.add_argument("--report", help=argparse.SUPPRESS)
    given = parser.parse_args()
    files = given.files or sorted(p.name for p in (find_checkout() / "tests" / "trainer").glob("test_trainer*.py"))
    if given.here:
        raise SystemExit(run_here(given.here == "robust", files, given.report))
    package = Path(__file__).resolve().parents[2]
    with tempfile.TemporaryDirectory() as folder:
        both = []
        for kind in ("stock", "robust"):
            report = Path(folder) / f"{kind}.xml"
            command = [sys.executable, "-m", "benchmarks.outside.trainer_tests", "--here", kind]
            subprocess.run([*command, "--report", str(report), *files], check=False, cwd=package, env=os.environ)
            both.append(outcomes(report))
    stock, robust = both
    passed = [name for name, message in stock.items() if not message]
    worse = {name: robust.get(name, "did not run") for name in passed if robust.get(name, "did not run")}
    known = {name for name, message in worse.items() if KNOWN in message}
    for name, message in worse.items():
        print(f"{name}: {message}{' (as expected)' if name in known else ''}")
    print(f"{len(stock)} tests, {len(passed)} pass stock, {len(passed) - len(worse)} of them with plain() as well.")
    raise SystemExit(bool(worse.keys() - known))


if __name__ == "__main__":
    main()
