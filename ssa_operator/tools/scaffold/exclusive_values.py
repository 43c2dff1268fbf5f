"""Finds what only one object can have: its second parent is refused, or shares it with the first.

Promises:
- Addresses, node ports, volumes and hosts that are the same for all parents are named by a note.
- A name in two namespaces is named: a parent in one of them would have two manifests of one name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ssa_operator.tools.scaffold.notes import Notes, title

_FIELDS: Mapping[str, tuple[str, ...]] = {
    "PersistentVolumeClaim": ("volumeName",),
    "Service": ("clusterIP", "loadBalancerIP"),
}
"""Fields of the spec of kinds."""


def note_exclusive_values(bodies: Sequence[Mapping[str, Any]], notes: Notes) -> None:
    """Add the notes about manifests."""
    for body in bodies:
        for path in dict.fromkeys(_exclusive(body)):
            notes.add(f"{path} can be that of one object only, so remove it for others", body)
        if body["kind"] == "Ingress" and any(each.get("host") for each in _items(_spec(body), "rules")):
            notes.add("objects that don't set spec.host have the same host", body)
    known = {(body["kind"], body["metadata"]["name"]): body for body in bodies if not body["metadata"].get("namespace")}
    for body in bodies:
        namespace = body["metadata"].get("namespace")
        if namespace and (body["kind"], body["metadata"]["name"]) in known:
            notes.say(f"{title(body)} is in two namespaces, so no object can be in the namespace {namespace}")


def _exclusive(body: Mapping[str, Any]) -> Iterator[str]:
    spec = _spec(body)
    for field in _FIELDS.get(body["kind"], ()):
        if spec.get(field) not in (None, "", "None"):
            yield f"spec.{field}"
    if body["kind"] == "Service" and any(each.get("nodePort") for each in _items(spec, "ports")):
        yield "spec.ports[].nodePort"


def _spec(body: Mapping[str, Any]) -> Mapping[str, Any]:
    spec = body.get("spec")
    return spec if isinstance(spec, Mapping) else {}


def _items(value: Mapping[str, Any], field: str) -> list[Mapping[str, Any]]:
    found = value.get(field)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []
