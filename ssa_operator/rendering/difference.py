"""Where two renders differ.

Promises:
- A template whose two renders of the same input differ is found, with the place of the difference. Generated values
  don't count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssa_operator.core.objects.source_location import FieldPath


def difference(one: Any, other: Any, path: FieldPath = ()) -> FieldPath | None:
    """The first field in which two values differ, None where they are the same."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        if [*one] != [*other]:
            return path
        found = (difference(one[key], other[key], (*path, key)) for key in one)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        found = (difference(left, right, (*path, at)) for at, (left, right) in enumerate(zip(one, other, strict=True)))
    else:
        return None if type(one) is type(other) and one == other else path
    return next((field for field in found if field is not None), None)
