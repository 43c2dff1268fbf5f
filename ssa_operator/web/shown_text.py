"""The text of template files as the web view shows it, and what a change of one did.

Promises:
- What a file may write into a Secret is not shown: in a file that names the kind Secret, and in `_values.yaml`, every
  value is hidden, and the fields' names stay.
- A line stays a line, so that the lines of problems and of `blame` are those of the file.
- The time for a text is bounded: of longer ones than MAX_LINES only the beginning is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from msgspec import Struct

from ssa_operator.rendering.jinja.templates import VALUES

MAX_LINES = 2_000
MAX_LINE = 500
"""Characters."""

CONTEXT = 3
"""Lines that stay the same around a change."""

STAND_IN = "(not shown)"

_SECRET = re.compile(r"\bkind[\"']?\s{0,8}:\s{0,8}[\"']?Secret\b")
_FIELD = re.compile(r"(?P<indent>\s{0,200}(?:-\s{1,8})?)(?P<key>[A-Za-z0-9_./-]{1,200}):(?P<rest>.*)")
_STATEMENT = re.compile(r"\s{0,200}\{%[^%]*%\}\s*")
_LITERAL = re.compile(r"\"[^\"]*\"|'[^']*'|\b\d[\w.]*")
_PLAIN_FIELDS = frozenset({"apiVersion", "kind"})


class DiffLine(Struct, frozen=True):
    """A line of a difference."""

    mark: str
    """' ', '-' or '+'."""
    text: str


def shown_lines(name: str, text: str) -> list[str]:
    """The lines of a file; `name` is its path."""
    lines = [line[:MAX_LINE] for line in text.split("\n")[:MAX_LINES]]
    if lines and not lines[-1]:
        lines.pop()
    if is_hidden(name, text):
        return [_hidden(line) for line in lines]
    return lines


def is_hidden(name: str, text: str) -> bool:
    """Whether a file's values are not shown."""
    return name.rpartition("/")[2] == VALUES or _SECRET.search(text) is not None


def _hidden(line: str) -> str:
    if not line.strip():
        return line
    if _STATEMENT.fullmatch(line) and "\\" not in line:
        return _LITERAL.sub("…", line)
    if found := _FIELD.fullmatch(line):
        if not found["rest"].strip() or found["key"] in _PLAIN_FIELDS:
            return line
        return f"{found['indent']}{found['key']}: {STAND_IN}"
    if line.strip() == "---":
        return line
    return f"{line[: len(line) - len(line.lstrip())]}{STAND_IN}"


def differences(before: Sequence[str], after: Sequence[str]) -> list[DiffLine]:
    """What differs between two texts, each change with some lines around it; `@` stands for the lines between."""
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    return [line for group in matcher.get_grouped_opcodes(CONTEXT) for line in _hunk(group, before, after)]


def _hunk(
    group: Sequence[tuple[str, int, int, int, int]], before: Sequence[str], after: Sequence[str]
) -> Iterator[DiffLine]:
    yield DiffLine("@", f"line {group[0][3] + 1}")
    for tag, first, last, new_first, new_last in group:
        if tag == "equal":
            yield from (DiffLine(" ", text) for text in before[first:last])
        else:
            yield from (DiffLine("-", text) for text in before[first:last])
            yield from (DiffLine("+", text) for text in after[new_first:new_last])
