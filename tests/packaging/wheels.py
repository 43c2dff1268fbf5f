"""The wheels of lists of constraints, kept in the cache of the user.

To find a wheel, pip reads the page of a package with all of its releases: for all packages that takes a minute of CPU.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from tests.packaging.checkout import ROOT


def offline_pip(*lists: str) -> dict[str, str]:
    """The environment in which pip installs what these files in `constraints/` list without an index."""
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(_wheels([ROOT / "constraints" / name for name in lists]))}


def _wheels(lists: list[Path]) -> Path:
    """The folder of the wheels, which are downloaded once for each state of the lists."""
    digest = hashlib.sha256(b"".join(each.read_bytes() for each in lists)).hexdigest()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "ssa-operator" / "wheels" / digest
    if not folder.exists():
        new = folder.with_name(f"{digest}.{os.getpid()}")
        download = [sys.executable, "-m", "pip", "download", "--only-binary", ":all:", "--require-hashes", "--no-deps"]
        named = [f"--requirement={each}" for each in lists]
        subprocess.run([*download, f"--dest={new}", *named], capture_output=True, text=True, check=True)
        new.rename(folder)
    return folder
