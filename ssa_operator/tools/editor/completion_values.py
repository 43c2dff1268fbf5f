"""Completions, and those that a schema gives.

Promises:
- A field shows its type, its default, its limits and the description of its schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lsprotocol.types import CompletionItem, CompletionItemKind, MarkupContent, MarkupKind

from ssa_operator.objects.json_schema import Schema
from ssa_operator.tools.editor.expression_types import Reading, members, type_lines, type_text

Completions = tuple[int, list[CompletionItem]]
"""The completions of a place, and the column of its line from which they replace the text up to the place."""


def completion(
    label: str, kind: CompletionItemKind, detail: str = "", documentation: str = "", *, text: str = ""
) -> CompletionItem:
    """Something that can be written. `detail` is its type or its call, `documentation` Markdown, and `text` what is
    inserted in place of the label.
    """
    return CompletionItem(
        label=label,
        kind=kind,
        detail=detail or None,
        documentation=MarkupContent(MarkupKind.Markdown, documentation) if documentation else None,
        insert_text=text or None,
    )


def fields(schema: Schema | None, reading: Reading) -> Iterator[CompletionItem]:
    """The fields of an object."""
    for name, field in members(schema, reading.project).items():
        detail = type_text(field, reading.project)
        yield completion(name, CompletionItemKind.Field, detail, field_text(field, reading))


def field_text(field: Schema, reading: Reading) -> str:
    """What is known of a field beside its type, as Markdown."""
    described = field.get("description") or reading.project.schemas.resolved(field).get("description") or ""
    return "\n\n".join([each for each in (str(described), "; ".join(type_lines(field, reading.project))) if each])


def unique(items: Iterable[CompletionItem]) -> list[CompletionItem]:
    """The first one of each label."""
    found: dict[str, CompletionItem] = {}
    for each in items:
        found.setdefault(each.label, each)
    return [*found.values()]
