"""The programs of the comparison, built once for each state of their sources and kept.

Promises:
- Builds go to the user's cache folder, never into the repository.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import platformdirs


class BuildError(Exception):
    """A program could not be built."""


def built(
    sources: Path, version: str, made_with: str, build: Callable[[Path, Path], None], files: str = "**/*"
) -> Path:
    """The folder of the build of these files; its name has a digest of the files and of the tool's version.

    Raises FileNotFoundError if the tool is missing, and BuildError.
    """
    digest = hashlib.sha256(_output([tool(made_with), "version" if made_with == "go" else "--version"]).encode())
    found = sorted(each for each in sources.glob(files) if each.is_file() and "__pycache__" not in each.parts)
    for each in found:
        digest.update(each.relative_to(sources).as_posix().encode() + b"\0" + each.read_bytes())
    folder = platformdirs.user_cache_path("ssa-operator") / "benchmark-peers"
    made = folder / f"{sources.name}-{version}-{digest.hexdigest()[:12]}"
    if not made.exists():
        folder.mkdir(parents=True, exist_ok=True)
        print(f"building {sources.name} {version}, which takes minutes", file=sys.stderr)
        with tempfile.TemporaryDirectory(prefix="build-", dir=folder) as scratch:
            copied = Path(scratch) / "sources"
            for each in found:
                (copied / each.relative_to(sources)).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(each, copied / each.relative_to(sources))
            try:
                build(copied, made)
            except BaseException:
                shutil.rmtree(made, ignore_errors=True)
                raise
    return made


def go_program(sources: Path, version: str) -> Path:
    """A Go program, built. Raises FileNotFoundError if there is no Go, and BuildError."""

    def build(copied: Path, made: Path) -> None:
        run([tool("go"), "build", "-trimpath", "-ldflags=-s -w", "-o", str(made), "."], copied, CGO_ENABLED="0")

    return built(sources, version, "go", build)


def tool(name: str) -> str:
    """The path of a program. Raises FileNotFoundError."""
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(2, "not installed", name)
    return found


def _output(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def run(command: Sequence[str], folder: Path, **variables: str) -> None:
    """Run a step of a build. Raises BuildError with its output."""
    done = subprocess.run(command, cwd=folder, env=os.environ | variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{' '.join(command)}: {done.stderr[-3000:]}")


def version(file: Path, pattern: str) -> str:
    """What the pattern's group finds in a file that pins versions. Raises BuildError if it finds nothing."""
    found = re.search(pattern, file.read_text(), re.MULTILINE)
    if found is None:
        raise BuildError(f"{file}: no version in it")
    return found[1]
