"""Values that are drawn once and kept as long as the cluster has them.

Promises:
- One call of `generated` is one value, wherever it is written. It is found again where it stands alone, as it is or in
  base64: in the live object that has the identity of the document, at the same field.
- A value that could not be found again is refused instead of being drawn anew at each render.
- Nothing is drawn while it isn't known what the cluster has.
"""

from __future__ import annotations

import base64
import binascii
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import TemplateRuntimeError

from ssa_operator.core.objects.cluster_view import ClusterView
from ssa_operator.core.objects.render_result import Document
from ssa_operator.core.objects.source_location import FieldPath, field_text
from ssa_operator.rendering.yaml.nodes import DocumentError

ALPHABET = string.ascii_letters + string.digits

LENGTHS = range(8, 1025)
"""Characters of a generated value; a shorter one could be found by accident in another field, and be guessed."""

_IDENTITY = (("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace"))


class ValueGenerator:
    """The generated values of one file: the first ones as `given`, the rest drawn in a world."""

    __slots__ = ("_cluster", "_reused", "values")

    def __init__(self, cluster: ClusterView, reused: Sequence[str] = ()) -> None:
        self._cluster = cluster
        self._reused = reused
        self.values: list[str] = []

    def value(self, length: int) -> str:
        """The next value. Raises TemplateRuntimeError for a length that is none."""
        if type(length) is not int or length not in LENGTHS:
            bounds = f"{LENGTHS[0]} to {LENGTHS[-1]}"
            raise TemplateRuntimeError(f"generated: length must be a number from {bounds}, and this is {length}")
        position = len(self.values)
        if position < len(self._reused):
            value = self._reused[position]
        else:
            value = "".join([ALPHABET[self._cluster.random(len(ALPHABET))] for _ in range(length)])
            while value in self.values:
                value = different_value(value)
        self.values.append(value)
        return value


def different_value(value: str) -> str:
    """Another value of the same length."""
    return "".join([ALPHABET[(ALPHABET.find(letter) + 1) % len(ALPHABET)] for letter in value])


@dataclass(frozen=True, slots=True)
class ValueLocation:
    """Where a generated value stands alone in a document; `encoded` in base64."""

    document: Document
    path: FieldPath
    encoded: bool

    def live_value(self, live: Mapping[str, Any] | None) -> str | None:
        """What the live object has there, None where it has nothing.

        Raises DocumentError where that is no text.
        """
        path, encoded = self.path, self.encoded
        body = self.document.body
        if body["apiVersion"] == "v1" and body["kind"] == "Secret" and path[0] == "stringData":
            # The API server turns stringData into data.
            path, encoded = ("data", *path[1:]), True
        found = _live_field(live, body, path)
        if not isinstance(found, str) or not found or not encoded:
            return found if isinstance(found, str) and found else None
        try:
            return base64.b64decode(found, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            location = self.document.location_of(self.path)
            message = f"the live value of {field_text(path)} is no text in base64; remove it to have another one drawn"
            raise DocumentError(message, location) from None


def value_locations(values: Sequence[str], documents: Sequence[Document]) -> list[list[ValueLocation]]:
    """For each value the places where it stands alone, in the order of the documents.

    Raises DocumentError where a value is part of a document's identity.
    """
    positions: dict[str, tuple[int, bool]] = {}
    for position, value in enumerate(values):
        positions[value] = (position, False)
        positions[base64.b64encode(value.encode()).decode()] = (position, True)
    found: list[list[ValueLocation]] = [[] for _ in values]
    for document in documents:
        for path, leaf in _string_fields(document.body, ()):
            if path in _IDENTITY and any(value in leaf for value in values):
                message = f"{field_text(path)} can't be generated: the object would never be found again"
                raise DocumentError(message, document.location_of(path))
            if leaf in positions:
                position, encoded = positions[leaf]
                found[position].append(ValueLocation(document, path, encoded))
    return found


def _string_fields(value: Any, path: FieldPath) -> Iterator[tuple[FieldPath, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _string_fields(item, (*path, key))
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from _string_fields(item, (*path, at))


def _live_field(live: Any, body: Any, path: FieldPath) -> Any:
    """The field of a live object; an item of a list that has a name is the one of the same name."""
    for part in path:
        if isinstance(part, str):
            live = live.get(part) if isinstance(live, Mapping) else None
            body = body.get(part) if isinstance(body, Mapping) else None
            continue
        item = body[part] if isinstance(body, list) else None
        name = item.get("name") if isinstance(item, Mapping) else None
        items = live if isinstance(live, list) else []
        if name is not None:
            live = next((other for other in items if isinstance(other, Mapping) and other.get("name") == name), None)
        else:
            live = items[part] if part < len(items) else None
        body = item
    return live
