"""Places in a text: lines and columns, positions of the Language Server Protocol, and what is around a place: the
fields of a YAML text, the tag of a template, a name or path, and what the template's variables are.

Promises:
- A line and a column count characters from 0. A position counts the units of the encoding that the client and the
  server agreed on: UTF-16 by default. A place outside of the text is moved to its nearest end, and one within a
  character to its beginning. A line ends as the protocol says.
- Lines that only steer the template, and comments, have no fields. A place in a flow mapping (`{name: x}`) has the
  fields of that mapping, if it begins on the same line.
- The text may be broken: only the lines above a place count, an open tag ends where the next one begins, and a
  quotation mark without its pair opens no string that hides the rest.
- A text is read a fixed number of times, however long it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

UTF_8, UTF_16, UTF_32 = "utf-8", "utf-16", "utf-32"

_CODECS = {UTF_8: ("utf-8", 1), UTF_16: ("utf-16-le", 2), UTF_32: ("utf-32-le", 4)}

_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Span:
    """A part of one line."""

    line: int
    column: int
    end: int
    """The column after its last character."""


@dataclass(frozen=True, slots=True)
class Target:
    """A part of a file, to which an editor goes."""

    path: Path
    span: Span


def lines_of(text: str) -> list[str]:
    """The lines of a text, without their ends."""
    return _LINE_END.split(text)


def units(text: str, encoding: str = UTF_16) -> int:
    """The length of a text in the units of an encoding."""
    codec, size = _CODECS[encoding]
    return len(text) if text.isascii() else len(text.encode(codec, "surrogatepass")) // size


def column_of(line: str, character: int, encoding: str = UTF_16) -> int:
    """The column of a position's character in a line."""
    if character <= 0:
        return 0
    if line.isascii():
        return min(character, len(line))
    left = character
    for column, each in enumerate(line):
        left -= units(each, encoding)
        if left < 0:
            return column
    return len(line)


def whole_line(line: str, number: int) -> Span:
    """A line without its indentation."""
    text = line.strip()
    begin = line.index(text) if text else 0
    return Span(number, begin, begin + len(text))


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


_TAG = re.compile(r"\{\{|\{%|\{#")
_IN_COMMENT = re.compile(r"#\}")
_MARK = r"""\}\}|%\}|\{\{(?!["'}])|\{%|\{#"""
_IN_STRING = re.compile(_MARK)
_STRINGS = r"""'(?:[^'\\\n]++|\\.)*+'?+|"(?:[^"\\\n]++|\\.)*+"?+"""
"""A string, or a quotation mark without its pair with the rest of its line."""
_IN_TAG = re.compile(f"{_STRINGS}|{_MARK}")
_CLOSING = {"{{": "}}", "{%": "%}", "{#": "#}"}


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag of a template. Its content is between `begin` and `end`."""

    opening: str
    """`{{`, `{%` or `{#`."""
    begin: int
    end: int


def tags(text: str) -> Iterator[Tag]:
    """All tags of a template."""
    at = 0
    while found := _TAG.search(text, at):
        begin, opening = found.end(), found[0]
        end, at = len(text), len(text)
        for start, mark in _marks(text, begin, opening):
            if mark == _CLOSING[opening]:
                end, at = start, start + len(mark)
                break
            if mark in _CLOSING:  # the tag is not closed yet
                end = at = start
                break
        yield Tag(opening, begin, end)


def _marks(text: str, begin: int, opening: str) -> Iterator[tuple[int, str]]:
    """Where tags open and close after an offset, outside of the strings of the tag that opened there."""
    if opening == "{#":
        yield from ((each.start(), each[0]) for each in _IN_COMMENT.finditer(text, begin))
        return
    for found in _IN_TAG.finditer(text, begin):
        if found[0][0] not in "'\"":
            yield found.start(), found[0]
        elif not _is_closed(found[0]):
            yield from ((each.start(), each[0]) for each in _IN_STRING.finditer(text, found.start(), found.end()))


def _is_closed(string: str) -> bool:
    """Whether a string has both of its quotation marks. An escaped one doesn't count."""
    return len(string) > 1 and string[-1] == string[0] and not _ESCAPED_END.search(string)


