"""Compares two JSON values and finds the first field that differs.

Promises:
- The order of keys and the types of values count as differences.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssa_operator.objects.source_location import FieldPath


def difference(one: Any, other: Any, path: FieldPath = ()) -> FieldPath | None:
    """The path of the first field in which two values differ, None if they are equal."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        if [*one] != [*other]:
            return path
        found = (difference(one[key], other[key], (*path, key)) for key in one)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        found = (difference(left, right, (*path, at)) for at, (left, right) in enumerate(zip(one, other, strict=True)))
    else:
        return None if type(one) is type(other) and one == other else path
    return next((field for field in found if field is not None), None)
