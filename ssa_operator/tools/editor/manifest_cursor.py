"""What a YAML text with template tags has at a place: the path of fields above it, by its indentation.

Promises:
- Lines that only steer the template, and comments, have no fields.
- A place in a flow mapping (`{name: x}`) has the fields of that mapping, if it begins on the same line.
- The text may be broken: only the lines above a place count, back to the beginning of its document.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ssa_operator.tools.editor.text_places import Span

ITEM = "[]"
"""The part of a path that stands for the items of a list."""

_KEY = r"""(?P<key>"[^"\n]*"|'[^'\n]*'|[^\s"'{}\[\],:#][^\s"',\[\]{}:]*)?"""
_LINE = re.compile(rf"(?P<indent> *)(?P<dashes>(?:- +|-$)*){_KEY}(?P<rest>.*)")
_FLOW = re.compile(
    r"""\{\{[^}\n]*+\}{0,2}|\{%[^%\n]*+%?\}?|\{\#[^#\n]*+\#?\}?|"[^"\n]*+"?|'[^'\n]*+'?|[{}\[\],]|:(?=\s|$)|[^\s{}\[\],:"']++|:"""
)
"""A tag, a scalar or a mark of a flow mapping or list."""
_ONLY_TAGS = re.compile(r"\s*(?:\{%[^%]*%\}\s*|\{#[^#]*#\}\s*)+$")
_DOCUMENT = re.compile(r"---(?:\s|$)")
_LINES_LIMIT = 20_000
"""The most lines above a place that are read."""


@dataclass(frozen=True, slots=True)
class YamlPlace:
    """A place in a document."""

    path: tuple[str, ...]
    """The fields and lists around it, outermost first."""
    key: str
    """The key of its line as far as it is written; '' for none."""
    key_span: Span
    in_value: bool
    """Whether it is after the colon of the key."""
    value: str = ""
    """The value of its line."""
    value_column: int = 0


def yaml_place(lines: Sequence[str], number: int, column: int) -> YamlPlace:
    """The place at a column of a line."""
    line = lines[number] if number < len(lines) else ""
    match = _LINE.match(line)
    assert match is not None  # every line matches
    key = (match["key"] or "").strip("\"'")
    begin = match.start("key") if match["key"] else match.end("dashes")
    end = match.end("key") if match["key"] else begin
    rest = match["rest"]
    is_key = rest.startswith(":") and (len(rest) == 1 or rest[1].isspace())
    in_value = is_key and column > end
    path = _path_above(lines, number, len(match["indent"]), match["dashes"], begin)
    around = (*path, key) if is_key else path
    if (flow := _flow_place(line, number, column, end + 1 if is_key else begin, around)) is not None:
        return flow
    value = rest[1:] if is_key else ""
    value_column = end + 1 + len(value) - len(value.lstrip()) if is_key else end
    return YamlPlace(
        path=path,
        key=key if is_key or not rest.strip() else "",
        key_span=Span(number, begin, end),
        in_value=in_value,
        value=value.strip(),
        value_column=value_column,
    )


@dataclass(slots=True)
class _Open:
    """A flow mapping or list that is open at a place."""

    is_list: bool
    key: str = ""
    key_begin: int = 0
    key_end: int = 0
    in_value: bool = False
    value: str = ""
    value_column: int = 0


def _flow_place(line: str, number: int, column: int, begin: int, path: tuple[str, ...]) -> YamlPlace | None:
    """The place in the flow mapping or list that begins a value, None outside of one. `path` leads to the value."""
    found: list[_Open] = []
    for match in _FLOW.finditer(line, begin):
        part, at = match[0], match.start()
        if at >= column or (not found and part not in ("{", "[")):
            break
        if part in ("{", "["):
            found.append(_Open(is_list=part == "[", key_begin=match.end(), key_end=match.end()))
        elif part in ("}", "]"):
            found.pop()
        elif part == ",":
            found[-1] = _Open(is_list=found[-1].is_list, key_begin=column, key_end=column)
        elif part == ":" and not found[-1].is_list:
            found[-1].in_value, found[-1].value_column = True, column
        elif found[-1].in_value:
            found[-1].value, found[-1].value_column = part, at
        else:
            found[-1].key, found[-1].key_begin, found[-1].key_end = part.strip("\"'"), at, match.end()
    if not found:
        return None
    *outer, last = found
    inner = tuple(ITEM if each.is_list else each.key for each in outer)
    return YamlPlace(
        path=(*path, *inner, *((ITEM,) if last.is_list else ())),
        key="" if last.is_list else last.key,
        key_span=Span(number, last.key_begin, last.key_end),
        in_value=last.in_value or last.is_list,
        value=last.value,
        value_column=last.value_column,
    )


