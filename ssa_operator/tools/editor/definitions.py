"""Where a name is defined, where a field of the spec is read, and the outline of a file.

Promises:
- An include or import leads to its file, and a macro, a variable or a parameter to the tag that binds it.
- A field of the parent leads to its line in the CRD or in `_schema.yaml`; without a line of its own, to the nearest
  field around it.
- `child`, `live` and the annotation `after` lead to the manifest of that kind and name, or to all of that kind if none
  has that name in its text. A setting of `values` leads to `_values.yaml`.
- The references of a field are the template lines that read it, those of macros and loops included.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from lsprotocol.types import DocumentSymbol, Position, Range, SymbolKind

from ssa_operator.objects.annotations import PREFIX
from ssa_operator.objects.json_schema import all_schemas
from ssa_operator.objects.render_result import Document
from ssa_operator.objects.source_location import FieldPath
from ssa_operator.rendering.jinja.templates import VALUES
from ssa_operator.rendering.possible_manifests import template_contents
from ssa_operator.tools.editor.edited_project import value_of
from ssa_operator.tools.editor.expression_types import Reading, included_path, manifest_files, string_of
from ssa_operator.tools.editor.places import (
    ITEM,
    UTF_16,
    Chain,
    ManifestText,
    Span,
    Tag,
    Target,
    bindings,
    chain_before,
    leading_chain,
    lines_of,
    manifest_at,
    manifests,
    open_string,
    tag_at,
    units,
    whole_line,
    word_around,
    yaml_place,
)
from ssa_operator.tools.offline.project import read_version

_DEPTH = 8
_WORD_CHARACTERS = re.compile(r"[\w]+")


def definition(reading: Reading, line: int, column: int) -> list[Target]:
    """Where the name at a column of a line is defined."""
    lines = reading.lines
    reading, offset = reading.at(line, column)
    text = reading.text
    tag = tag_at(text, offset) if reading.path.suffix == ".j2" else None
    if tag is None:
        return [*_key_targets(reading, lines, line, column)]
    if tag.opening == "{#":
        return []
    string = open_string(text, tag, offset)
    if string is not None:
        if string.function in ("include", "import", "from", "extends"):
            end = next((at for at in range(string.begin, tag.end) if text[at] in "'\"\n"), tag.end)
            path = included_path(reading, text[string.begin : end])
            return [] if path is None else [Target(path, Span(0, 0, 0))]
        if string.function in ("child", "live"):
            return [*_child_targets(reading, _arguments(text, tag, string.begin))]
        return []
    begin, end = word_around(text, offset)
    if begin == end:
        return []
    chain = chain_before(text, end, tag.begin)
    return [*_chain_targets(chain, reading.before(offset), text[end : tag.end])]


def _arguments(text: str, tag: Tag, begin: int) -> str:
    """The arguments of the call in which an offset is."""
    opening = text.rfind("(", tag.begin, begin)
    closing = text.find(")", begin, tag.end)
    return text[opening + 1 : closing if closing >= 0 else tag.end]


def _chain_targets(chain: Chain, reading: Reading, after: str, depth: int = 0) -> Iterator[Target]:
    if not chain or depth > _DEPTH:
        return
    first = chain[0].text
    bound = reading.scope.get(first)
    if bound is not None and len(chain) == 1 and bound.kind != "import":
        yield Target(reading.path, _span(reading.text, bound.offset, len(first)))
    elif bound is not None and bound.kind == "import":
        path = included_path(reading, bound.expression)
        if path is not None:
            yield _macro_in(path, reading, bound.member or (chain[1].text if len(chain) > 1 else ""))
    elif bound is not None:
        inner = leading_chain(bound.expression)
        yield from _chain_targets((*inner, *chain[1:]), reading, after, depth + 1)
    elif first in ("child", "live"):
        arguments = (
            chain[1].text if len(chain) > 1 and chain[1].kind == "call" else after.partition(")")[0].lstrip(" (")
        )
        yield from _child_targets(reading, arguments)
    else:
        names = [each.text for each in chain if each.kind == "name"]
        names = names[1:] if first == "object" else names
        if names and names[0] == "values":
            yield from _value_target(reading, names[1:])
        elif names and names[0] in ("spec", "status", "metadata"):
            yield from _field_target(reading, names)


def _span(text: str, offset: int, length: int) -> Span:
    column = offset - (text.rfind("\n", 0, offset) + 1)
    return Span(text.count("\n", 0, offset), column, column + length)


def _macro_in(path: Path, reading: Reading, name: str) -> Target:
    text = "\n".join(lines_of(reading.project.text(path)))
    bound = bindings(text).get(name)
    return Target(path, Span(0, 0, 0) if bound is None else _span(text, bound.offset, len(name)))


def _value_target(reading: Reading, names: Sequence[str]) -> Iterator[Target]:
    folder = reading.project.folder_of(reading.path)
    if folder is None:
        return
    path = folder.root / folder.name / VALUES
    lines = lines_of(reading.project.text(path))
    for number, line in enumerate(lines):
        place = yaml_place(lines, number, 0)
        if names and [*place.path, place.key] == list(names):
            yield Target(path, place.key_span)
            return
        if not names and line.strip():
            yield Target(path, Span(0, 0, 0))
            return


# Fields of the parent.


def _definition_of(reading: Reading) -> tuple[Document, int] | None:
    """The CRD of the parents of a file's folder, and the position of the version that is read."""
    folder = reading.project.folder_of(reading.path)
    kind = reading.project.kind_of(folder)
    if folder is None or kind is None:
        return None
    version = read_version(folder, kind.definition)
    versions = kind.definition["spec"].get("versions", ())
    position = next((at for at, each in enumerate(versions) if each.get("name") == version), None)
    name = value_of(kind.definition, "metadata", "name")
    found = next(
        (each for each in reading.project.definitions if value_of(each.body, "metadata", "name") == name), None
    )
    return None if position is None or found is None else (found, position)


