"""Reads which resources have a template folder, and the settings of each, without compiling templates.

Promises:
- A folder's settings are those that the operator reads. If they are invalid, or if two templates folders have the
  resource, the defaults are used: `check` and the operator report the problem.
- A templates folder that does not exist or can't be read has no resources.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from ssa_operator.rendering.folder.folder_settings import DEFAULT, SETTINGS, Settings, parse_settings
from ssa_operator.rendering.folder.folder_snapshot import read_snapshot
from ssa_operator.rendering.yaml.nodes import DocumentError

RESOURCE_NAME = re.compile(r"[a-z][a-z0-9-]*(?:\.[a-z0-9-]+)*")
"""The names of template folders: those of resources."""


def read_resource_settings(roots: Iterable[Path]) -> Mapping[str, Settings]:
    """The settings by the name of the resource."""
    found: dict[str, Settings] = {}
    for root in dict.fromkeys(roots):
        with contextlib.suppress(OSError):
            snapshot = read_snapshot(root)
            for name in filter(RESOURCE_NAME.fullmatch, snapshot.folders):
                settings = DEFAULT
                with contextlib.suppress(DocumentError):
                    settings = parse_settings(f"{name}/{SETTINGS}", snapshot.files.get(f"{name}/{SETTINGS}", ""))
                found[name] = DEFAULT if name in found else settings
    return found