def _path_above(lines: Sequence[str], number: int, indent: int, dashes: str, begin: int) -> tuple[str, ...]:
    path: list[str] = []
    limit, in_list = begin, False
    for dash in reversed([indent + at for at, each in enumerate(dashes) if each == "-"]):
        path.append(ITEM)
        limit, in_list = dash, True
    for at in range(number - 1, max(-1, number - 1 - _LINES_LIMIT), -1):
        line = lines[at]
        if _DOCUMENT.match(line) or (limit == 0 and not in_list):
            break
        match = None if not line.strip() or _ONLY_TAGS.match(line) else _LINE.match(line)
        if match is None or not match["key"] or not match["rest"].startswith(":"):
            continue
        column, own = match.start("key"), match["dashes"]
        own_dashes = [len(match["indent"]) + place for place, each in enumerate(own) if each == "-"]
        if column < limit or (in_list and column == limit and not own):
            path.append(match["key"].strip("\"'"))
        elif not (column == limit and own and not in_list):
            continue
        limit, in_list = column, False
        for dash in reversed(own_dashes):
            path.append(ITEM)
            limit, in_list = dash, True
    return tuple(reversed(path))


@dataclass(frozen=True, slots=True)
class ManifestText:
    """The text of one manifest in a file, as far as its lines show it."""

    begin: int
    """Its first line."""
    end: int
    """The line after its last one."""
    api_version: str = ""
    kind: str = ""
    name: str = ""
    """As the template writes it, with its tags."""
    kind_line: int = 0
    name_line: int = 0


_FIELD = re.compile(r"(?P<key>apiVersion|kind|metadata):(?P<value>.*)")
_NAME = re.compile(r"\s+name:(?P<value>.*)")
_FLOW_NAME = re.compile(r"\bname:(?P<value>[^,}]*+(?:\}\}[^,}]*+)?)")


def manifests(lines: Sequence[str]) -> Iterator[ManifestText]:
    """The manifests of a file."""
    begin = 0
    for number in [*(at for at, line in enumerate(lines) if _DOCUMENT.match(line)), len(lines)]:
        if any(line.strip() for line in lines[begin:number]):
            yield _manifest(lines, begin, number)
        begin = number + 1


def _manifest(lines: Sequence[str], begin: int, end: int) -> ManifestText:
    found: dict[str, tuple[str, int]] = {}
    in_metadata = False
    for number in range(begin, end):
        line = lines[number]
        if (field := _FIELD.match(line)) is not None:
            found.setdefault(field["key"], (_scalar(field["value"]), number))
            in_metadata = field["key"] == "metadata"
            if in_metadata and (flow := _FLOW_NAME.search(field["value"])):
                name_text = flow["value"] if "{{" in flow["value"] else flow["value"].partition("}")[0]
                found.setdefault("name", (_scalar(name_text), number))
        elif line[:1].strip() and not line.startswith(("{", "#")):
            in_metadata = False
        elif in_metadata and (name := _NAME.match(line)):
            found.setdefault("name", (_scalar(name["value"]), number))
    return ManifestText(
        begin=begin,
        end=end,
        api_version=found.get("apiVersion", ("", 0))[0],
        kind=found.get("kind", ("", 0))[0],
        name=found.get("name", ("", 0))[0],
        kind_line=found.get("kind", ("", begin))[1],
        name_line=found.get("name", ("", begin))[1],
    )


def _scalar(text: str) -> str:
    return text.strip().strip("\"'")


def manifest_at(lines: Sequence[str], number: int) -> ManifestText | None:
    """The manifest in which a line is."""
    return next((each for each in manifests(lines) if each.begin <= number <= each.end), None)
