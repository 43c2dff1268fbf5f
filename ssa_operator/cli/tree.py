"""A parent and its children as a tree in the terminal.

Promises:
- It is drawn from the parent's status alone, and shows the words of the status as they stand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.text import Text
from rich.tree import Tree

from ssa_operator.core.live import Live

_COLOURS = {
    "Current": "green",
    "True": "green",
    "InProgress": "yellow",
    "Waiting": "yellow",
    "False": "yellow",
    "Terminating": "magenta",
    "Failed": "red",
    "NotFound": "red",
}


def tree(parent: Mapping[str, Any], below: Mapping[str, list[Tree]] | None = None) -> Tree:
    """The tree of one parent: `kind`, `namespace`, `name`, `conditions`, `resources`. `below` has what stands under a
    child, by its uid.
    """
    ready: Mapping[str, Any] = next((each for each in parent["conditions"] if each.get("type") == "Ready"), {})
    root = Tree(line(parent, ready.get("reason", "Unknown"), str(ready.get("status", "False")), _cause(ready)))
    for child in parent["resources"]:
        branch = root.add(line(child, child.get("state", ""), child.get("state", ""), child.get("message", "")))
        for leaf in (below or {}).get(child.get("uid", ""), ()):
            branch.add(leaf)
    return root


def entry(live: Live, status: Mapping[str, Any]) -> dict[str, Any]:
    """What is shown of a parent with this status."""
    identity = live.identity
    return {
        "kind": identity.kind,
        "namespace": identity.namespace,
        "name": identity.name,
        "conditions": status.get("conditions", []),
        "resources": status.get("resources", []),
    }


def line(named: Mapping[str, Any], state: str, colour: str, message: str) -> Text:
    """`Kind namespace/name  State  message`."""
    place = f"{named['namespace']}/{named['name']}" if named.get("namespace") else named["name"]
    text = Text.assemble((f"{named['kind']} ", "bold"), place, "  ", (state, _COLOURS.get(colour, "")))
    return text.append(f"  {message}", "dim") if message else text


def _cause(ready: Mapping[str, Any]) -> str:
    return "" if ready.get("status") == "True" else str(ready.get("message", ""))
