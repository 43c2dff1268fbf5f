"""What is written down of a running cluster, so that another process can find it, and its components again.

Promises:
- The record is complete or absent; it is written when the cluster is ready.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ssa_operator.devcluster.processes import Command

_NAME = "cluster.json"


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """`specification` is what the cluster was asked to be, `commands` the arguments of each component by name."""

    specification: dict[str, Any]
    url: str
    pids: dict[str, int]
    commands: dict[str, tuple[str, ...]]

    def command(self, name: str, directory: Path) -> Command:
        """The command that started the component `name`."""
        return Command(name=name, argv=self.commands[name], log=directory / f"{name}.log", directory=directory)


def write(directory: Path, record: Record) -> None:
    """Puts the record into the cluster's folder, in one step."""
    new = directory / f"{_NAME}.new"
    new.write_bytes(msgspec.json.format(msgspec.json.encode(record)))
    new.rename(directory / _NAME)


def read(directory: Path) -> Record | None:
    """The record of the cluster in that folder, or None while it has none."""
    try:
        return msgspec.json.decode((directory / _NAME).read_bytes(), type=Record)
    except FileNotFoundError:
        return None
