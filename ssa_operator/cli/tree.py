"""Draws a parent and its children as a tree in the terminal.

Promises:
- The tree shows states, reasons and messages exactly as the parent's status has them, and the age of each object.
- If the status has no condition Ready, the parent's line has the number of Current children.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text
from rich.tree import Tree

from ssa_operator.core.objects.durations import age
from ssa_operator.core.objects.live_object import LiveObject

COLOURS = {
    "Current": "green",
    "True": "green",
    "InProgress": "yellow",
    "Waiting": "yellow",
    "False": "yellow",
    "Terminating": "magenta",
    "Failed": "red",
    "NotFound": "red",
}
"""The colours of states and of the statuses of Ready."""


def tree(parent: Mapping[str, Any], now: float, below: Mapping[str, list[Tree]] | None = None) -> Tree:
    """The tree of one parent's `entry`. `now` is in seconds since the epoch. `below` has the trees below each child, by
    the child's uid.
    """
    children = parent["resources"]
    ready = next((each for each in parent["conditions"] if each.get("type") == "Ready"), None)
    if ready is not None:
        root = Tree(line(parent, ready.get("reason", "Unknown"), str(ready.get("status")), _cause(ready), now))
    else:
        root = Tree(line(parent, *_summary(children), "", now))
    for child in children:
        branch = root.add(line(child, child.get("state", ""), child.get("state", ""), child.get("message", ""), now))
        for leaf in (below or {}).get(child.get("uid", ""), ()):
            branch.add(leaf)
    for note in parent.get("notes", ()):
        root.add(Text(note, "dim"))
    return root


def entry(live: LiveObject, status: Mapping[str, Any]) -> dict[str, Any]:
    """The data of one parent for the tree and for `--output json`."""
    identity = live.identity
    return {
        "kind": identity.kind,
        "namespace": identity.namespace,
        "name": identity.name,
        "creationTimestamp": live.metadata.creation_timestamp,
        "conditions": status.get("conditions", []),
        "resources": status.get("resources", []),
    }


def conditions_of(live: LiveObject) -> list[Mapping[str, Any]]:
    """The conditions of an object. Other values in `status.conditions` are ignored."""
    status = live.body.get("status")
    conditions = status.get("conditions") if isinstance(status, Mapping) else None
    return [each for each in conditions if isinstance(each, Mapping)] if isinstance(conditions, list) else []


def line(named: Mapping[str, Any], state: str, colour: str, message: str, now: float) -> Text:
    """`Kind namespace/name  State  age  message`, without an age if there is no creationTimestamp."""
    location = f"{named['namespace']}/{named['name']}" if named.get("namespace") else named["name"]
    text = Text.assemble((f"{named['kind']} ", "bold"), location, "  ", (state, COLOURS.get(colour, "")))
    if created := named.get("creationTimestamp"):
        text.append(f"  {age(created, now)}")
    return text.append(f"  {message}", "dim") if message else text


def _summary(children: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """The number of Current children, and the colour of the text."""
    states = [child.get("state") for child in children]
    if not states:
        return "Unknown", "False"
    current = states.count("Current")
    failed = "Failed" in states
    return f"{current} of {len(states)} Current", "Failed" if failed else str(current == len(states))


def _cause(ready: Mapping[str, Any]) -> str:
    return "" if ready.get("status") == "True" else str(ready.get("message", ""))
