"""What an editor shows of the name under the pointer: its type and meaning, and the values of the first example.

Promises:
- A field shows its type, its default, its limits and the description of its schema; a function its call and meaning.
- In a tag, the values are those that the folder's first example has or renders there, as if its children were ready.
- No value is shown of a Secret, or of a manifest that reads one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ssa_operator.objects.json_schema import Schema
from ssa_operator.objects.render_result import Document
from ssa_operator.objects.secret_fields import NO_SECRET_FIELDS
from ssa_operator.objects.source_location import FieldPath, SourceLocation, field_text, value_at
from ssa_operator.rendering.folder.contained_files import unsaved_texts
from ssa_operator.rendering.folder.folder_settings import SCHEMA, SETTINGS
from ssa_operator.rendering.jinja.templates import VALUES
from ssa_operator.rendering.values.manifest_values import json_text
from ssa_operator.tools.checks.template_checks import ready_example
from ssa_operator.tools.editor import vocabulary
from ssa_operator.tools.editor.completion import annotation_words, schema_around
from ssa_operator.tools.editor.completion import field_text as schema_text
from ssa_operator.tools.editor.edited_project import EditedProject
from ssa_operator.tools.editor.expression_types import Reading, below, file_text, members, type_of, type_text
from ssa_operator.tools.editor.places import (
    Chain,
    Span,
    Tag,
    bindings,
    chain_before,
    open_string,
    tag_at,
    word_around,
    yaml_place,
)
from ssa_operator.tools.editor.vocabulary import Word
from ssa_operator.tools.offline.offline_cluster import OfflineParent

_VALUES_LIMIT = 5
"""The most rendered values that are shown."""
_KEPT = 16
"""The rendered examples that are kept, each of one state of a project."""
_LENGTH_LIMIT = 500
"""Characters of a value that are shown."""


@dataclass(frozen=True, slots=True)
class Hover:
    """What is shown of a part of a line."""

    markdown: str
    span: Span


def hover(reading: Reading, line: int, column: int) -> Hover | None:
    """What is known of the name at a column of a line, None if nothing is."""
    lines = reading.lines
    reading, offset = reading.at(line, column)
    text = reading.text
    tag = tag_at(text, offset) if reading.path.suffix == ".j2" else None
    if tag is None:
        return _of_yaml(reading, lines, line, column)
    if tag.opening == "{#":
        return None
    begin, end = word_around(text, offset)
    span = Span(line, column - (offset - begin), column + (end - offset))
    parts = []
    if open_string(text, tag, offset) is None and begin < end:
        parts = [*_of_name(reading.before(offset), tag, begin, end)]
    rendered = rendered_values(reading.project, reading.path, line + 1)
    if tag.opening == "{{" and rendered:
        parts.append("Renders in the first example:\n\n" + "\n".join(f"- {each}" for each in rendered))
    return Hover("\n\n".join(parts), span) if parts else None


def _of_name(reading: Reading, tag: Tag, begin: int, end: int) -> Iterator[str]:
    text = reading.text
    name, before = text[begin:end], text[tag.begin : begin].rstrip()
    word = None
    if before.endswith("|"):
        word = vocabulary.own_filters().get(name)
    elif before.endswith((" is", " is not")):
        word = vocabulary.own_tests().get(name)
    elif not before.endswith("."):
        word = vocabulary.own_functions().get(name) if name not in reading.scope else None
    if word is not None:
        yield _shown(word)
        return
    chain = chain_before(text, end, tag.begin)
    if chain:
        yield from _of_chain(chain, reading)


def _shown(word: Word) -> str:
    default = f"default: `{word.default}`" if word.default else ""
    return "\n\n".join(each for each in (f"```jinja\n{word.form or word.name}\n```", word.meaning, default) if each)


def _of_chain(chain: Chain, reading: Reading) -> Iterator[str]:
    written = "".join(
        f".{each.text}" if each.kind == "name" else f"[{each.text}]" if each.kind == "index" else f"({each.text})"
        for each in chain
    ).removeprefix(".")
    bound = reading.scope.get(chain[0].text)
    schema = type_of(chain, reading)
    if schema is not None:
        yield _field(written, schema, reading)
    elif (macro := _macro(chain, reading)) is not None:
        yield f"```jinja\n{macro}\n```"
    elif bound is not None and len(chain) == 1 and bound.expression:
        yield f"```jinja\n{written} = {bound.expression}\n```"
    variable = vocabulary.variables().get(chain[0].text)
    if bound is None and len(chain) == 1 and variable is not None:
        yield variable.meaning
    value = None if bound is not None else _example_value(chain, reading)
    if value is not None:
        yield value


def _macro(chain: Chain, reading: Reading) -> str | None:
    """The call of the macro that a path names, of the same file or an imported one; None for another path."""
    name, bound = chain[0].text, reading.scope.get(chain[0].text)
    if bound is not None and bound.kind == "import":
        name = bound.member or (chain[1].text if len(chain) == 2 else "")
        bound = bindings(file_text(reading, bound.expression)).get(name)
    elif len(chain) > 1:
        return None
    return f"{name}({bound.expression})" if bound is not None and bound.kind == "macro" else None


def _field(name: str, schema: Schema, reading: Reading) -> str:
    head = f"```yaml\n{name}: {type_text(schema, reading.project)}\n```"
    return "\n\n".join(each for each in (head, schema_text(schema, reading)) if each)


# The first example.


@lru_cache(maxsize=_KEPT)
def _example(project: EditedProject, folder: str) -> OfflineParent | None:
    """The first example of a folder; a project is one state of its files."""
    with unsaved_texts(project.unsaved):
        return ready_example(project, folder)


def _example_value(chain: Chain, reading: Reading) -> str | None:
    """The value of a field of the first example."""
    names: list[str | int] = [each.text for each in chain if each.kind == "name"]
    folder = reading.project.folder_of(reading.path)
    if (
        folder is None
        or len(names) != len(chain)
        or names[0] not in ("spec", "metadata", "name", "namespace", "labels")
    ):
        return None
    example = _example(reading.project, folder.name)
    if example is None or example.created.body.get("kind") == "Secret":
        return None
    path: FieldPath = tuple(names if names[0] in ("spec", "metadata") else ["metadata", *names])
    missing = object()
    value = value_at(example.created.body, path, missing)
    return f"{example.created.name}: " + ("not set" if value is missing else f"`{_short(value)}`")


def rendered_values(project: EditedProject, path: Path, number: int) -> list[str]:
    """The fields that the first example renders from a line of a template, as Markdown."""
    folder, name = project.folder_of(path), project.name_of(path)
    example = _example(project, folder.name) if folder is not None else None
    if example is None or name is None:
        return []
    found = []
    for document in example.rendered.documents:
        if document.body["kind"] == "Secret" or document.secret != NO_SECRET_FIELDS:
            continue
        owner = f"{document.body['kind']} {document.body['metadata']['name']}"
        for field in _fields_of(document, name, number):
            value = value_at(document.body, field)
            found.append(f"`{field_text(field)}: {_short(value)}` in {owner}")
            if len(found) == _VALUES_LIMIT:
                return found
    return found


def _fields_of(document: Document, file: str, line: int) -> Iterator[FieldPath]:
    """The outermost fields of a document that a line of a template writes as a whole."""
    stack: list[tuple[FieldPath, Any]] = [((), document.body)]
    while stack:
        path, value = stack.pop()
        entries = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
        inner = [((*path, key), each) for key, each in entries]
        if (
            path
            and _is_at(document.location_of(path), file, line)
            and (not inner or _all_at(document, inner, file, line))
        ):
            yield path
        else:
            stack += reversed(inner)


def _all_at(document: Document, inner: list[tuple[FieldPath, Any]], file: str, line: int) -> bool:
    return all(_is_at(document.location_of(path), file, line) for path, _ in inner)


def _is_at(location: SourceLocation, file: str, line: int) -> bool:
    """Whether a line wrote a part, itself or by what it includes."""
    return any(each.file == file and each.line == line for each in (location, *location.included_from))


def _short(value: Any) -> str:
    text = json_text(value) if isinstance(value, (dict, list, bool, type(None))) else str(value)
    text = text.replace("`", "'").replace("\n", "\\n")
    return text if len(text) <= _LENGTH_LIMIT else f"{text[: _LENGTH_LIMIT - 3]}..."


# Outside of tags.


def _of_yaml(reading: Reading, lines: list[str], line: int, column: int) -> Hover | None:
    if line >= len(lines):
        return None
    place = yaml_place(lines, line, column)
    if not place.key or not place.key_span.column <= column <= place.key_span.end:
        return None
    if reading.path.name == VALUES:
        return None
    words = {SETTINGS: vocabulary.settings(), SCHEMA: vocabulary.SCHEMA_KEYS}.get(reading.path.name)
    if words is None and place.path[-2:] == ("metadata", "annotations"):
        words = annotation_words(reading, lines, line)
    word = words.get(place.key) if words is not None and (not place.path or reading.path.name != SCHEMA) else None
    if word is not None:
        return Hover(_shown(word), place.key_span)
    if reading.path.name in (SETTINGS, SCHEMA):
        return None
    around = schema_around(reading, place, lines, line)
    field = below(around, place.key, reading.project)
    if field is None:
        return None
    needed = reading.project.schemas.resolved(around or {}).get("required") or ()
    text = _field(place.key, field, reading)
    named = place.key in needed and place.key in members(around, reading.project)
    return Hover(f"{text}\n\nrequired" if named else text, place.key_span)
