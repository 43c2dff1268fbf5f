"""What every manifest must have, whatever its kind.

Promises:
- A document that leaves here has an apiVersion, a kind and a metadata.name, and labels and annotations of strings.
- A `kind: List` is as good as its items; each keeps its own place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ssa_operator.core.place import FieldPath, Place, field_text
from ssa_operator.core.rendered import Document, Problem
from ssa_operator.rendering.nodes import DocumentError, Filling, Node, find


@dataclass(frozen=True, slots=True)
class _Whereabouts:
    """Finds the place of a field when somebody asks."""

    node: Node
    filling: Filling
    prefix: FieldPath = ()

    def __call__(self, path: FieldPath) -> Place:
        return find(self.node, (*self.prefix, *path), self.filling)


def manifests(node: Node, filling: Filling) -> Iterator[Document | Problem]:
    """The manifests of one YAML document; a problem for each that can't be one."""
    try:
        body = node.build(filling)
    except DocumentError as error:
        yield Problem(str(error), error.place)
        return
    if body is None:
        return
    if isinstance(body, dict) and body.get("apiVersion") == "v1" and body.get("kind") == "List":
        items = body.get("items")
        if not isinstance(items, list):
            yield Problem("items of a List must be a list", find(node, ("items",), filling))
            return
        for index, item in enumerate(items):
            yield _manifest(item, _Whereabouts(node, filling, ("items", index)))
    else:
        yield _manifest(body, _Whereabouts(node, filling))


def _manifest(body: Any, place_of: _Whereabouts) -> Document | Problem:
    fault = _fault(body)
    if fault is not None:
        path, message = fault
        return Problem(message, place_of(path))
    return Document(body=body, place=place_of(()), place_of=place_of)


def _fault(body: Any) -> tuple[FieldPath, str] | None:
    if not isinstance(body, dict):
        return (), f"a manifest must be a mapping, and this is {_name(body)}"
    for field in ("apiVersion", "kind"):
        if not isinstance(body.get(field), str) or not body[field]:
            return (field,), _wanted(field, body.get(field))
    metadata = body.get("metadata")
    if not isinstance(metadata, dict):
        return ("metadata",), f"metadata must be a mapping, and this is {_name(metadata)}"
    if not isinstance(metadata.get("name"), str) or not metadata["name"]:
        hint = (
            "; generateName can't be applied, for each apply would make another object"
            if "generateName" in metadata
            else ""
        )
        return ("metadata", "name"), _wanted("metadata.name", metadata.get("name")) + hint
    if not isinstance(metadata.get("namespace", ""), (str, type(None))):
        return ("metadata", "namespace"), _wanted("metadata.namespace", metadata["namespace"])
    for field in ("labels", "annotations"):
        values = metadata.get(field)
        if not isinstance(values, (dict, type(None))):
            return ("metadata", field), f"metadata.{field} must be a mapping, and this is {_name(values)}"
        for key, value in (values or {}).items():
            if not isinstance(value, (str, type(None))):
                path: FieldPath = ("metadata", field, key)
                return path, f"{field_text(path)} must be a string, and this is {_name(value)}; write it in quotes"
    return None


def _wanted(field: str, value: Any) -> str:
    if value is None:
        return f"{field} is missing"
    return f"{field} is empty" if value == "" else f"{field} must be a string, and this is {_name(value)}"


def _name(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "a list"
        case _:
            return "a mapping"
