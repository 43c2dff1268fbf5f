"""What can be written at a place: fields, functions, filters, tests, kinds, annotations, settings, macros and files.

Promises:
- In a tag, a name after a dot is a field of what is before it, a name after `|` a filter, and one after `is` a test.
- Outside of tags, a key is a field of the schema around it, and a value one of those that the schema or the operator
  allows. A schema is that of Kubernetes (`check --kubernetes`) or of the project's CRDs.
- A field shows its type, its default and the description of its CRD; a function its call and its meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from ssa_operator.rendering.folder.folder_settings import SCHEMA, SETTINGS
from ssa_operator.rendering.jinja import filters, functions
from ssa_operator.rendering.jinja.folder_files import FILES
from ssa_operator.rendering.jinja.templates import SHARED, VALUES
from ssa_operator.schema.kubernetes_schemas import METADATA, Schema
from ssa_operator.schema.operator_fields import RESERVED
from ssa_operator.tools.editor import vocabulary
from ssa_operator.tools.editor.expression_types import (
    Reading,
    at_path,
    manifest_files,
    members,
    string_of,
    type_lines,
    type_of,
    type_text,
    variables_types,
)
from ssa_operator.tools.editor.manifest_cursor import YamlPlace, manifest_at, manifests, yaml_place
from ssa_operator.tools.editor.template_cursor import (
    OpenString,
    Tag,
    bindings,
    chain_before,
    open_string,
    tag_at,
    word_around,
)
from ssa_operator.tools.editor.text_places import lines_of
from ssa_operator.tools.editor.vocabulary import Word


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


KEYWORDS = (
    *(
        "if",
        "elif",
        "else",
        "endif",
        "for",
        "endfor",
        "set",
        "endset",
        "include",
        "import",
        "from",
        "macro",
        "endmacro",
    ),
    *("call", "endcall", "filter", "endfilter", "with", "endwith", "block", "endblock", "extends", "raw", "endraw"),
    *("break", "continue", "return"),
)
_OPERATORS = ("and", "or", "not", "in", "is", "if", "else", "true", "false", "none", "loop")
_TEST = re.compile(r"\bis\s+(?:not\s+)?\w*$")
_IMPORTED = re.compile(r"""[-+]?+\s*+from\s++['"](?P<file>[^'"]*+)['"]\s++import\s""")
_NAMED = re.compile(r"[\w./-]")


def completions(reading: Reading, line: int, column: int) -> Completions:
    """What can be written at a column of a line."""
    lines = reading.lines
    text = lines[line] if line < len(lines) else ""
    column = min(column, len(text))
    offset = sum(len(each) + 1 for each in lines[:line]) + column
    joined = "\n".join(lines)
    if reading.path.suffix == ".j2" and (tag := tag_at(joined, offset)) is not None:
        return _in_tag(Reading(project=reading.project, path=reading.path, text=joined), tag, offset, column)
    begin = column
    if text.lstrip().startswith("#"):
        return Completions(begin=begin)
    while begin and _NAMED.match(text[begin - 1]):
        begin -= 1
    place = yaml_place(lines, line, column)
    with_colon = text[column:].lstrip(" \"'").startswith(":")
    items = _in_yaml(reading, place, lines, line)
    if with_colon or place.in_value:
        items = (replace(each, text=each.text if "=" in each.text else "") for each in items)
    return Completions(begin=begin, items=_unique(items))


def _unique(items: Iterable[Completion]) -> tuple[Completion, ...]:
    return tuple({each.label: each for each in items}.values())


# In a tag.


def _in_tag(reading: Reading, tag: Tag, offset: int, column: int) -> Completions:
    if tag.opening == "{#":
        return Completions(begin=column)
    text = reading.text
    string = open_string(text, tag, offset)
    if string is not None:
        return Completions(begin=column - (offset - string.begin), items=_unique(_in_string(reading, string)))
    begin, _ = word_around(text[:offset], offset)
    before = text[tag.begin : begin].rstrip()
    within = reading.before(offset)
    if before.endswith("."):
        dot = text.rindex(".", 0, begin)
        items = _after_dot(within, dot, tag)
    elif before.endswith("|"):
        items = _words(vocabulary.own_filters(), filters.FILTERS)
    elif _TEST.search(text[max(tag.begin, offset - 200) : offset]):
        items = _words(vocabulary.own_tests(), filters.TESTS)
    elif (imported := _IMPORTED.match(text[tag.begin : begin])) is not None:
        items = _macros(reading, imported["file"])
    elif tag.opening == "{%" and not before.strip("-+ "):
        items = (Completion(label=each, sort=Sort.KEYWORD) for each in KEYWORDS)
    else:
        items = _names(within)
    return Completions(begin=column - (offset - begin), items=_unique(items))


def _after_dot(reading: Reading, dot: int, tag: Tag) -> Iterable[Completion]:
    chain = chain_before(reading.text, dot, tag.begin)
    if len(chain) == 1 and (bound := reading.scope.get(chain[0].text)) is not None and bound.kind == "import":
        return _macros(reading, bound.expression)
    return fields(type_of(chain, reading), reading)


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


def _macros(reading: Reading, file: str) -> Iterator[Completion]:
    for name, bound in bindings(file_text(reading, file)).items():
        if bound.kind == "macro":
            yield Completion(label=name, sort=Sort.FUNCTION, detail=f"{name}({bound.expression})")
        elif bound.kind == "set":
            yield Completion(label=name, sort=Sort.VARIABLE)


def included_path(reading: Reading, name: str) -> Path | None:
    """The file that an include or import names, None if there is none."""
    folder = reading.project.folder_of(reading.path)
    own = reading.project.name_of(reading.path)
    if own is None:
        return None
    top = own.split("/")[0]
    folder_name = folder.name if folder is not None else top
    for full in (f"{folder_name}/{name}", name if name.startswith(f"{SHARED}/") else ""):
        path = reading.project.path_of(full)
        if full and ".." not in full.split("/") and (path in reading.project.unsaved or path.is_file()):
            return path
    return None


def file_text(reading: Reading, name: str) -> str:
    """The text of a file that an include or import names, '' without one."""
    path = included_path(reading, name)
    return "" if path is None else reading.project.text(path)


def _words(own: vocabulary.Words, all_names: Iterable[str]) -> Iterator[Completion]:
    for name in sorted({*own, *all_names}):
        word = own.get(name)
        yield Completion(
            label=name,
            sort=Sort.FUNCTION,
            detail="" if word is None else word.form,
            documentation="of Jinja" if word is None else word.meaning,
        )


def _names(reading: Reading) -> Iterator[Completion]:
    types = variables_types(reading)
    for name, word in vocabulary.variables().items():
        if name in types:
            detail = type_text(types[name], reading.project)
            yield Completion(label=name, sort=Sort.VARIABLE, detail=detail, documentation=word.meaning)
    yield from _words(vocabulary.own_functions(), functions.FUNCTIONS)
    for name, bound in reading.scope.items():
        found = type_of(chain_before(name, len(name)), reading)
        if bound.kind == "macro":
            yield Completion(label=name, sort=Sort.FUNCTION, detail=f"{name}({bound.expression})")
        else:
            detail = type_text(found, reading.project) if found else ""
            yield Completion(label=name, sort=Sort.VARIABLE, detail=detail)
    yield from (Completion(label=each, sort=Sort.KEYWORD) for each in _OPERATORS)


def _in_string(reading: Reading, string: OpenString) -> Iterator[Completion]:
    kinds = reading.project.schemas.kinds
    given = string_of(string.before[0]) if string.before else None
    if string.function in ("include", "import", "from", "extends"):
        yield from _files(reading)
    elif string.function in ("child", "live"):
        yield from _children(reading, string.argument, given)
    elif string.function in ("lookup", "lookup_all", "api_available"):
        if string.argument == 0:
            yield from (Completion(label=each, sort=Sort.VALUE) for each in sorted(kinds))
        elif string.argument == 1:
            known = kinds.get(given or "", {})
            yield from (Completion(label=each, sort=Sort.KIND, detail=given or "") for each in sorted(known))
    elif string.function in ("read_file", "read_files"):
        yield from _data_files(reading)


def _children(reading: Reading, argument: int, kind: str | None) -> Iterator[Completion]:
    """The kinds that the folder renders, or the names of a kind that are written without a tag."""
    for path in manifest_files(reading.project, reading.path):
        for each in manifests(lines_of(reading.project.text(path))):
            if argument == 0 and each.kind and "{" not in each.kind:
                yield Completion(label=each.kind, sort=Sort.KIND, detail=each.api_version)
            elif argument == 1 and each.kind == kind and each.name and "{" not in each.name:
                yield Completion(label=each.name, sort=Sort.VALUE, detail=each.kind)


def _data_files(reading: Reading) -> Iterator[Completion]:
    folder = reading.project.folder_of(reading.path)
    root = Path() if folder is None else folder.root / folder.name / FILES
    for path in sorted(root.rglob("*")) if folder is not None and root.is_dir() else ():
        if path.is_file():
            yield Completion(label=path.relative_to(root).as_posix(), sort=Sort.FILE)


def _files(reading: Reading) -> Iterator[Completion]:
    own = reading.project.name_of(reading.path)
    for path in manifest_files(reading.project, reading.path):
        name = reading.project.name_of(path) or ""
        if name.endswith(".j2") and name != own:
            yield Completion(label=name if name.startswith(f"{SHARED}/") else name.partition("/")[2], sort=Sort.FILE)


# Outside of tags.


def _in_yaml(reading: Reading, place: YamlPlace, lines: list[str], line: int) -> Iterable[Completion]:
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


def _as_key(completion: Completion, field: Schema, reading: Reading) -> Completion:
    found = reading.project.schemas.resolved(field)
    scalar = found.get("type") in ("string", "integer", "number", "boolean", "quantity") or not found
    return replace(completion, text=f"{completion.label}: " if scalar else f"{completion.label}:")


def _values(
    reading: Reading, place: YamlPlace, schema: Schema | None, lines: list[str], line: int
) -> Iterator[Completion]:
    project = reading.project
    manifest = manifest_at(lines, line)
    if place.path == () and place.key == "apiVersion":
        named = project.schemas.api_versions(manifest.kind) if manifest is not None and manifest.kind else []
        for each in named or sorted(project.schemas.kinds):
            yield Completion(label=each, sort=Sort.VALUE)
    elif place.path == () and place.key == "kind":
        version = manifest.api_version if manifest is not None else ""
        for api_version, kinds in project.schemas.kinds.items():
            if version in ("", api_version):
                yield from (Completion(label=each, sort=Sort.KIND, detail=api_version) for each in sorted(kinds))
    else:
        field = project.schemas.resolved(members(schema, project).get(place.key) or {})
        for each in field.get("enum") or (("true", "false") if field.get("type") == "boolean" else ()):
            yield Completion(label=str(each), sort=Sort.VALUE)


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


def _of_annotations(place: YamlPlace, words: vocabulary.Words) -> Iterator[Completion]:
    if place.in_value:
        word = words.get(place.key)
        quoted = place.value.startswith(('"', "'"))
        for each in word.values if word is not None else ():
            yield Completion(label=each.strip('"') if quoted else each, sort=Sort.VALUE)
        return
    for name, word in words.items():
        detail = word.form.replace("`", "")
        yield Completion(label=name, sort=Sort.FIELD, detail=detail, documentation=word.meaning, text=f"{name}: ")


def _of_settings(place: YamlPlace) -> Iterator[Completion]:
    words = vocabulary.settings()
    if place.in_value:
        for each in words[place.key].values if place.key in words else ():
            yield Completion(label=each, sort=Sort.VALUE)
    elif not place.path:
        yield from _keys(words.values())


def _keys(words: Iterable[Word]) -> Iterator[Completion]:
    for word in words:
        yield Completion(
            label=word.name, sort=Sort.FIELD, detail=word.form, documentation=word.meaning, text=f"{word.name}: "
        )


_DECLARED = ("spec", "status", "types", "versions")
_TYPE_NAME = re.compile(r"  (\w+):")


def _of_short_schema(place: YamlPlace, lines: list[str], line: int) -> Iterator[Completion]:
    if not place.path and not place.in_value:
        yield from _keys(vocabulary.SCHEMA_KEYS.values())
    elif place.path[:1] and place.path[0] in _DECLARED and place.in_value:
        if "|" in lines[line][place.value_column :]:
            for word in vocabulary.SCHEMA_MARKERS.values():
                text = word.name if word.form == word.name else f"{word.name}="
                yield Completion(
                    label=word.name, sort=Sort.KEYWORD, detail=word.form, documentation=word.meaning, text=text
                )
        else:
            at = next((number for number, each in enumerate(lines) if each.startswith("types:")), len(lines))
            own = [match[1] for each in lines[at + 1 :] if (match := _TYPE_NAME.match(each))]
            yield from (Completion(label=each, sort=Sort.VALUE) for each in (*vocabulary.SCHEMA_TYPES, *own))
