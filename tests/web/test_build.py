"""The files of the page are what their sources build."""

from __future__ import annotations

import gzip
import shutil
import subprocess
from pathlib import Path

import pytest

from docs.generate import openapi
from tests.packaging.checkout import ROOT

STATIC = ROOT / "ssa_operator" / "web" / "static"


def test_the_page_is_small() -> None:
    assert sum(len(gzip.compress(file.read_bytes())) for file in STATIC.iterdir()) <= 90_000


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
def test_the_sources_build_the_files_that_are_checked_in(tmp_path: Path) -> None:
    source, out = tmp_path / "web", tmp_path / "static"
    shutil.copytree(ROOT / "ssa_operator" / "web" / "page", source, ignore=shutil.ignore_patterns("node_modules"))
    (source / "openapi.json").write_text(openapi.text(), encoding="utf-8")
    for command in (["npm", "ci", "--no-audit", "--no-fund"], ["npm", "run", "check"], ["node", "build.mjs", str(out)]):
        done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert {file.name: file.read_bytes() for file in out.iterdir()} == {
        file.name: file.read_bytes() for file in STATIC.iterdir()
    }
