"""Where a template takes the value of a field from: the parent, another object, or its own text.

Promises:
- An origin names fields and objects, and never a value.
- A field of the parent is written as templates write it: `spec.replicas`.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from ssa_operator.objects.annotations import Reference
from ssa_operator.objects.built_in_kinds import ApiKind
from ssa_operator.objects.cluster_view import Lookup, Question, Selection
from ssa_operator.objects.source_location import FieldPath, field_text


class OriginKind(StrEnum):
    """How the value of a field follows from what the template reads."""

    LITERAL = "literal"
    """It is the template's text."""
    VALUE = "value"
    """It is the value of a field that the template reads."""
    COMPUTED = "computed"
    """An expression or a text contains what the template reads."""
    DEFAULT = "default"
    """It is the template's default, because the field that it reads is missing."""
    GENERATED = "generated"
    """It is a generated value, or contains one."""


class FieldRead(Struct, frozen=True):
    """A field that a template reads."""

    query: Question | None
    """The query for the object; None for the parent."""
    path: FieldPath
    """The field of the object, () for the whole object; the first part of a `lookup_all` is a position in the list."""

    def __str__(self) -> str:
        field = field_text(self.path)
        if self.query is None:
            return field or "object"
        match self.query:
            case Reference():
                function = "child"
            case Lookup():
                function = "lookup"
            case Selection():
                function = "lookup_all"
            case ApiKind():
                function = "api_available"
        return f"{function}({self.query})" + (f".{field}" if field and not field.startswith("[") else field)


class Origin(Struct, frozen=True):
    """The origin of one field's value."""

    kind: OriginKind
    reads: tuple[FieldRead, ...] = ()
    """The fields that the value follows from."""

    def __str__(self) -> str:
        fields = ", ".join(dict.fromkeys(map(str, self.reads)))
        match self.kind:
            case OriginKind.VALUE:
                return fields
            case OriginKind.COMPUTED:
                return f"computed from {fields}"
            case OriginKind.DEFAULT:
                return f"default for {fields}"
            case OriginKind.GENERATED:
                return "generated()"
        return "literal"


LITERAL = Origin(OriginKind.LITERAL)
