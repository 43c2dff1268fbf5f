"""The names of all commands."""

from __future__ import annotations

COMMANDS = (
    "run",
    "dev",
    "new",
    "render",
    "check",
    "test",
    "capture",
    "diff",
    "plan",
    "apply",
    "status",
    "tree",
    "blame",
    "graph",
    "rbac",
    "crds",
    "cluster",
)
"""Each is a module of `ssa_operator.cli`."""
