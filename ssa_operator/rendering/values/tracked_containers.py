"""Mappings and lists with values in them that a template read of the cluster.

Promises:
- Nothing observed is lost in them: whoever takes the data without its origins is given what it was made of.
- What is unknown in data that is else known waits for itself alone, and is left out where nothing waits.
"""

from __future__ import annotations

from collections.abc import MappingView, Sequence
from types import GeneratorType
from typing import Any

from ssa_operator.rendering.values import limits
from ssa_operator.rendering.values.tracked_values import TrackedValue, UnknownValue, merged, union


def settled(value: Any, found: list[TrackedValue | UnknownValue]) -> Any:
    """Data without origins: what is observed in it is put into `found`, and what is unknown in it stays."""
    if type(value) is dict:
        found.extend(key for key in value if isinstance(key, UnknownValue))
        return {key: settled(item, found) for key, item in value.items()}
    if type(value) is list or type(value) is tuple:
        return [settled(item, found) for item in value]
    if isinstance(value, TrackedValue):
        found.append(value)
        return settled(value.value, found)
    if isinstance(value, UnknownValue):
        found.append(value)
        return value
    return str(value) if isinstance(value, str) else value


def known(value: Any) -> Any:
    """Settled data without what is unknown in it, and without mappings and lists that hold nothing else; Unknown where
    nothing is left.
    """
    if type(value) is dict:
        fields = {key: known(item) for key, item in value.items() if not isinstance(key, UnknownValue)}
        fields = {key: item for key, item in fields.items() if not isinstance(item, UnknownValue)}
        return fields if fields or not value else _one_of(value)
    if type(value) is list:
        items = [item for item in map(known, value) if not isinstance(item, UnknownValue)]
        return items if items or not value else _one_of(value)
    return value


def gathered(value: Any, found: Sequence[TrackedValue | UnknownValue]) -> TrackedValue | UnknownValue:
    """Data with `found` in it, as one value: unknown where a part of it is; in a lenient render without that part."""
    unknowns = [item for item in found if isinstance(item, UnknownValue)]
    sources = union(*(item.sources for item in found))
    if unknowns and not unknowns[0].lenient:
        return merged(found, sources)
    value = known(value)
    return value if isinstance(value, UnknownValue) else TrackedValue(value, sources)


def whole(value: Any) -> Any:
    """A mapping or list as one value, if it has observed ones in it: unknown where any part of it is. Other values, and
    those that nothing was observed for, are as good as they were: what gives items one by one is a list now.
    """
    if isinstance(value, (tuple, MappingView, GeneratorType)):
        items: Any = value
        value = [*limits.counted(items)]
    if type(value) is not list and type(value) is not dict:
        return value
    found: list[TrackedValue | UnknownValue] = []
    data = settled(value, found)
    if not found:
        return value
    sources = union(*(item.sources for item in found))
    return (
        merged(found, sources) if any(isinstance(item, UnknownValue) for item in found) else TrackedValue(data, sources)
    )


def _one_of(value: Any) -> UnknownValue:
    """An unknown value among those of a mapping or list that holds nothing else."""
    found: list[TrackedValue | UnknownValue] = []
    settled(value, found)
    return next(item for item in found if isinstance(item, UnknownValue))
