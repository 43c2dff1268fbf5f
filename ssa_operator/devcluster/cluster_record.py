"""The record of a running cluster in its folder, by which other processes find the cluster and its components.

Promises:
- The record is complete or does not exist. The starter writes it when the cluster is ready.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ssa_operator.devcluster.processes import ProcessCommand

_NAME = "cluster.json"


class ClusterRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A running cluster."""

    specification: dict[str, Any]
    """The fields of its ClusterSpec."""

    url: str

    pids: dict[str, int]
    """By component."""

    commands: dict[str, tuple[str, ...]]
    """The arguments of each component, the program first."""

    def command(self, name: str, directory: Path) -> ProcessCommand:
        """The command that started the component `name`."""
        return ProcessCommand(name=name, argv=self.commands[name], log=directory / f"{name}.log", directory=directory)


def write(directory: Path, record: ClusterRecord) -> None:
    """Writes the record into the cluster's folder atomically."""
    new = directory / f"{_NAME}.new"
    new.write_bytes(msgspec.json.format(msgspec.json.encode(record)))
    new.rename(directory / _NAME)


def read(directory: Path) -> ClusterRecord | None:
    """The record in a cluster's folder, or None."""
    try:
        return msgspec.json.decode((directory / _NAME).read_bytes(), type=ClusterRecord)
    except FileNotFoundError:
        return None
