"""The function `generated` of templates: draws the values, and finds the fields from which they are read back.

Promises:
- One call of `generated` is one value, wherever the template writes it.
- The render reads the value back from the live object of the document, from the field that contains only the value,
  plain or in base64.
- If a template writes a generated value to no such field, it is refused, because each render would generate another
  value.
- No value is generated before the cluster's objects are known.
"""

from __future__ import annotations

import base64
import binascii
import string
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import TemplateRuntimeError
from msgspec import Struct

from ssa_operator.objects.cluster_view import ClusterView
from ssa_operator.objects.render_result import Document
from ssa_operator.objects.source_location import FieldPath, field_text, leaves
from ssa_operator.rendering.values import limits
from ssa_operator.rendering.values.limits import LimitError
from ssa_operator.rendering.values.manifest_values import kind_of
from ssa_operator.rendering.yaml.nodes import DocumentError

ALPHABET = string.ascii_letters + string.digits

LENGTHS = range(8, 1025)
"""Characters of a generated value; a shorter one could equal another field by accident, and could be guessed."""

PREFIX_LIMIT = 1024
"""Characters of the prefix of a generated value."""

VALUES_LIMIT = 5000
"""Values that one file may generate: a few for each of the 1 000 children that a parent may have."""

_SHOWN = 32
"""Characters of a wrong length in an error."""

_DRAW_SIZE = 16
"""The work of one random character."""

_IDENTITY = (("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace"))


class ValueGenerator:
    """The generated values of one file: the first ones are `reused`, the others random."""

    __slots__ = ("_cluster", "_known", "_reused", "values")

    def __init__(self, cluster: ClusterView, reused: Sequence[str] = ()) -> None:
        self._cluster = cluster
        self._reused = reused
        self.values: list[str] = []
        self._known: set[str] = set()

    def value(self, length: Any, prefix: Any = "") -> str:
        """The next value: the prefix and random characters. Raises TemplateRuntimeError for invalid arguments."""
        if type(length) is not int or length not in LENGTHS:
            plain = isinstance(length, (int, float)) or (isinstance(length, str) and len(length) <= _SHOWN)
            shown = length if plain else kind_of(length)
            lengths = f"{LENGTHS[0]} to {LENGTHS[-1]}"
            raise TemplateRuntimeError(f"generated: length must be a number from {lengths}, and this is {shown}")
        if not isinstance(prefix, str) or len(prefix) > PREFIX_LIMIT:
            raise TemplateRuntimeError(f"generated: prefix must be a string of at most {PREFIX_LIMIT} characters")
        position = len(self.values)
        if position >= VALUES_LIMIT:
            raise LimitError(f"one file may generate {VALUES_LIMIT} values, and this is one more")
        limits.current().spend(_DRAW_SIZE * length)
        if position < len(self._reused):
            value = self._reused[position]
        else:
            drawn = "".join([ALPHABET[self._cluster.random(len(ALPHABET))] for _ in range(length)])
            value = prefix + drawn
            number = position
            while value in self._known:
                # Offline all draws are the same, so another letter, or beyond the alphabet a number, makes the values
                # different.
                drawn = different_value(drawn) if number < len(ALPHABET) else _numbered_value(drawn, number)
                number += 1
                value = prefix + drawn
        self.values.append(value)
        self._known.add(value)
        return value


def _numbered_value(value: str, number: int) -> str:
    """The value with a number at its end, in the letters of the alphabet."""
    digits = ""
    while number:
        number, digit = divmod(number, len(ALPHABET))
        digits = ALPHABET[digit] + digits
    return value[: len(value) - len(digits)] + digits


def different_value(value: str) -> str:
    """Another value of the same length."""
    return "".join([ALPHABET[(ALPHABET.find(letter) + 1) % len(ALPHABET)] for letter in value])


class ValueLocation(Struct, frozen=True):
    """A field of a document that contains a generated value alone; `encoded` if in base64."""

    document: Document
    path: FieldPath
    encoded: bool

    def live_value(self, live: Mapping[str, Any] | None) -> str | None:
        """The value that the live object has at this field, None if it has none.

        Raises DocumentError if the value is not text.
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
            message = f"the live value of {field_text(path)} is not base64 of text; remove it to generate another one"
            raise DocumentError(message, location) from None


def value_locations(values: Sequence[str], documents: Sequence[Document]) -> list[list[ValueLocation]]:
    """For each value the fields that contain it alone, in the order of the documents.

    Raises DocumentError if a value is part of a document's identity.
    """
    positions: dict[str, tuple[int, bool]] = {}
    for position, value in enumerate(values):
        positions[value] = (position, False)
        positions[base64.b64encode(value.encode()).decode()] = (position, True)
    found: list[list[ValueLocation]] = [[] for _ in values]
    for document in documents:
        for path, leaf in leaves(document.body):
            if not isinstance(leaf, str):
                continue
            if path in _IDENTITY and any(value in leaf for value in limits.counted(values)):
                message = f"{field_text(path)} can't be generated, because the operator would not find the object again"
                raise DocumentError(message, document.location_of(path))
            if leaf in positions:
                position, encoded = positions[leaf]
                found[position].append(ValueLocation(document, path, encoded))
    return found


def _live_field(live: Any, body: Any, path: FieldPath) -> Any:
    """The field of a live object; the item of a list with a name is the live item of the same name."""
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
