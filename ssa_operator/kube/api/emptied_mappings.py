"""Mappings of a custom resource that a manifest empties. The API server makes a mapping null if an apply removes all
its fields. It refuses a null that the schema does not allow, and stores any other one
(https://github.com/kubernetes/kubernetes/issues/135841). An apply to an object without the mapping makes it empty.

Promises:
- Only the mappings that the API server refuses are left out of a manifest, and the mappings around them that would be
  empty without them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

_POSITION = re.compile(r"\[\d+\]")


def without_emptied_mappings(body: Mapping[str, Any], refused: Collection[str]) -> dict[str, Any]:
    """A manifest without the empty mappings at these fields, as the API server's message writes them
    (`spec.members[0].labels`).

    Positions are those of the object that the API server made of the manifest, where a list may have items of others.
    So the field is left out in each item of the list in which it is an empty mapping.
    """
    return _filled(body, "", {_POSITION.sub("", field) for field in refused})


def _filled(mapping: Mapping[str, Any], prefix: str, refused: Collection[str]) -> dict[str, Any]:
    filled: dict[str, Any] = {}
    for key, value in mapping.items():
        field = f"{prefix}{key}"
        if isinstance(value, list):
            filled[key] = [_filled(each, f"{field}.", refused) if isinstance(each, Mapping) else each for each in value]
        elif not isinstance(value, Mapping) or (not value and field not in refused):
            filled[key] = value
        elif inner := _filled(value, f"{field}.", refused):
            filled[key] = inner
    return filled


def has_null_for_empty(body: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
    """Whether an object has null where its manifest has an empty mapping; in lists, wherever the item is."""
    return not {*_fields(body, {})}.isdisjoint(_fields(live, None))


def _fields(value: Any, wanted: object, field: str = "") -> Iterator[str]:
    """The fields with this value, without positions of lists."""
    if value == wanted:
        yield field
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _fields(each, wanted, f"{field}.{key}")
    elif isinstance(value, list):
        for each in value:
            yield from _fields(each, wanted, field)
