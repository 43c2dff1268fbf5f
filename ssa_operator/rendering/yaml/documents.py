"""Parses YAML text to nodes with libyaml's events; each node has its source location.

Promises:
- Plain scalars of templates follow YAML 1.2's core schema: `on`, `yes`, `010`, `1:30`, `1_000` and dates are strings.
  Those of files for kubectl follow kubectl, as Helm and the API server do (`goyaml.v2/resolve.go` of
  `sigs.k8s.io/yaml`): `yes`, `on`, `y` and their opposites are booleans; `0644` is octal, `0b101` binary, `1_000` a
  number; an integer beyond 64 bits is a float; dates and `1:30` are texts.
- A value can't change the structure: the parser sees a placeholder, and the value fills it afterwards.
- YAML that two parsers could read differently is an error with its line: duplicate keys, keys that aren't strings,
  tags, NaN, numbers beyond 64 bits, aliases that multiply. A number is an error of its document alone.
- Parsing checks the time of the render, so that a caller can interrupt it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.rendering.values import limits
from ssa_operator.rendering.values.limits import DEPTH_LIMIT
from ssa_operator.rendering.values.line_marks import RESERVED, MarkedText, StaticText
from ssa_operator.rendering.values.manifest_values import INTEGERS
from ssa_operator.rendering.values.template_text import PLACEHOLDER
from ssa_operator.rendering.yaml.nodes import (
    Constant,
    DocumentError,
    Faulty,
    Fields,
    Items,
    Mixed,
    Node,
    Slot,
    SlotValues,
)

try:
    from yaml.cyaml import CParser  # type: ignore[attr-defined]
except ImportError as error:  # pragma: no cover - depends on how PyYAML was built
    raise ImportError(
        "PyYAML was built without libyaml; install a wheel of PyYAML, or build it with libyaml"
    ) from error

NODES_LIMIT = 200_000
"""Nodes of one document, and of all that aliases repeat in its file: the largest manifest has fewer."""

CHARACTERS_LIMIT = 8 * 2**20
"""Characters of all scalars of one file with its aliases expanded, if it has any."""

_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)", re.ASCII)
_OCTAL = re.compile(r"0o[0-7]+", re.ASCII)
_HEX = re.compile(r"0x[0-9a-fA-F]+", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+", re.ASCII)
_NOT_A_NUMBER = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", re.ASCII)
_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_CONTENT = re.compile(r"\S")
_CORE_TAG = "tag:yaml.org,2002:"


_MERGE = f"{_CORE_TAG}merge"
_NODES_BETWEEN_CHECKS = 256


def parse(source: MarkedText | StaticText, *, for_kubectl: bool = False) -> tuple[Node, ...]:
    """The documents of a text without empty ones; rendered text (MarkedText) may contain placeholders of values.
    `for_kubectl` reads plain scalars and keys as kubectl does.

    Raises DocumentError if the text is not YAML that manifests may have.
    """
    return tuple(_YamlParser(source, for_kubectl).documents())


def parse_mapping(name: str, text: str, fault: str) -> tuple[dict[str, Any], Node | None]:
    """The mapping that a static file holds, and its node; an empty one and None without a document. `fault` is the
    message about any other value. Raises DocumentError.
    """
    nodes = parse(StaticText(text, name))
    if not nodes:
        return {}, None
    if len(nodes) > 1:
        raise DocumentError("there may be only one document", nodes[1].location)
    found: Any = nodes[0].build(SlotValues())
    if not isinstance(found, dict):
        raise DocumentError(fault, nodes[0].location)
    return found, nodes[0]


class _YamlParser:
    """Builds nodes from libyaml's events."""

    def __init__(self, source: MarkedText | StaticText, for_kubectl: bool) -> None:
        self._source = source
        self._for_kubectl = for_kubectl
        self._has_placeholders = isinstance(source, MarkedText)
        self._anchors: dict[str, tuple[Node, int, int] | None] = {}
        self._count = 0
        self._start = 0
        """The count at which the nodes of the document begin. Those that aliases repeat count for the whole file."""
        self._characters = 0
        self._repeated = 0
        self._parser = CParser(source.text)

    def documents(self) -> Iterator[Node]:
        try:
            while True:
                event = self._parser.get_event()
                if event is None or isinstance(event, yaml.StreamEndEvent):
                    return
                if isinstance(event, yaml.DocumentStartEvent):
                    self._anchors.clear()
                    self._start = self._count - self._repeated
                    node = self._node(self._parser.get_event(), 0)
                    if not (isinstance(node, Constant) and node.value is None):
                        yield node
        except yaml.MarkedYAMLError as error:
            raise self._document_error(error) from None
        except yaml.reader.ReaderError as error:
            # libyaml counts bytes here.
            offset = len(self._source.text.encode()[: error.position].decode(errors="ignore"))
            raise DocumentError(
                f"the character U+{error.character:04X} is not allowed in YAML; write it in double quotes as an escape",
                self._source(offset),
            ) from None
        finally:
            self._parser.dispose()

    def _document_error(self, error: yaml.MarkedYAMLError) -> DocumentError:
        mark = error.problem_mark or error.context_mark
        location = self._source(mark.index if mark else 0)
        message = error.problem or "this is no YAML"
        if mark is not None and message.startswith("found character that cannot start"):
            character = self._source.text[mark.index : mark.index + 1]
            tab = character == "\t"
            message = message.replace("character", "a tab character" if tab else f"the character {character}", 1)
        if error.context:
            began = self._source(error.context_mark.index) if error.context_mark else location
            message += f" ({error.context})" if began == location else f" ({error.context} that begins at {began})"
        return DocumentError(message, location)

    def _location(self, event: Any) -> SourceLocation:
        return self._source(event.start_mark.index)

    def _node(self, event: Any, depth: int) -> Node:
        location = self._location(event)
        self._count += 1
        if self._count - self._start > NODES_LIMIT:
            aliases = " with its aliases expanded" if self._repeated else ""
            raise DocumentError(f"the document has more than {NODES_LIMIT} nodes{aliases}", location)
        if self._count % _NODES_BETWEEN_CHECKS == 0:
            limits.current().check_time()
        if depth > DEPTH_LIMIT:
            raise DocumentError(f"the file is nested deeper than {DEPTH_LIMIT} levels", location)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(str(event.anchor), location)
        before = self._count, self._characters
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        if isinstance(event, yaml.ScalarEvent):
            node = self._scalar(event, location)
        else:
            kind = "map" if isinstance(event, yaml.MappingStartEvent) else "seq"
            if event.tag not in (None, "!", _CORE_TAG + kind):
                raise DocumentError(f"the tag {_tag(event.tag)} is not supported", location)
            node = self._fields(location, depth) if kind == "map" else self._items(location, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = (node, self._count - before[0] + 1, self._characters - before[1])
        return node

    def _alias(self, anchor: str, location: SourceLocation) -> Node:
        if anchor not in self._anchors:
            raise DocumentError(f"the alias *{anchor} has no anchor in this document", location)
        known = self._anchors[anchor]
        if known is None:
            raise DocumentError(f"the alias *{anchor} is within its own anchor", location)
        node, size, characters = known
        self._count += size
        self._repeated += size
        self._characters += characters
        if self._characters > CHARACTERS_LIMIT:
            raise DocumentError(
                f"the file has more than {CHARACTERS_LIMIT // 2**20} MiB of text with its aliases expanded", location
            )
        return node

    def _items(self, location: SourceLocation, depth: int) -> Items:
        nodes = []
        while not isinstance(event := self._parser.get_event(), yaml.SequenceEndEvent):
            nodes.append(self._node(event, depth + 1))
        return Items(location, tuple(nodes))

    def _fields(self, location: SourceLocation, depth: int) -> Fields:
        entries: list[tuple[str | Slot | Mixed, Node, SourceLocation]] = []
        merged: list[Node] = []
        seen: dict[str, SourceLocation] = {}
        while not isinstance(event := self._parser.get_event(), yaml.MappingEndEvent):
            at = self._location(event)
            is_merge = _is_merge(event)
            key = "<<" if is_merge else self._name(self._node(event, depth + 1), event, at)
            value = self._node(self._parser.get_event(), depth + 1)
            if is_merge:
                merged.extend(value.nodes if isinstance(value, Items) else (value,))
                continue
            if isinstance(key, str):
                if key in seen:
                    raise DocumentError(f"the key {key} is there twice, first at {seen[key]}", at)
                seen[key] = at
            entries.append((key, value, at))
        return Fields(location, tuple(entries), tuple(merged))

    def _name(self, node: Node, event: Any, location: SourceLocation) -> str | Slot | Mixed:
        if isinstance(node, (Slot, Mixed)):
            return node
        if isinstance(node, Constant) and isinstance(node.value, str):
            return node.value
        if self._for_kubectl and isinstance(node, Constant) and node.value is not None:
            return json.dumps(node.value)
        if isinstance(node, Constant) and isinstance(event, yaml.ScalarEvent):
            raise DocumentError(f'the key {event.value or "null"} is not a string; write "{event.value}"', location)
        raise DocumentError("a key must be a string", location)

    def _scalar(self, event: Any, location: SourceLocation) -> Node:
        tag, text = event.tag, event.value
        self._characters += len(text)
        plain = event.implicit[0] and tag is None
        if event.style in ("|", ">") and isinstance(self._source, MarkedText):
            self._check_end(event, self._source)
        if tag is not None and tag not in ("!", _CORE_TAG + "str"):
            raise DocumentError(f"the tag {_tag(tag)} is not supported", location)
        if not text.isascii() and RESERVED.search(text) and self._has_placeholders:
            return self._with_values(event, location, plain)
        if not plain:
            return Constant(location, text)
        try:
            return Constant(location, self._plain(text, location))
        except DocumentError as error:
            if not self._has_placeholders:
                raise
            return Faulty(location, str(error))  # the other documents of a template are rendered

    def _plain(self, text: str, location: SourceLocation) -> Any:
        if self._for_kubectl and (found := kubectl_scalar(text)) is not SAME:
            return found
        return _plain(text, location)

    def _with_values(self, event: Any, location: SourceLocation, plain: bool) -> Node:
        written = self._source.text[event.start_mark.index : event.end_mark.index]
        if len(PLACEHOLDER.findall(written)) != len(RESERVED.findall(event.value)) / 2:
            # An escape in double quotes produced one of the characters that enclose placeholders.
            raise DocumentError("the characters U+E000 to U+E006 are reserved; put them in as a value", location)
        pieces = [int(piece) if at % 2 else piece for at, piece in enumerate(PLACEHOLDER.split(event.value))]
        parts = tuple(piece for piece in pieces if piece != "")
        if any(isinstance(part, str) and RESERVED.search(part) for part in parts):
            raise DocumentError("internal error: the placeholder of a value was split; please report it", location)
        if plain and len(parts) == 1:
            return Slot(location, int(parts[0]))
        return Mixed(location, parts, self._block_indent(event) if event.style in ("|", ">") else 0)

    def _check_end(self, event: Any, source: MarkedText) -> None:
        """Raise DocumentError if a block scalar ends within the lines that `to_yaml` wrote."""
        start, end = event.start_mark.index, event.end_mark.index
        last = start + len(source.text[start:end].rstrip()) - 1
        rest = _CONTENT.search(source.text, end)
        if rest is not None and source.has_one_mark(last, rest.start()):
            words = f"the lines of to_yaml leave the block scalar; write to_yaml | indent({self._block_indent(event)})"
            raise DocumentError(words, source(last))

    def _block_indent(self, event: Any) -> int:
        """The spaces before the lines of a block scalar."""
        first = next((line for line in event.value.split("\n") if line.strip()), "")
        for line in self._source.text[event.start_mark.index : event.end_mark.index].split("\n")[1:]:
            if line.strip():
                return len(line) - len(line.lstrip(" ")) - (len(first) - len(first.lstrip(" ")))
        return 0


def _plain(text: str, location: SourceLocation) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return _integer(text, 10, location)
    if _FLOAT.fullmatch(text) and not _LEADING_ZERO.fullmatch(text):
        number = float(text)
        if not math.isfinite(number):
            raise DocumentError(f"the number {text} is too large", location)
        return number
    if _OCTAL.fullmatch(text):
        return _integer(text, 8, location)
    if _HEX.fullmatch(text):
        return _integer(text, 16, location)
    if _NOT_A_NUMBER.fullmatch(text):
        raise DocumentError(f"{text} does not exist in JSON; for the text, write it in quotes", location)
    return text


def _integer(text: str, base: int, location: SourceLocation) -> int:
    if len(text) > len(str(2**64)) + 3 or (number := int(text, base)) not in INTEGERS:
        raise DocumentError("the number does not fit into 64 bits; for the text, write it in quotes", location)
    return number


def _is_merge(event: Any) -> bool:
    """Whether a key puts the fields of other mappings into its own: `<<`, or as some write it, `!!merge <<`."""
    if not isinstance(event, yaml.ScalarEvent) or event.value != "<<":
        return False
    return event.tag == _MERGE or (event.tag is None and bool(event.implicit[0]))


def _tag(tag: str) -> str:
    return tag.replace(_CORE_TAG, "!!")


SAME: Final = object()
"""Stands for a scalar that YAML 1.2 reads as kubectl does."""

_KUBECTL_WORDS = {
    **{form: True for word in ("y", "yes", "on") for form in (word, word.capitalize(), word.upper())},
    **{form: False for word in ("n", "no", "off") for form in (word, word.capitalize(), word.upper())},
}
_CANDIDATE = re.compile(r"[-+]?(?:0[0-9bBoOxX_].*|[0-9]+_.*|[0-9]{19,})", re.ASCII)
_KUBECTL_INT = re.compile(r"([-+]?)(0[xX]|0[oO]|0[bB]|0(?=[0-7])|)([0-9a-fA-F]+)", re.ASCII)
_BASES = {"0x": 16, "0o": 8, "0b": 2, "0": 8, "": 10}
_SIGNED_END, _UNSIGNED_END = 2**63, 2**64


def kubectl_scalar(text: str) -> Any:
    """The value of a plain scalar, SAME if YAML 1.2's core schema gives it, too."""
    if text in _KUBECTL_WORDS:
        return _KUBECTL_WORDS[text]
    if not _CANDIDATE.fullmatch(text):
        return SAME
    plain = text.replace("_", "")
    found = _KUBECTL_INT.fullmatch(plain)
    if found is not None:
        try:
            number = int(found[1] + found[3], _BASES[found[2].lower()])
        except ValueError:
            pass
        else:
            if number in INTEGERS:
                return number
            if not found[1] and number < _UNSIGNED_END:
                return float(number)
    if not _FLOAT.fullmatch(plain):
        return SAME
    value = float(plain)
    if value in (float("inf"), float("-inf")):
        return SAME
    return int(value) if value.is_integer() and abs(value) < _SIGNED_END else value