def _name_of(definition: Document) -> str:
    return str(value_of(definition.body, "metadata", "name"))


def _field_target(reading: Reading, names: Sequence[str]) -> Iterator[Target]:
    found = _definition_of(reading)
    if found is not None:
        yield from _declaration(reading, *found, names)


def _declaration(reading: Reading, document: Document, position: int, names: Sequence[str]) -> Iterator[Target]:
    """Where a CRD declares a field of its objects in one of its versions."""
    location = document.location_of(field_place(document, position, names))
    file = Path(location.file)
    lines = lines_of(reading.project.text(file))
    number = location.line - 1
    if 0 <= number < len(lines):
        key = names[-1]
        at = next((each.start() for each in _WORD_CHARACTERS.finditer(lines[number]) if each[0] == key), None)
        yield Target(file, whole_line(lines[number], number) if at is None else Span(number, at, at + len(key)))


def field_place(document: Document, position: int, names: Sequence[str]) -> FieldPath:
    """The path in a CRD at which a field of its objects is declared, as deep as it is."""
    path: FieldPath = ("spec", "versions", position, "schema", "openAPIV3Schema")
    node = document.body["spec"]["versions"][position].get("schema", {}).get("openAPIV3Schema", {})
    for name in names:
        while isinstance(node, dict) and "items" in node and "properties" not in node:
            path, node = (*path, "items"), node["items"]
        if value_of(node, "properties", name) is not None:
            path, node = (*path, "properties", name), node["properties"][name]
        elif isinstance(value_of(node, "additionalProperties"), dict):
            path, node = (*path, "additionalProperties"), node["additionalProperties"]
        else:
            break
    return path


# Children.


def _child_targets(reading: Reading, arguments: str) -> Iterator[Target]:
    kind, _, name = arguments.partition(",")
    yield from _manifest_targets(reading, string_of(kind) or "", _plain(name))


def _manifest_targets(reading: Reading, kind: str, name: str) -> Iterator[Target]:
    found: list[tuple[Path, ManifestText, list[str]]] = []
    for path in manifest_files(reading.project, reading.path):
        lines = lines_of(reading.project.text(path))
        found += [(path, each, lines) for each in manifests(lines) if kind and each.kind == kind]
    named = [each for each in found if _plain(each[1].name) == name]
    for path, manifest, lines in named or found:
        yield Target(path, whole_line(lines[manifest.kind_line], manifest.kind_line))


_MARKS = re.compile(r"[\s{}()~'\"|]+")


def _plain(expression: str) -> str:
    """A name without the marks that differ between a tag and an expression: `{{ name }}-db`, `name ~ "-db"`."""
    return _MARKS.sub("", expression)


def _key_targets(reading: Reading, lines: Sequence[str], line: int, column: int) -> Iterator[Target]:
    """The manifests that the annotation `after` names at a place, or the declaration of the key there."""
    if line >= len(lines):
        return
    place = yaml_place(lines, line, column)
    if place.key == f"{PREFIX}after" and place.in_value:
        begin = place.value_column
        for each in lines[line][begin:].split(","):
            kind, slash, name = each.strip(" \"'").partition("/")
            if slash and begin <= column <= begin + len(each):
                yield from _manifest_targets(reading, kind, _plain(name))
            begin += len(each) + 1
    elif place.key and place.key_span.column <= column <= place.key_span.end:
        names = [*(each for each in place.path if each != ITEM), place.key]
        if reading.is_status:
            yield from _field_target(reading, ["status", *names])
        elif (manifest := manifest_at(lines, line)) is not None:
            yield from _declared_by_crd(reading, manifest, names)


