"""The repository that the tests run in: its root, and what is tracked in it."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def files() -> list[Path]:
    """Every file that is tracked or would be, with its whole path."""
    # The checkout may belong to another user, as it does in a container that has it mounted.
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]
