"""Runs a test suite. The tests that failed run a second time, alone, after all others.

- A test that passes the second time is flaky. The output and a file list it with its first failure, and the run passes.
- A test that fails twice fails the run, as does a run that does not reach its end.
- No list excuses a test: a flaky test is a bug, in the test or in the code.

`python -m tests.rerun FOLDER [ARGUMENT...]` passes the arguments to pytest, and writes its reports and `flaky.txt` into
the folder. `make test RERUN=FOLDER` runs it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest


def run_suite(folder: Path, arguments: list[str]) -> int:
    """Returns pytest's exit code, or 0 if all failed tests pass the second time."""
    shutil.rmtree(folder, ignore_errors=True)
    first, second = folder / "first.xml", folder / "second.xml"
    cache = f"--override-ini=cache_dir={folder / 'cache'}"
    code = _pytest(*arguments, cache, f"--junitxml={first}")
    if code != pytest.ExitCode.TESTS_FAILED or not (failures := _failures(first)):
        return code
    print(f"\nThe failed tests run a second time, alone: {len(failures)}", flush=True)
    only_failed = ("--last-failed", "--last-failed-no-failures=none", "--numprocesses=0")
    again = _pytest(*arguments, cache, f"--junitxml={second}", *only_failed)
    passed = _passed(second)
    flaky = "".join(_flaky(name, failure) for name, failure in failures.items() if name in passed)
    if flaky:
        (folder / "flaky.txt").write_text(flaky)
        print(f"\n{flaky}", end="", flush=True)
    return again or (0 if passed >= failures.keys() else code)


def _pytest(*arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


def _flaky(name: str, failure: str) -> str:
    headline = f"flaky: {name} failed, and passed when it ran alone. Its first failure:\n"
    return headline + textwrap.indent(failure.strip(), "    ") + "\n"


def _failures(report: Path) -> dict[str, str]:
    """By the names of the tests that failed, or whose fixtures did: the failures as pytest shows them."""
    failures: dict[str, str] = {}
    for name, case in _cases(report):
        for failure in (*case.findall("failure"), *case.findall("error")):
            failures[name] = f"{failures.get(name, '')}{failure.text or failure.get('message', '')}\n"
    return failures


def _passed(report: Path) -> set[str]:
    found = list(_cases(report)) if report.exists() else []
    return {name for name, _ in found} - {name for name, case in found if len(case)}


def _cases(report: Path) -> Iterator[tuple[str, ET.Element]]:
    for case in ET.parse(report).iter("testcase"):
        yield f"{case.get('classname')}::{case.get('name')}", case


if __name__ == "__main__":
    sys.exit(run_suite(Path(sys.argv[1]).resolve(), sys.argv[2:]))