def _declared_by_crd(reading: Reading, manifest: ManifestText, names: Sequence[str]) -> Iterator[Target]:
    """Where the CRD of a manifest's kind declares a field."""
    for document in reading.project.definitions:
        for position, version in enumerate(value_of(document.body, "spec", "versions") or ()):
            api_version = f"{value_of(document.body, 'spec', 'group')}/{value_of(version, 'name')}"
            kind = value_of(document.body, "spec", "names", "kind")
            if (api_version, kind) == (manifest.api_version, manifest.kind) and names[0] in ("spec", "status"):
                yield from _declaration(reading, document, position, names)


# References.


def references(reading: Reading, line: int, column: int, *, declared: bool = False) -> list[Target]:
    """The template lines that read the field of the parent at a column of a line, in a template, a CRD or a
    `_schema.yaml`; `declared` adds the line that declares it.
    """
    asked = reading
    reading, offset = reading.at(line, column)
    text = reading.text
    if reading.path.suffix == ".j2":
        tag = tag_at(text, offset)
        _, end = word_around(text, offset)
        chain = chain_before(text, end, tag.begin) if tag is not None else ()
        names = tuple(each.text for each in chain if each.kind == "name")
        names = names[1:] if names[:1] == ("object",) else names
        folder = reading.project.folder_of(reading.path)
        if folder is None or not names:
            return []
        return [*(definition(asked, line, column) if declared else ()), *_readers(reading, folder.name, names)]
    return [
        target
        for document in reading.project.definitions
        if Path(document.location.file) == reading.path
        for position, names in [_declared_at(document, line + 1)]
        if names
        for target in (
            *(_declaration(reading, document, position, names) if declared else ()),
            *_readers(reading, _name_of(document), names),
        )
    ]


def _declared_at(document: Document, number: int) -> tuple[int, tuple[str, ...]]:
    """The version and the field that a CRD declares at a line, () for none."""
    for position, version in enumerate(document.body["spec"].get("versions", ())):
        root = ("spec", "versions", position, "schema", "openAPIV3Schema")
        schema = value_of(version, "schema", "openAPIV3Schema") or {}
        for path, names, _ in all_schemas(schema, root) if isinstance(schema, dict) else ():
            if names and document.location_of(path).line == number:
                return position, tuple(str(each) for each in names if each != "*")
    return 0, ()


def _readers(reading: Reading, folder: str, names: tuple[str, ...]) -> Iterator[Target]:
    seen = set()
    found = reading.project.sources.folders.get(folder)
    for each in template_contents(found).fields if found is not None else ():
        path = reading.project.path_of(each.location.file)
        number = each.location.line - 1
        lines = lines_of(reading.project.text(path))
        if each.path != names or (path, number) in seen or not 0 <= number < len(lines):
            continue
        seen.add((path, number))
        written = ".".join(names)
        at = lines[number].find(written)
        yield Target(path, Span(number, at, at + len(written)) if at >= 0 else whole_line(lines[number], number))


def symbols(text: str, *, is_template: bool, encoding: str = UTF_16) -> list[DocumentSymbol]:
    """The manifests and the macros of a file, in the order of its lines."""
    lines = lines_of(text)

    def position(line: int, column: int | None = None) -> Position:
        return Position(line, units(lines[line][:column], encoding))

    def symbol(name: str, detail: str, kind: SymbolKind, begin: int, end: int, span: Span) -> DocumentSymbol:
        selected = Range(position(span.line, span.column), position(span.line, span.end))
        return DocumentSymbol(name, kind, Range(Position(begin, 0), position(end)), selected, detail=detail)

    found = []
    for each in manifests(lines):
        if each.kind:
            last = max(each.begin, min(each.end, len(lines)) - 1)
            span = whole_line(lines[each.kind_line], each.kind_line)
            title = f"{each.kind} {each.name}".strip()
            found.append(symbol(title, each.api_version, SymbolKind.Object, each.begin, last, span))
    joined = "\n".join(lines)
    for name, bound in bindings(joined).items() if is_template else ():
        if bound.kind == "macro":
            span = _span(joined, bound.offset, len(name))
            found.append(symbol(name, f"({bound.expression})", SymbolKind.Function, span.line, span.line, span))
    return sorted(found, key=lambda each: each.range.start.line)