_ESCAPED_END = re.compile(r"(?<!\\)(?:\\\\)*+\\.\Z")


def tag_at(text: str, offset: int) -> Tag | None:
    """The tag in whose content an offset is."""
    for tag in tags(text):
        if tag.begin > offset:
            break
        if offset <= tag.end:
            return tag
    return None


@dataclass(frozen=True, slots=True)
class Step:
    """One part of a path: a name, the content of brackets, or the arguments of a call."""

    kind: str
    """`name`, `index` or `call`."""
    text: str


Chain = tuple[Step, ...]
"""A path in an expression, from its variable or function on: `child("Service", name).spec.ports[0]`."""

_PAIRS = {")": "(", "]": "["}
_CHAIN_LIMIT = 2000
"""The most characters of a path."""


def chain_before(text: str, end: int, begin: int = 0) -> Chain:
    """The path that ends at an offset, () if there is none."""
    begin = max(begin, end - _CHAIN_LIMIT)
    steps: list[Step] = []
    at = end
    while at > begin:
        last = text[at - 1]
        if last in _PAIRS:
            opening = _opening(text, at - 1, begin)
            if opening is None:
                return ()
            steps.append(Step("index" if last == "]" else "call", text[opening + 1 : at - 1]))
            at = opening
            if at > begin and not (text[at - 1].isalnum() or text[at - 1] in "_)]"):
                return ()  # a list or a group, and no path
            continue
        first = at
        while first > begin and (text[first - 1].isalnum() or text[first - 1] == "_"):
            first -= 1
        if first == at:
            return ()
        steps.append(Step("name", text[first:at]))
        at = first
        if at > begin and text[at - 1] == ".":
            at -= 1
            continue
        return tuple(reversed(steps))
    return ()


def _opening(text: str, closing: int, begin: int) -> int | None:
    """Where the bracket opens that closes at an offset."""
    depth, at = 0, closing
    while at >= begin:
        each = text[at]
        if each in "'\"":
            at = text.rfind(each, begin, at)
            if at < 0:
                return None
        elif each in ")]}":
            depth += 1
        elif each in "([{":
            depth -= 1
            if depth == 0:
                return at if each == _PAIRS[text[closing]] else None
        at -= 1
    return None


@dataclass(frozen=True, slots=True)
class OpenString:
    """The string in which a place is."""

    begin: int
    """After its quotation mark."""
    function: str = ""
    """The function or statement that it is given to; '' for none."""
    argument: int = 0
    """The number of the argument."""
    before: tuple[str, ...] = ()
    """The texts of the arguments before it."""


_ONE_STRING = re.compile(_STRINGS)
_STATEMENT = re.compile(r"[-+]?+\s*+(include|import|from|extends)\s++\[?+[^\]]*+$")


def open_string(text: str, tag: Tag, offset: int) -> OpenString | None:
    """The string of a tag in which an offset is, None if it is in none."""
    for found in _ONE_STRING.finditer(text, tag.begin):
        if found.start() >= offset:
            break
        if offset < found.end() or (offset == found.end() and not _is_closed(found[0])):
            return _given_to(text, tag, found.start())
    return None


def _given_to(text: str, tag: Tag, mark: int) -> OpenString:
    before = text[max(tag.begin, mark - _CHAIN_LIMIT) : mark]
    if tag.opening == "{%" and (statement := _STATEMENT.match(text[tag.begin : mark])):
        return OpenString(mark + 1, statement[1])
    function, parenthesis, given = before.rpartition("(")
    begin, end = word_around(function.rstrip(), len(function.rstrip()))
    if not parenthesis or ")" in given or begin == end:
        return OpenString(mark + 1)
    arguments = [each.strip() for each in given.split(",")]
    return OpenString(mark + 1, function.rstrip()[begin:end], len(arguments) - 1, tuple(arguments[:-1]))


# Variables of the template itself.


