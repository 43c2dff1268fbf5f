"""All commands by topic: the only list of them.

A topic of the help is a room of `ssa_operator.cli`, and a command is a module there: a function of its name and the
EXAMPLE that ends its help, or `app` with the subcommands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

_ROOMS: Mapping[str, tuple[str, Sequence[str]]] = {
    "Run the operator": ("run", ("run", "dev", "cluster", "crds", "rbac")),
    "Write templates": ("write", ("new", "render", "graph", "check", "test", "capture", "lsp")),
    "Change a cluster": ("change", ("diff", "plan", "apply", "rollout")),
    "See and understand": ("see", ("status", "tree", "blame")),
}

TOPICS: Mapping[str, Sequence[str]] = MappingProxyType({topic: commands for topic, (_, commands) in _ROOMS.items()})
"""The topics of the help, and the commands of each in order."""

MODULES: Mapping[str, str] = MappingProxyType(
    {command: f"ssa_operator.cli.{room}.{command}" for room, commands in _ROOMS.values() for command in commands}
)
"""The module of each command."""

REFERENCE = ("templates", "metadata", "metrics", "environment", "checks")
"""The topics of the reference, which `help TOPIC` prints."""
