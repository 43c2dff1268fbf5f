"""A parent and its children as a tree in the terminal.

Promises:
- It is drawn from the parent's status alone, and shows the words of the status as they stand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.text import Text
from rich.tree import Tree

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


def tree(entry: Mapping[str, Any], below: Mapping[str, list[Tree]] | None = None) -> Tree:
    """The tree of one parent: `kind`, `namespace`, `name`, `conditions`, `resources`. `below` has what stands under a
    child, by its uid.
    """
    ready: Mapping[str, Any] = next((each for each in entry["conditions"] if each.get("type") == "Ready"), {})
    root = Tree(line(entry, ready.get("reason", "Unknown"), str(ready.get("status", "False")), _cause(ready)))
    for child in entry["resources"]:
        branch = root.add(line(child, child.get("state", ""), child.get("state", ""), child.get("message", "")))
        for leaf in (below or {}).get(child.get("uid", ""), ()):
            branch.add(leaf)
    return root


def line(entry: Mapping[str, Any], state: str, colour: str, message: str) -> Text:
    """`Kind namespace/name  State  message`."""
    place = f"{entry['namespace']}/{entry['name']}" if entry.get("namespace") else entry["name"]
    text = Text.assemble((f"{entry['kind']} ", "bold"), place, "  ", (state, _COLOURS.get(colour, "")))
    return text.append(f"  {message}", "dim") if message else text


def _cause(ready: Mapping[str, Any]) -> str:
    return "" if ready.get("status") == "True" else str(ready.get("message", ""))
