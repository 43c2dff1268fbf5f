"""The wheels of what runs and of what builds it, kept in the cache of the user.

To find a wheel, pip reads the page of a package with all of its releases: for all packages that takes a minute of CPU.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from tests.packaging.checkout import ROOT

PINS = ROOT / "deploy" / "constraints"


def offline_pip() -> dict[str, str]:
    """The environment in which pip installs what runs, and what building takes, without an index."""
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(_wheels())}


def _wheels() -> Path:
    """The folder of the wheels, which are downloaded once for each state of the pins."""
    pins = (PINS / "runtime.txt").read_text(), (PINS / "dev.txt").read_text().partition("# A release:")[0]
    digest = hashlib.sha256("".join(pins).encode()).hexdigest()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "ssa-operator" / "wheels" / digest
    if not folder.exists():
        new = folder.with_name(f"{digest}.{os.getpid()}")
        new.mkdir(parents=True)
        command = [sys.executable, "-m", "pip", "download", "--only-binary", ":all:", "--require-hashes", "--no-deps"]
        for number, text in enumerate(pins):
            (new / f"{number}.txt").write_text(text)
            command.append(f"--requirement={new / f'{number}.txt'}")
        subprocess.run([*command, f"--dest={new}"], capture_output=True, text=True, check=True)
        new.rename(folder)
    return folder
