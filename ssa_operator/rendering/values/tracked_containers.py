"""Mappings and lists that contain values of the cluster: their provenance, their unknown values and their secrets.

Promises:
- Provenance is never lost: each function that returns plain data also returns the tracked values in it.
- An unknown value in a mapping or a list waits alone. In a lenient render it is left out.
- Every field has one origin; a field without a value of the parent or the cluster is a literal.
- If a value depends on several fields, its origin is the field that has the very same value.
- A status field that is derived from a Secret's content is left out, whatever its value is.
- The name of a Secret, whether a field exists, and a hash of a value may be in the status.
- A value that does not come from a Secret stays, even if it equals one: the author of the parent knows it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, MappingView, Sequence
from types import GeneratorType
from typing import Any

from jinja2.utils import missing

from ssa_operator.objects.render_result import LITERAL, FieldRead, Origin, OriginKind
from ssa_operator.objects.secret_fields import HIDDEN
from ssa_operator.objects.source_location import FieldPath, field_text, value_at
from ssa_operator.rendering.values import limits
from ssa_operator.rendering.values.limits import LimitError
from ssa_operator.rendering.values.secrecy import Secrecy
from ssa_operator.rendering.values.tracked_values import (
    Provenance,
    TrackedValue,
    UnknownValue,
    merge_provenance,
    merge_unknown,
    untracked,
)

_DEPTH_LIMIT = 300
"""Levels of a value that the functions below can read; the API server gives no deeper ones.
"""


_PLAIN = frozenset({bool, float, int, str, type(None)})


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
            found.extend([key for key in value if type(key) is UnknownValue])
            data = {
                key: item if type(item) in _PLAIN else strip_provenance(item, found, stripped, depth + 1)
                for key, item in value.items()
            }
        else:
            data = [
                item if type(item) in _PLAIN else strip_provenance(item, found, stripped, depth + 1) for item in value
            ]
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
    if (type(value) is not dict and type(value) is not list) or not value:
        return value
    keys = value if type(value) is dict else range(len(value))
    fields = {key: key if isinstance(key, UnknownValue) else drop_unknown(value[key]) for key in keys}
    known = {key: item for key, item in fields.items() if not isinstance(item, UnknownValue)}
    if not known:
        return next(iter(fields.values()))
    return known if type(value) is dict else [*known.values()]


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


def traced_parts(value: Any, *, has_origin: bool = False) -> Any:
    """A mapping or list in which each part has its own provenance; a part without one is a value of no origin, unless
    what it is in `has_origin`, which then counts for it.
    """
    if isinstance(value, TrackedValue):
        return value.derive(traced_parts(value.value, has_origin=True))
    if isinstance(value, (tuple, MappingView)) and not has_origin:
        items: Any = value
        value = [*items]
    if type(value) is dict and (value or has_origin):
        return {
            key if has_origin else str(untracked(key)): traced_parts(item, has_origin=has_origin)
            for key, item in value.items()
        }
    if type(value) in (list, tuple) and (value or has_origin):
        return [traced_parts(item, has_origin=has_origin) for item in value]
    if has_origin:
        return value
    return TrackedValue(str(value) if isinstance(value, str) else value, ())


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
    if any(isinstance(item, UnknownValue) for item in found):
        return merge_unknown(found)
    return TrackedValue(data, merge_provenance(*(item.provenance for item in found)))


class FieldOrigins:
    """Finds the origin of a field on demand."""

    __slots__ = ("_body",)

    def __init__(self, body: Any) -> None:
        """`body` is a document with provenance."""
        self._body = body

    def __call__(self, path: FieldPath) -> Origin:
        value, found_in, inside = _find(self._body, path)
        provenance = tuple(source for source in found_in if not source.local)
        if not provenance:
            return LITERAL
        parent_last = sorted(provenance, key=lambda source: source.of_parent)
        for source in parent_last if value is not missing else ():
            for found in ((*(source.path or ()), *inside), source.path or ()):
                if _same(value_at(source.body, found, missing), value):
                    return Origin(OriginKind.VALUE, (_read(source, found),))
        # A key that an expression looked up is no origin beside the value that it found.
        absent = [
            source for source in provenance if value_at(source.body, source.path or (), missing) in (None, missing)
        ]
        if absent and value is not missing:
            return Origin(OriginKind.DEFAULT, tuple(_read(source, source.path or ()) for source in absent))
        return Origin(OriginKind.COMPUTED, tuple(_read(source, source.path or ()) for source in provenance))


def is_traced(values: Sequence[TrackedValue | UnknownValue]) -> bool:
    """Whether these values record the fields that they come from."""
    return any(source.path is not None for value in values for source in value.provenance)


def _find(body: Any, path: FieldPath) -> tuple[Any, tuple[Provenance, ...], FieldPath]:
    """The value of a field, the provenance of the innermost tracked value around it, and the field's path in that
    value.
    """
    provenance: tuple[Provenance, ...] = ()
    inside: list[str | int] = []
    for step in (*path, None):
        while isinstance(body, (TrackedValue, UnknownValue)):
            provenance, inside = body.provenance, []
            if isinstance(body, UnknownValue):
                return missing, provenance, ()
            body = body.value
        if step is None:
            break
        body = value_at(body, (step,), missing)
        inside.append(step)
    return body, provenance, tuple(inside)


def _same(found: Any, value: Any) -> bool:
    """Whether two values are the same data; 1 and true are not."""
    found, value = untracked(found), untracked(value)
    return found is not missing and type(found) is type(value) and found == value


def _read(source: Provenance, path: FieldPath) -> FieldRead:
    return FieldRead(None if source.of_parent else source.query, path)


def redact_status(status: Any, *, whole: bool) -> tuple[Any, tuple[str, ...]]:
    """Status fields with provenance, without those that are made of a Secret's content, and the paths of the latter.
    With `whole`, any field may be.
    """
    if whole:
        return {}, ("*",)
    found = dict(content_paths(status))
    if not found:
        return status, ()
    if () in found:
        return {}, ("*",)
    shown = ((*path[:-1], HIDDEN) if key else path for path, key in found.items())
    return _without(status, found.keys(), ()), tuple(map(field_text, dict.fromkeys(shown)))


def _without(value: Any, left_out: Collection[FieldPath], path: FieldPath) -> Any:
    if type(value) is TrackedValue:
        return value.derive(_without(value.value, left_out, path))
    if type(value) is dict:
        kept = {key: item for key, item in value.items() if (*path, key) not in left_out}
        return {key: _without(item, left_out, (*path, key)) for key, item in kept.items()}
    if type(value) is list:
        return [_without(item, left_out, (*path, at)) for at, item in enumerate(value) if (*path, at) not in left_out]
    return value
