"""Programs that some tests need, built once from Go modules and kept in the user's cache."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ssa-operator"
_ENVIRONMENT: Mapping[str, str] = {"CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": ""}


def required_version(module: Path, name: str) -> str:
    """The version of a module that the go.mod of another one requires."""
    pinned = re.search(rf"{re.escape(name)} v(\S+)", (module / "go.mod").read_text())
    assert pinned, f"{module} does not require {name}"
    return pinned[1]


def build_once(program: Path, build: Callable[[Path], None]) -> Path:
    """The program. If it isn't there, `build` fills a folder, which becomes that of the program."""
    if not program.exists():
        new = program.parent.with_name(f"{program.parent.name}.{os.getpid()}")
        new.mkdir(parents=True)
        build(new)
        if program.exists():  # another process was faster
            shutil.rmtree(new)
        else:
            shutil.rmtree(program.parent, ignore_errors=True)
            new.rename(program.parent)
    return program


def go_build(module: Path, folder: Path, *packages: str, tags: str = "", variables: str = "") -> None:
    """Build programs of a module into the folder; `variables` are the linker's. Raises CalledProcessError."""
    linked = ("-ldflags", f"-s -w {variables}".strip(), "-tags", tags)
    command = ["go", "build", "-trimpath", "-buildvcs=false", "-o", f"{folder}/", *linked, *packages]
    subprocess.run(command, cwd=module, env={**os.environ, **_ENVIRONMENT}, check=True)


def go_install(module: Path, folder: Path, package: str) -> None:
    """Build a program of another module, `PACKAGE@VERSION`, into the folder. Raises CalledProcessError."""
    environment = {**os.environ, **_ENVIRONMENT, "GOBIN": str(folder)}
    subprocess.run(["go", "install", "-trimpath", package], cwd=module, env=environment, check=True)
