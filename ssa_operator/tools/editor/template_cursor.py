"""What a template has at a place, as far as its text shows: the tag, the name or path, and what its variables are.

Promises:
- The text may be broken: an open tag ends where the next one begins, and a quotation mark without its pair opens
  no string that hides the rest.
- A text is read a fixed number of times, however long it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

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
