"""What a completion is, and those that a schema gives.

Promises:
- A field shows its type, its default, its limits and the description of its schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from ssa_operator.objects.json_schema import Schema
from ssa_operator.tools.editor.expression_types import Reading, members, type_lines, type_text


class Sort(StrEnum):
    """What a completion is, for its icon."""

    FIELD = "field"
    VARIABLE = "variable"
    FUNCTION = "function"
    KEYWORD = "keyword"
    VALUE = "value"
    KIND = "kind"
    FILE = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """Something that can be written."""

    label: str
    sort: Sort
    detail: str = ""
    """Its type or its call, in short."""
    documentation: str = ""
    """Markdown."""
    text: str = ""
    """What is inserted; '' for the label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completions:
    """The completions of a place. They replace the text from `begin` to the place."""

    begin: int
    """A column of the line."""
    items: tuple[Completion, ...] = ()


def fields(schema: Schema | None, reading: Reading) -> Iterator[Completion]:
    """The fields of an object."""
    for name, field in members(schema, reading.project).items():
        yield Completion(
            label=name,
            sort=Sort.FIELD,
            detail=type_text(field, reading.project),
            documentation=field_text(field, reading),
        )


def field_text(field: Schema, reading: Reading) -> str:
    """What is known of a field beside its type, as Markdown."""
    described = field.get("description") or reading.project.schemas.resolved(field).get("description") or ""
    return "\n\n".join([each for each in (str(described), "; ".join(type_lines(field, reading.project))) if each])


def unique(items: Iterable[Completion]) -> tuple[Completion, ...]:
    """The first one of each label."""
    found: dict[str, Completion] = {}
    for each in items:
        found.setdefault(each.label, each)
    return tuple(found.values())
