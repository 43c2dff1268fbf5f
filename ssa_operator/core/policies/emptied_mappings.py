"""Mappings of a custom resource that a manifest empties. The API server makes a mapping null if an apply removes all
its fields, and then refuses the null (https://github.com/kubernetes/kubernetes/issues/135841). It accepts the manifest
after an apply without the mapping.

Promises:
- A manifest is left without those empty mappings only that the API server refuses, and without mappings that have
  nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
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