@dataclass(frozen=True, slots=True)
class Binding:
    """Where a template gives a name its value."""

    kind: str
    """`set`, `for`, `macro`, `parameter` or `import`."""
    offset: int
    """Where the name is written."""
    expression: str = ""
    """The value of `set`, the list of `for`, and the file of `import`."""
    position: int = 0
    """For one of several names of a `for`: its number."""
    member: str = ""
    """For `from file import member`: the name in that file."""


_SET = re.compile(r"[-+]?+\s*+(?:set|with)\s++(?P<name>\w++)\s*+(?P<equals>=?)")
_FOR = re.compile(r"[-+]?+\s*+for\s++(?P<names>\w++(?:\s*+,\s*+\w++)*+)\s++in\s")
_IMPORT = re.compile(r"""[-+]?+\s*+import\s++['"](?P<file>[^'"]*+)['"]\s++as\s++(?P<name>\w++)""")
_FROM = re.compile(r"""[-+]?+\s*+from\s++['"](?P<file>[^'"]*+)['"]\s++import\s++(?P<names>[\w\s,]++)""")
_MACRO = re.compile(r"[-+]?+\s*+macro\s++(?P<name>\w++)\s*+\(")
_WORD = re.compile(r"\w+")
_IMPORTED = re.compile(r"(?P<member>\w+)(?:\s+as\s+(?P<name>\w+))?")


def bindings(text: str, end: int | None = None) -> dict[str, Binding]:
    """The names that a template binds before an offset; the last binding of a name counts. A name that is out of scope
    again counts, too.
    """
    found: dict[str, Binding] = {}
    for tag in tags(text):
        if end is not None and tag.begin > end:
            break
        if tag.opening == "{%":
            content = text[tag.begin : tag.end]
            found.update((name, each) for name, each in _bound(content, tag.begin))
    return found


def _bound(content: str, begin: int) -> Iterator[tuple[str, Binding]]:
    if match := _SET.match(content):
        yield (
            match["name"],
            Binding("set", begin + match.start("name"), _rest(content, match) if match["equals"] else ""),
        )
    elif match := _FOR.match(content):
        for at, name in enumerate(_WORD.finditer(match["names"])):
            offset = begin + match.start("names") + name.start()
            yield name[0], Binding("for", offset, _rest(content, match), at)
    elif match := _IMPORT.match(content):
        yield match["name"], Binding("import", begin + match.start("name"), match["file"])
    elif match := _FROM.match(content):
        for each in _IMPORTED.finditer(match["names"]):
            offset = begin + match.start("names") + each.start()
            yield each["name"] or each["member"], Binding("import", offset, match["file"], member=each["member"])
    elif match := _MACRO.match(content):
        parameters = _rest(content, match).removesuffix(")")
        yield match["name"], Binding("macro", begin + match.start("name"), parameters)
        offset = begin + match.end()
        for part in content[match.end() :].split(","):
            written = part.partition("=")[0].strip(" \t\n)-")
            if written.isidentifier():
                yield written, Binding("parameter", offset + part.index(written))
            offset += len(part) + 1


def _rest(content: str, match: re.Match[str]) -> str:
    """The content of a tag after what was matched."""
    return content[match.end() :].strip().removesuffix("-").rstrip()


def leading_chain(expression: str) -> Chain:
    """The path with which an expression begins, up to a filter or an operator."""
    depth = 0
    for at, each in enumerate(expression[:_CHAIN_LIMIT]):
        depth += (each in "([{") - (each in ")]}")
        if depth == 0 and each in " \t\n|+~-*/%<>=!,":
            return chain_before(expression, at) if at else ()
    return chain_before(expression, min(len(expression), _CHAIN_LIMIT))


def word_around(line: str, column: int) -> tuple[int, int]:
    """Where the name begins and ends in which a column is."""
    begin = end = column
    while begin > 0 and (line[begin - 1].isalnum() or line[begin - 1] == "_"):
        begin -= 1
    while end < len(line) and (line[end].isalnum() or line[end] == "_"):
        end += 1
    return begin, end
