"""The folders that options of a command name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ssa_operator.operator.process.command_error import CommandError


def check_folders(templates: Sequence[Path]) -> None:
    """Raises CommandError if a folder does not exist."""
    for folder in templates:
        if not folder.is_dir():
            raise CommandError(
                f"there is no folder {folder}; name the folder of your templates with --templates", code=2
            )


def check_crd_folders(crds: Sequence[Path]) -> None:
    """Raises CommandError if a folder of CRDs does not exist."""
    for folder in crds:
        if not folder.exists():
            raise CommandError(f"there is no folder {folder}; name the folder of your CRDs with --crds", code=2)
