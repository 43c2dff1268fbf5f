"""Finds every manifest that a folder can render and every lookup, from the text of its templates alone.

Promises:
- A manifest in any branch of a condition counts, even if no example renders it.
- The kinds of macros, includes, loops over constants and constant expressions are found. Each has its template line.
- The kinds that only a render can determine are not guessed: an UnknownPart names the template line.
- A kind and an apiVersion in different arms of one condition make no manifest.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from jinja2 import nodes
from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.objects.annotations import PREFIX
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.objects.template_contents import (
    PARENT_NAMESPACE,
    PossibleManifest,
    RoleReference,
    TemplateContents,
    UnknownPart,
)
from ssa_operator.rendering.folder.loaded_folders import Folder
from ssa_operator.rendering.jinja.expansion import Expansion, ExpansionError
from ssa_operator.rendering.jinja.possible_values import (
    Branch,
    Entries,
    Piece,
    PossibleItems,
    Texts,
    Value,
    only_text,
    options_of,
)
from ssa_operator.rendering.jinja.templates import Templates
from ssa_operator.rendering.values.line_marks import StaticText
from ssa_operator.rendering.yaml.documents import parse
from ssa_operator.rendering.yaml.nodes import DocumentError, SlotValues

_HOLE = "\ufffc"
"""Stands for a hole in the text of a line."""

_VARIANTS_LIMIT = 64
"""Variants of one line with inline conditions."""

_KEY = re.compile(r"""(?P<indent> *)(?P<item>- +)?["']?(?P<key>[A-Za-z][\w./-]*)["']?\s*:(?:\s+(?P<value>\S.*))?$""")
_FLOW = re.compile(r"""[{,]\s*["']?(\w+)["']?:\s*([^,}]+)""")
_COMMENT = re.compile(r"(?:^|\s)#.*")


_FieldOptions: TypeAlias = Callable[[tuple[str, ...]], frozenset[str] | None]

_known: WeakKeyDictionary[Templates, TemplateContents] = WeakKeyDictionary()
"""The contents of templates by their text alone."""


def template_contents(folder: Folder, field_options: _FieldOptions | None = None) -> TemplateContents:
    """What a folder can render, look up and read. `field_options` gives the values of a parent's field that its CRD
    lists; without them, the contents of the same templates are found once.

    A folder without loaded templates has no contents.
    """
    templates = folder.templates
    if templates is None:
        return TemplateContents()
    if field_options is not None:
        return _contents(templates, field_options)
    if templates not in _known:
        _known[templates] = _contents(templates, lambda _: None)
    return _known[templates]


def _contents(templates: Templates, field_options: _FieldOptions) -> TemplateContents:
    expansion = Expansion(templates, field_options)
    manifests: dict[PossibleManifest, None] = {}
    unknown: dict[UnknownPart, None] = {}
    for file in templates.manifest_files:
        expansion.generates = False
        lines = _lines(_pieces(expansion, file.name, unknown), expansion.conditions)
        for document in _documents(lines):
            for manifest in _Document(document, unknown).manifests():
                manifests[dataclasses.replace(manifest, generated_values=expansion.generates)] = None
    if templates.status is not None:
        _pieces(expansion, templates.status.name, unknown)
    return TemplateContents(
        manifests=tuple(manifests),
        lookups=tuple(expansion.lookups),
        fields=tuple(expansion.fields),
        unknown=tuple({**unknown, **expansion.unknown}),
        warns=expansion.warns,
    )


def _pieces(expansion: Expansion, file: str, unknown: dict[UnknownPart, None]) -> Sequence[Piece]:
    """The expanded text of a file; none, and an UnknownPart, if it is too large."""
    try:
        return expansion.expand(file)
    except ExpansionError as error:
        unknown[UnknownPart(str(error), SourceLocation(file, 1))] = None
        return ()


# Lines.


class _Line(Struct, frozen=True, kw_only=True):
    """A line of the expanded text, in one branch."""

    text: str
    """The text; each hole is one character."""
    holes: tuple[Piece, ...]
    location: SourceLocation
    branch: Branch

    @property
    def indent(self) -> int:
        return len(self.text) - len(self.text.lstrip(" "))

    @property
    def blank(self) -> bool:
        return not _COMMENT.sub("", self.text).strip()

    @property
    def with_known_values(self) -> _Line:
        """The line with the values of its holes that are one known text."""
        text, holes = "", []
        parts = self.text.split(_HOLE)
        for part, hole in zip(parts, self.holes, strict=False):
            known = only_text(hole.value)
            text += part + (_HOLE if known is None else known)
            holes += [hole] if known is None else []
        return replace(self, text=text + parts[-1], holes=tuple(holes))

    def written(self, value: str) -> str:
        """A value in this line with its expressions."""
        before = self.text[: self.text.find(value)].count(_HOLE)
        expressions = [repr(each.expression) for each in self.holes[before:]]
        return "".join(
            part + each for part, each in zip(value.strip(" '\"").split(_HOLE), [*expressions, ""], strict=False)
        )

    def options(self, value: str) -> tuple[frozenset[str], bool]:
        """The texts that a value in this line may be, and whether these are all."""
        value = _COMMENT.sub("", value).strip()
        if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
            value = value[1:-1]
        before = self.text[: self.text.find(value)].count(_HOLE) if _HOLE in value else 0
        options, complete = [""], True
        for at, part in enumerate(value.split(_HOLE)):
            if at:
                hole = self.holes[before + at - 1].value
                complete = complete and isinstance(hole, Texts) and hole.complete
                options = [one + other for one in options for other in options_of(hole)]
            options = [one + part for one in options]
        return frozenset(options), complete


def _lines(pieces: Sequence[Piece], conditions: Sequence[int]) -> Iterator[_Line]:
    """The lines of a text; one with inline conditions once for each variant."""
    line: list[Piece] = []
    for piece in pieces:
        if piece.value is not None:
            line.append(piece)
            continue
        *ended, rest = piece.text.split("\n")
        for text in ended:
            yield from _variants([*line, replace(piece, text=text)], conditions)
            line = []
        if rest:
            line.append(replace(piece, text=rest))
    yield from _variants(line, conditions)


def _variants(pieces: Sequence[Piece], conditions: Sequence[int]) -> Iterator[_Line]:
    solid = [piece for piece in pieces if piece.value is not None or piece.text.strip()]
    if not solid:
        return
    branches = {piece.branch for piece in solid}
    if len(branches) == 1:
        yield _line(pieces, solid[0].branch)
        return
    numbers = sorted({number for branch in branches for number, _ in branch})
    seen = set()
    for chosen in itertools.islice(itertools.product(*(range(conditions[each]) for each in numbers)), _VARIANTS_LIMIT):
        choice = dict(zip(numbers, chosen, strict=True))
        kept = [piece for piece in pieces if all(choice.get(number) == arm for number, arm in piece.branch)]
        present = [piece for piece in kept if piece.value is not None or piece.text.strip()]
        if not present:
            continue
        branch = tuple(dict.fromkeys(each for piece in present for each in piece.branch))
        line = _line(kept, branch)
        if (line.text, branch) not in seen:
            seen.add((line.text, branch))
            yield line


def _line(pieces: Sequence[Piece], branch: Branch) -> _Line:
    text = "".join(_HOLE if piece.value is not None else piece.text for piece in pieces)
    first = next(piece for piece in pieces if piece.value is not None or piece.text.strip())
    holes = tuple(piece for piece in pieces if piece.value is not None)
    return _Line(text=text, holes=holes, location=first.location, branch=branch)


def _documents(lines: Iterable[_Line]) -> Iterator[list[_Line]]:
    document: list[_Line] = []
    for line in lines:
        if re.match(r"---(\s|$)", line.text):
            yield document
            document = []
        elif not line.blank:
            document.append(line)
    yield document


# Documents.


class _FieldRead(Struct, frozen=True, kw_only=True):
    """A field of a document, in one branch."""

    key: str
    options: frozenset[str]
    """The texts that its value may be."""
    complete: bool
    """Whether these are all."""
    line: _Line
    block: tuple[_Line, ...]
    """The deeper lines after it."""

    @property
    def branch(self) -> Branch:
        return self.line.branch


class _Document:
    """One YAML document of the expanded text. Parts that only a render can determine are added to `unknown`."""

    def __init__(self, lines: Sequence[_Line], unknown: dict[UnknownPart, None]) -> None:
        lines = _without_braces(lines)
        self._lines = lines
        self._unknown = unknown
        self._fields = _fields(lines)

    def manifests(self) -> Iterator[PossibleManifest]:
        """The manifests that the document may be."""
        if not self._lines:
            return
        kinds, api_versions = self._values("kind"), self._values("apiVersion")
        if not kinds:
            yield from self._from_values()
            return
        for kind in kinds:
            if not kind.complete:
                self._report("this kind is computed", kind.line.location)
            matching = _matching(kind, api_versions)
            for api_version in matching:
                if not api_version.complete:
                    self._report("this apiVersion is computed", api_version.line.location)
                for name, version in itertools.product(sorted(kind.options), sorted(api_version.options)):
                    if (version, name) == ("v1", "List") or (name.endswith("List") and self._values("items")):
                        yield from self._items(kind.branch)
                    elif name and version:
                        branch = (*kind.branch, *api_version.branch)
                        yield self._manifest(GroupKind.of(version, name), kind, branch)

    def _from_values(self) -> Iterator[PossibleManifest]:
        """The manifests of a document without a kind in its text: `{{ {"kind": ...} | to_yaml }}`."""
        found = [
            each for line in self._lines for hole in line.holes for each in _manifests_in(hole.value, hole.location)
        ]
        if not found:
            self._report("this document has no kind in its text", self._lines[0].location)
        yield from found

    def _items(self, branch: Branch) -> Iterator[PossibleManifest]:
        """The manifests in a List."""
        for items in self._values("items"):
            if not _compatible(items.branch, branch):
                continue
            item: list[_Line] = []
            depth = items.block[0].indent if items.block else 0
            for line in (*items.block, None):
                starts = line is None or (line.indent == depth and line.text.lstrip().startswith("-"))
                if starts and item:
                    yield from _Document(item, self._unknown).manifests()
                    item = []
                if line is not None:
                    item.append(replace(line, text=line.text.replace("-", " ", 1)) if starts else line)
            if items.line.text.split(":", 1)[1].strip() not in ("[]", *([""] if items.block else [])):
                self._report("the items of this List are computed", items.line.location)

    def _manifest(self, group_kind: GroupKind, kind: _FieldRead, branch: Branch) -> PossibleManifest:
        lines = [line for line in self._lines if _compatible(line.branch, branch)]
        recreate = _annotation_values(lines, "recreate")
        prune = _annotation_values(lines, "prune")
        return PossibleManifest(
            group_kind=group_kind,
            location=kind.line.location,
            namespace=self._namespace(branch),
            finalize_hook=bool(_annotation_values(lines, "on")),
            recreated=bool(recreate) and recreate != ["Never"],
            pruned=prune != ["false"],
            role=self._role(branch),
            name=self._written_name("metadata", branch, group_kind.kind),
            role_name=self._written_name("roleRef", branch),
            rules=self._rules(branch),
        )

    def _namespace(self, branch: Branch) -> str | None:
        found: set[str | None] = set()
        for metadata in self._compatible("metadata", branch):
            for key, line, value in _parts(metadata):
                if key == "namespace" and _compatible(line.branch, branch):
                    options, complete = line.options(value)
                    found |= options if complete else {None}
        if not found:
            return PARENT_NAMESPACE
        return found.pop() if len(found) == 1 else None

    def _role(self, branch: Branch) -> RoleReference | None:
        for reference in self._compatible("roleRef", branch):
            parts = {key: line.options(value) for key, line, value in _parts(reference)}
            kind, name = (parts.get(key, (frozenset[str](), False)) for key in ("kind", "name"))
            if all(complete and len(options) == 1 for options, complete in (kind, name)):
                return RoleReference(next(iter(kind[0])), next(iter(name[0])))
        return None

    def _written_name(self, key: str, branch: Branch, kind: str = "") -> str:
        """The kind and the name in a mapping as the template writes them, '' if they are not written once."""
        found = set()
        for mapping in self._compatible(key, branch):
            parts = {part: (line, value) for part, line, value in _parts(mapping)}
            own = parts.get("kind", (mapping.line, kind))[1].strip()
            found.add(f"{own}/{parts['name'][0].written(parts['name'][1])}" if "name" in parts and own else "")
        return found.pop() if len(found) == 1 else ""

    def _rules(self, branch: Branch) -> tuple[Mapping[str, Any], ...] | None:
        """The rules of a role, if no part of them is computed or conditional."""
        found: list[Mapping[str, Any]] = []
        if self._compatible("aggregationRule", branch):
            return None
        for rules in self._compatible("rules", branch):
            lines = (rules.line, *rules.block)
            if any(line.holes or line.branch != rules.branch for line in lines):
                return None
            try:
                (node,) = parse(StaticText("\n".join(line.text for line in lines), rules.line.location.file))
                body = node.build(SlotValues())
            except (DocumentError, ValueError):
                return None
            given = body.get("rules") if isinstance(body, dict) else None
            if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
                return None
            found += given
        return tuple(found)

    def _values(self, key: str) -> list[_FieldRead]:
        return [each for each in self._fields if each.key == key]

    def _compatible(self, key: str, branch: Branch) -> list[_FieldRead]:
        return [each for each in self._values(key) if _compatible(each.branch, branch)]

    def _report(self, message: str, location: SourceLocation) -> None:
        self._unknown[UnknownPart(message, location)] = None


def _without_braces(lines: Sequence[_Line]) -> Sequence[_Line]:
    """The lines of a mapping in JSON, as those of YAML: without its braces and the commas at their ends."""
    if len(lines) < 3 or (lines[0].text.strip(), lines[-1].text.strip()) != ("{", "}"):
        return lines
    return [replace(line, text=line.text.rstrip().removesuffix(",")) for line in lines[1:-1]]


def _fields(lines: Sequence[_Line]) -> list[_FieldRead]:
    """The fields of the outermost mapping in these lines."""
    if not lines:
        return []
    depth = min(line.indent for line in lines)
    found: list[_FieldRead] = []
    for at, line in enumerate(lines):
        key = _KEY.match(line.text.rstrip()) if line.indent == depth else None
        if key is None or key["item"]:
            continue
        block = tuple(
            itertools.takewhile(lambda each: each.indent > depth or each.text[depth:].startswith("- "), lines[at + 1 :])
        )
        options, complete = line.options(key["value"] or "")
        found.append(_FieldRead(key=key["key"], options=options, complete=complete, line=line, block=block))
    return found


def _parts(mapping: _FieldRead) -> Iterator[tuple[str, _Line, str]]:
    """The fields of a mapping, in its block or between braces, each with the line and the text of its value."""
    for each in _fields(mapping.block):
        yield each.key, each.line, each.line.text.partition(":")[2]
    for key, value in _FLOW.findall(mapping.line.text):
        yield key, mapping.line, value


def _compatible(one: Branch, other: Branch) -> bool:
    """Whether two pieces of text can be in the same render."""
    arms = dict(one)
    return all(arms.get(number, arm) == arm for number, arm in other)


def _matching(kind: _FieldRead, api_versions: Sequence[_FieldRead]) -> list[_FieldRead]:
    """The apiVersions of a kind: those of its own branch, otherwise all that can be in the same render."""
    own = [each for each in api_versions if each.branch == kind.branch]
    return own or [each for each in api_versions if _compatible(each.branch, kind.branch)]


def _annotation_values(lines: Iterable[_Line], name: str) -> list[str]:
    """The values of an instruction, '' for one that only a render knows."""
    entry = re.compile(rf"""["']?{re.escape(PREFIX + name)}["']?\s*:\s*(?P<value>[^,}}#]*)""")
    found: set[str] = set()
    for line in lines:
        text = line.with_known_values
        # The line may have several mappings: `metadata: {name: a, annotations: {...}}`.
        for match in entry.finditer(_COMMENT.sub("", text.text)):
            options, complete = text.options(match["value"])
            found |= options if complete else {*options, ""}
        if any(_mentions(hole, f"{PREFIX}{name}") for hole in line.holes):
            found.add("")
    return sorted(found)


def _mentions(hole: Piece, key: str) -> bool:
    """Whether a value may be a mapping with this key, or is computed from one."""
    constants = hole.expression.find_all(nodes.Const) if hole.expression is not None else ()
    return any(each.value == key for each in constants) or _has_key(hole.value, key)


def _has_key(value: Value | None, key: str) -> bool:
    if isinstance(value, PossibleItems):
        return any(_has_key(each, key) for each in value.values)
    return isinstance(value, Entries) and any(name == key or _has_key(below, key) for name, below in value.values)


def _manifests_in(value: Value | None, location: SourceLocation) -> Iterator[PossibleManifest]:
    if isinstance(value, PossibleItems):
        for each in value.values:
            yield from _manifests_in(each, location)
    if not isinstance(value, Entries):
        return
    kind, api_version = value.get("kind"), value.get("apiVersion")
    if not (isinstance(kind, Texts) and isinstance(api_version, Texts) and kind.complete and api_version.complete):
        return
    metadata = value.get("metadata")
    namespace = dict(metadata.values).get("namespace") if isinstance(metadata, Entries) else None
    for name, version in itertools.product(options_of(kind), options_of(api_version)):
        if (version, name) == ("v1", "List") or (name.endswith("List") and value.get("items") is not None):
            yield from _manifests_in(value.get("items"), location)
            continue
        yield PossibleManifest(
            group_kind=GroupKind.of(version, name),
            location=location,
            namespace=PARENT_NAMESPACE if namespace is None else only_text(namespace),
            finalize_hook=True,
            recreated=True,
        )
