"""`.ci/browser`: installs Chromium on a new machine, and stops no run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.docs.browser import BROWSERS
from tests.packaging.checkout import ROOT


def ran(path: Path, **commands: str) -> tuple[int, str]:
    """The exit code and the errors of the script, where these commands are the only ones beside bash."""
    for name, script in commands.items():
        file = path / name.replace("_", "-")
        file.write_text(f"#!/bin/bash\n{script}\n")
        file.chmod(0o755)
    (path / "bash").symlink_to("/bin/bash")
    done = subprocess.run(
        ["/bin/bash", ROOT / ".ci" / "browser"], env={"PATH": str(path)}, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("name", BROWSERS)
def test_a_browser_that_is_there_is_used(tmp_path: Path, name: str) -> None:
    commands = {name.replace("-", "_"): "", "apt_get": f"touch {tmp_path}/installed", "id": "echo 0"}
    assert ran(tmp_path, **commands) == (0, "")
    assert not (tmp_path / "installed").exists()


def test_root_gets_chromium(tmp_path: Path) -> None:
    assert ran(tmp_path, apt_get=f'echo "$@" >>{tmp_path}/asked', id="echo 0") == (0, "")
    assert " chromium " in (tmp_path / "asked").read_text()


@pytest.mark.parametrize(
    ("commands", "why"),
    [
        ({}, "no apt-get"),
        ({"apt_get": "", "id": "echo 1000"}, "only root"),
        ({"apt_get": "exit 1", "id": "echo 0"}, "could not install"),
    ],
)
def test_without_a_browser_the_tests_of_pages_are_skipped(tmp_path: Path, commands: dict[str, str], why: str) -> None:
    code, errors = ran(tmp_path, **commands)
    assert code == 0
    assert why in errors
    assert "the tests of pages are skipped" in errors
