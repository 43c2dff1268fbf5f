"""What can be written outside of tags: fields of manifests and their values, annotations, settings and short schemas.

Promises:
- A key is a field of the schema around it, and a value one of those that the schema or the operator allows.
- A schema is that of Kubernetes (`check --kubernetes`) or of the project's CRDs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from lsprotocol.types import CompletionItem, CompletionItemKind

from ssa_operator.objects.json_schema import Schema
from ssa_operator.rendering.folder.folder_settings import SCHEMA, SETTINGS
from ssa_operator.rendering.jinja.templates import VALUES
from ssa_operator.schema.kubernetes_schemas import METADATA
from ssa_operator.schema.operator_fields import RESERVED
from ssa_operator.tools.editor import vocabulary
from ssa_operator.tools.editor.completion_values import completion, fields
from ssa_operator.tools.editor.expression_types import Reading, at_path, members
from ssa_operator.tools.editor.manifest_cursor import YamlPlace, manifest_at
from ssa_operator.tools.editor.vocabulary import Word


def in_yaml(reading: Reading, place: YamlPlace, lines: list[str], line: int) -> Iterable[CompletionItem]:
    """What can be written at a place outside of tags."""
    if reading.path.name == SETTINGS:
        return _of_settings(place)
    if reading.path.name == SCHEMA:
        return _of_short_schema(place, lines, line)
    if reading.path.name == VALUES:
        return ()
    if place.path[-2:] == ("metadata", "annotations") and not reading.is_status:
        return _of_annotations(place, annotation_words(reading, lines, line))
    schema = schema_around(reading, place, lines, line)
    if place.in_value:
        return _values(reading, place, schema, lines, line)
    return (_as_key(each, members(schema, reading.project)[each.label], reading) for each in fields(schema, reading))


_OWN_STATUS = {*RESERVED} - {"conditions"}
"""The fields of the status that only the operator writes."""

_UNKNOWN_KIND: Schema = {"properties": {"apiVersion": {}, "kind": {}, "metadata": {"$ref": METADATA}}}


def schema_around(reading: Reading, place: YamlPlace, lines: list[str], line: int) -> Schema | None:
    """The schema of the mapping in which a place is."""
    project = reading.project
    if reading.is_status:
        status = members(reading.parent_schema, project).get("status") or {}
        written = {name: each for name, each in members(status, project).items() if name not in _OWN_STATUS}
        return at_path({**status, "properties": written}, place.path, project)
    found = manifest_at(lines, line)
    schema = None if found is None else project.schemas.schema(found.api_version, found.kind)
    return at_path(_UNKNOWN_KIND if schema is None else schema, place.path, project)


def _as_key(found: CompletionItem, field: Schema, reading: Reading) -> CompletionItem:
    schema = reading.project.schemas.resolved(field)
    scalar = schema.get("type") in ("string", "integer", "number", "boolean", "quantity") or not schema
    found.insert_text = f"{found.label}: " if scalar else f"{found.label}:"
    return found


def _values(
    reading: Reading, place: YamlPlace, schema: Schema | None, lines: list[str], line: int
) -> Iterator[CompletionItem]:
    project = reading.project
    manifest = manifest_at(lines, line)
    if place.path == () and place.key == "apiVersion":
        named = project.schemas.api_versions(manifest.kind) if manifest is not None and manifest.kind else []
        for each in named or sorted(project.schemas.kinds):
            yield completion(each, CompletionItemKind.EnumMember)
    elif place.path == () and place.key == "kind":
        version = manifest.api_version if manifest is not None else ""
        for api_version, kinds in project.schemas.kinds.items():
            if version in ("", api_version):
                yield from (completion(each, CompletionItemKind.Class, detail=api_version) for each in sorted(kinds))
    else:
        field = project.schemas.resolved(members(schema, project).get(place.key) or {})
        for each in field.get("enum") or (("true", "false") if field.get("type") == "boolean" else ()):
            yield completion(str(each), CompletionItemKind.EnumMember)


def annotation_words(reading: Reading, lines: list[str], line: int) -> vocabulary.Words:
    """The operator's annotations of the manifest in which a line is: of a parent, a child, or both."""
    found = manifest_at(lines, line)
    folders = reading.project.sources.folders
    kinds = [each for each, known in reading.project.kinds.items() if known.folder in folders]
    is_parent = found is not None and any(
        found.kind == each.kind and found.api_version.startswith(f"{each.group}/") for each in kinds
    )
    of_parent = vocabulary.parent_annotations() if is_parent else {}
    of_child = vocabulary.manifest_annotations() if reading.project.name_of(reading.path) is not None else {}
    return {**of_parent, **of_child}


def _of_annotations(place: YamlPlace, words: vocabulary.Words) -> Iterator[CompletionItem]:
    if place.in_value:
        word = words.get(place.key)
        quoted = place.value.startswith(('"', "'"))
        for each in word.values if word is not None else ():
            yield completion(each.strip('"') if quoted else each, CompletionItemKind.EnumMember)
        return
    for name, word in words.items():
        detail = word.form.replace("`", "")
        yield completion(name, CompletionItemKind.Field, detail, word.meaning, text=f"{name}: ")


def _of_settings(place: YamlPlace) -> Iterator[CompletionItem]:
    words = vocabulary.settings()
    if place.in_value:
        for each in words[place.key].values if place.key in words else ():
            yield completion(each, CompletionItemKind.EnumMember)
    elif not place.path:
        yield from _keys(words.values())


def _keys(words: Iterable[Word]) -> Iterator[CompletionItem]:
    for word in words:
        yield completion(word.name, CompletionItemKind.Field, word.form, word.meaning, text=f"{word.name}: ")


_DECLARED = ("spec", "status", "types", "versions")
_TYPE_NAME = re.compile(r"  (\w+):")


def _of_short_schema(place: YamlPlace, lines: list[str], line: int) -> Iterator[CompletionItem]:
    if not place.path and not place.in_value:
        yield from _keys(vocabulary.SCHEMA_KEYS.values())
    elif place.path[:1] and place.path[0] in _DECLARED and place.in_value:
        if "|" in lines[line][place.value_column :]:
            for word in vocabulary.SCHEMA_MARKERS.values():
                text = word.name if word.form == word.name else f"{word.name}="
                yield completion(word.name, CompletionItemKind.Keyword, word.form, word.meaning, text=text)
        else:
            at = next((number for number, each in enumerate(lines) if each.startswith("types:")), len(lines))
            own = [match[1] for each in lines[at + 1 :] if (match := _TYPE_NAME.match(each))]
            yield from (completion(each, CompletionItemKind.EnumMember) for each in (*vocabulary.SCHEMA_TYPES, *own))
