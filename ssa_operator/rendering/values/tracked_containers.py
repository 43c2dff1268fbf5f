"""Mappings and lists that contain values of the cluster: their provenance, and the unknown values in them.

Promises:
- Provenance is never lost: each function that returns plain data also returns the tracked values in it.
- An unknown value in a mapping or a list waits alone. In a lenient render it is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, MappingView, Sequence
from types import GeneratorType
from typing import Any

from ssa_operator.objects.source_location import FieldPath
from ssa_operator.rendering.values import limits
from ssa_operator.rendering.values.limits import LimitError
from ssa_operator.rendering.values.secrecy import Secrecy
from ssa_operator.rendering.values.tracked_values import (
    TrackedValue,
    UnknownValue,
    merge_provenance,
    merge_unknown,
    untracked,
)

_DEPTH_LIMIT = 300
"""Levels of a value that the functions below can read; the API server gives no deeper ones.
"""


def strip_provenance(
    value: Any, found: list[TrackedValue | UnknownValue], stripped: dict[int, Any] | None = None, depth: int = 0
) -> Any:
    """The data without provenance. Appends its tracked and unknown values to `found`; unknown values stay in it.

    A mapping or list that occurs several times, as `stripped` knows by its id, is read once and stays shared.
    """
    if type(value) is dict or type(value) is list or type(value) is tuple:
        if stripped is None:
            stripped = {}
        if id(value) in stripped:
            return stripped[id(value)]
        if depth > _DEPTH_LIMIT:
            raise LimitError(f"the value is nested deeper than {_DEPTH_LIMIT} levels")
        data: Any
        if type(value) is dict:
            found.extend(key for key in value if isinstance(key, UnknownValue))
            data = {key: strip_provenance(item, found, stripped, depth + 1) for key, item in value.items()}
        else:
            data = [strip_provenance(item, found, stripped, depth + 1) for item in value]
        stripped[id(value)] = data
        return data
    if isinstance(value, TrackedValue):
        found.append(value)
        return strip_provenance(value.value, found, stripped, depth)
    if isinstance(value, UnknownValue):
        found.append(value)
        return value
    return str(value) if isinstance(value, str) else value


def content_paths(value: Any, path: FieldPath = ()) -> Iterator[tuple[FieldPath, bool]]:
    """The outermost fields of data with provenance that are a Secret's content, each with whether names of fields in it
    are content, too: the name of the field itself, or of fields below it.
    """
    if type(value) is TrackedValue:
        sources = [source for source in value.provenance if source.secrecy is Secrecy.CONTENT]
        if any(source.key for source in sources):
            yield path, True
        elif sources:
            yield path, False
        else:
            yield from content_paths(value.value, path)
    elif type(value) is dict:
        for key, item in value.items():
            yield from content_paths(item, (*path, key))
    elif type(value) is list or type(value) is tuple:
        for at, item in enumerate(value):
            yield from content_paths(item, (*path, at))


def drop_unknown(value: Any) -> Any:
    """Data without its unknown values, and without mappings and lists that contain nothing else.

    Returns an UnknownValue if nothing remains.
    """
    if type(value) is dict:
        fields = {key: drop_unknown(item) for key, item in value.items() if not isinstance(key, UnknownValue)}
        fields = {key: item for key, item in fields.items() if not isinstance(item, UnknownValue)}
        return fields if fields or not value else _first_unknown(value)
    if type(value) is list:
        items = [item for item in map(drop_unknown, value) if not isinstance(item, UnknownValue)]
        return items if items or not value else _first_unknown(value)
    return value


def track_data(value: Any, found: Sequence[TrackedValue | UnknownValue]) -> TrackedValue | UnknownValue:
    """Data that contains the values `found`, as one value. If a part is unknown, the whole is unknown; in a lenient
    render only the part is left out.
    """
    unknowns = [item for item in found if isinstance(item, UnknownValue)]
    provenance = merge_provenance(*(item.provenance for item in found))
    if unknowns and not unknowns[0].lenient:
        return merge_unknown(found, provenance)
    value = drop_unknown(value)
    return value if isinstance(value, UnknownValue) else TrackedValue(value, provenance)


def traced_parts(value: Any) -> Any:
    """A mapping or list in which each part has its own provenance; a part without one is a value of no origin."""
    if isinstance(value, TrackedValue):
        return value.derive(_traced_below(value.value))
    if isinstance(value, (tuple, MappingView)):
        items: Any = value
        value = list(items)
    if value and type(value) in (dict, list):
        if type(value) is dict:
            return {str(untracked(key)): traced_parts(item) for key, item in value.items()}
        return [traced_parts(item) for item in value]
    return TrackedValue(str(value) if isinstance(value, str) else value, ())


def _traced_below(value: Any) -> Any:
    """The same within a value that has a provenance itself, which counts for all parts without one."""
    if isinstance(value, TrackedValue):
        return traced_parts(value)
    if type(value) is dict:
        return {key: _traced_below(item) for key, item in value.items()}
    if type(value) is list or type(value) is tuple:
        return [_traced_below(item) for item in value]
    return value


def track_container(value: Any) -> Any:
    """A mapping or list that contains tracked values as one tracked value; unknown if a part of it is unknown.

    Returns all other values unchanged, but tuples, views and generators as lists.
    """
    if isinstance(value, (tuple, MappingView, GeneratorType)):
        items: Any = value
        value = [*limits.counted(items)]
    if type(value) is not list and type(value) is not dict:
        return value
    found: list[TrackedValue | UnknownValue] = []
    data = strip_provenance(value, found)
    if not found:
        return value
    provenance = merge_provenance(*(item.provenance for item in found))
    return (
        merge_unknown(found, provenance)
        if any(isinstance(item, UnknownValue) for item in found)
        else TrackedValue(data, provenance)
    )


def _first_unknown(value: Any) -> UnknownValue:
    """The first unknown value of a mapping or list that contains nothing else."""
    found: list[TrackedValue | UnknownValue] = []
    strip_provenance(value, found)
    return next(item for item in found if isinstance(item, UnknownValue))
