"""What can be written at a place of a text: fields, functions, filters, kinds and files in a tag, and outside of tags
fields of manifests and their values, annotations, settings and short schemas.

Promises:
- A name after a dot is a field of what is before it, a name after `|` a filter, and one after `is` a test.
- A key is a field of the schema around it, of Kubernetes (`--kubernetes`) or of the project's CRDs, and a value one of
  those that the schema or the operator allows. A key that has its colon already gets no second one.
- A field shows its type, its default, its limits and its description, a function its call and its meaning.
- A comment has no completions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from lsprotocol.types import CompletionItem, CompletionItemKind, MarkupContent, MarkupKind

from ssa_operator.objects.json_schema import Schema
from ssa_operator.rendering.folder.folder_settings import SCHEMA, SETTINGS
from ssa_operator.rendering.jinja import filters, functions
from ssa_operator.rendering.jinja.folder_files import FILES
from ssa_operator.rendering.jinja.templates import SHARED, VALUES
from ssa_operator.schema.kubernetes_schemas import METADATA
from ssa_operator.schema.operator_fields import RESERVED
from ssa_operator.tools.editor import vocabulary
from ssa_operator.tools.editor.expression_types import (
    Reading,
    at_path,
    file_text,
    manifest_files,
    members,
    string_of,
    type_lines,
    type_of,
    type_text,
    variables_types,
)
from ssa_operator.tools.editor.places import (
    OpenString,
    Tag,
    YamlPlace,
    bindings,
    chain_before,
    lines_of,
    manifest_at,
    manifests,
    open_string,
    tag_at,
    word_around,
    yaml_place,
)
from ssa_operator.tools.editor.vocabulary import Word

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


KEYWORDS = [
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
    "call",
    "endcall",
    "filter",
    "endfilter",
    "with",
    "endwith",
    "block",
    "endblock",
    "extends",
    "raw",
    "endraw",
    "break",
    "continue",
    "return",
]
_OPERATORS = ("and", "or", "not", "in", "is", "if", "else", "true", "false", "none", "loop")
_TEST = re.compile(r"\bis\s+(?:not\s+)?\w*$")
_IMPORTED = re.compile(r"""[-+]?+\s*+from\s++['"](?P<file>[^'"]*+)['"]\s++import\s""")


def in_tag(reading: Reading, tag: Tag, offset: int, column: int) -> Completions:
    """What can be written in a tag at an offset of the text, which is at a column of its line."""
    if tag.opening == "{#":
        return column, []
    text = reading.text
    string = open_string(text, tag, offset)
    if string is not None:
        return column - (offset - string.begin), unique(_in_string(reading, string))
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
        items = (completion(each, CompletionItemKind.Keyword) for each in KEYWORDS)
    else:
        items = _names(within)
    return column - (offset - begin), unique(items)


def _after_dot(reading: Reading, dot: int, tag: Tag) -> Iterable[CompletionItem]:
    chain = chain_before(reading.text, dot, tag.begin)
    if len(chain) == 1 and (bound := reading.scope.get(chain[0].text)) is not None and bound.kind == "import":
        return _macros(reading, bound.expression)
    return fields(type_of(chain, reading), reading)


def _macros(reading: Reading, file: str) -> Iterator[CompletionItem]:
    for name, bound in bindings(file_text(reading, file)).items():
        if bound.kind == "macro":
            yield completion(name, CompletionItemKind.Function, detail=f"{name}({bound.expression})")
        elif bound.kind == "set":
            yield completion(name, CompletionItemKind.Variable)


def _words(own: vocabulary.Words, all_names: Iterable[str]) -> Iterator[CompletionItem]:
    for name in sorted({*own, *all_names}):
        word = own.get(name)
        yield completion(
            name,
            CompletionItemKind.Function,
            detail="" if word is None else word.form,
            documentation="of Jinja" if word is None else word.meaning,
        )


def _names(reading: Reading) -> Iterator[CompletionItem]:
    types = variables_types(reading)
    for name, word in vocabulary.variables().items():
        if name in types:
            detail = type_text(types[name], reading.project)
            yield completion(name, CompletionItemKind.Variable, detail, word.meaning)
    yield from _words(vocabulary.own_functions(), functions.FUNCTIONS)
    for name, bound in reading.scope.items():
        found = type_of(chain_before(name, len(name)), reading)
        if bound.kind == "macro":
            yield completion(name, CompletionItemKind.Function, detail=f"{name}({bound.expression})")
        else:
            detail = type_text(found, reading.project) if found else ""
            yield completion(name, CompletionItemKind.Variable, detail=detail)
    yield from (completion(each, CompletionItemKind.Keyword) for each in _OPERATORS)


def _in_string(reading: Reading, string: OpenString) -> Iterator[CompletionItem]:
    kinds = reading.project.schemas.kinds
    given = string_of(string.before[0]) if string.before else None
    if string.function in ("include", "import", "from", "extends"):
        yield from _files(reading)
    elif string.function in ("child", "live"):
        yield from _children(reading, string.argument, given)
    elif string.function in ("lookup", "lookup_all", "api_available"):
        if string.argument == 0:
            yield from (completion(each, CompletionItemKind.EnumMember) for each in sorted(kinds))
        elif string.argument == 1:
            known = kinds.get(given or "", {})
            yield from (completion(each, CompletionItemKind.Class, detail=given or "") for each in sorted(known))
    elif string.function in ("read_file", "read_files"):
        yield from _data_files(reading)


def _children(reading: Reading, argument: int, kind: str | None) -> Iterator[CompletionItem]:
    """The kinds that the folder renders, or the names of a kind that are written without a tag."""
    for path in manifest_files(reading.project, reading.path):
        for each in manifests(lines_of(reading.project.text(path))):
            if argument == 0 and each.kind and "{" not in each.kind:
                yield completion(each.kind, CompletionItemKind.Class, detail=each.api_version)
            elif argument == 1 and each.kind == kind and each.name and "{" not in each.name:
                yield completion(each.name, CompletionItemKind.EnumMember, detail=each.kind)


def _data_files(reading: Reading) -> Iterator[CompletionItem]:
    folder = reading.project.folder_of(reading.path)
    root = Path() if folder is None else folder.root / folder.name / FILES
    for path in sorted(root.rglob("*")) if folder is not None and root.is_dir() else ():
        if path.is_file():
            yield completion(path.relative_to(root).as_posix(), CompletionItemKind.File)


def _files(reading: Reading) -> Iterator[CompletionItem]:
    own = reading.project.name_of(reading.path)
    for path in manifest_files(reading.project, reading.path):
        name = reading.project.name_of(path) or ""
        if name.endswith(".j2") and name != own:
            yield completion(name if name.startswith(f"{SHARED}/") else name.partition("/")[2], CompletionItemKind.File)


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


_NAMED = re.compile(r"[\w./-]")


def completions(reading: Reading, line: int, column: int) -> Completions:
    """What can be written at a column of a line."""
    lines = reading.lines
    text = lines[line] if line < len(lines) else ""
    column = min(column, len(text))
    joined, offset = reading.at(line, column)
    if reading.path.suffix == ".j2" and (tag := tag_at(joined.text, offset)) is not None:
        return in_tag(joined, tag, offset, column)
    begin = column
    if text.lstrip().startswith("#"):
        return begin, []
    while begin and _NAMED.match(text[begin - 1]):
        begin -= 1
    place = yaml_place(lines, line, column)
    with_colon = text[column:].lstrip(" \"'").startswith(":")
    items = unique(in_yaml(reading, place, lines, line))
    if with_colon or place.in_value:
        for each in items:
            each.insert_text = each.insert_text if "=" in (each.insert_text or "") else None
    return begin, items
