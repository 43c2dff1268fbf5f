"""The origin of each field of a traced document: the fields that the template read for it.

Promises:
- Every field has one origin; a field without a value of the parent or the cluster is a literal.
- If a value depends on several fields, its origin is the field that has the very same value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jinja2.utils import missing

from ssa_operator.objects.field_origin import LITERAL, FieldRead, Origin, OriginKind
from ssa_operator.objects.source_location import FieldPath, value_at
from ssa_operator.rendering.values.tracked_values import Provenance, TrackedValue, UnknownValue, untracked


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
