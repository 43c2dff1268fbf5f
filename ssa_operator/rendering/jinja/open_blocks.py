"""Finds the block of a template that is not closed.

Promises:
- A block without an end is reported where it begins.
- An end that closes another block names the line of the block that is open.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from jinja2 import TemplateSyntaxError

_OPEN = re.compile(r"The innermost block that needs to be closed is '(\w+)'")
_END = re.compile(r"Encountered unknown tag '(end\w+)'")


def block_error(error: TemplateSyntaxError, tokens: Iterable[tuple[int, str, str]]) -> TemplateSyntaxError:
    """The error, with the line and the words of the block that is open; the same one if it is about something else.
    `tokens` are those of the template: line, type and text.
    """
    message = error.message or ""
    end, found = _END.search(message), _OPEN.search(message)
    if found is None:
        if end is None:
            return error
        return TemplateSyntaxError(f"{{% {end[1]} %}} closes nothing; remove it, or open the block", error.lineno)
    tag = found[1]
    line = _last_open(tag, tokens, error.lineno)
    if not line:
        return error
    if end is None:
        return TemplateSyntaxError(f"{{% {tag} %}} has no {{% end{tag} %}}", line)
    words = f"{{% {end[1]} %}} is here before {{% end{tag} %}}, which closes the {{% {tag} %}} of line {line}"
    return TemplateSyntaxError(words, error.lineno)


def _last_open(tag: str, tokens: Iterable[tuple[int, str, str]], last: int) -> int:
    """The line of the last tag of this name that is not closed up to a line, 0 if there is none."""
    opened: list[int] = []
    for line, name in _tags(tokens):
        if line > last:
            break
        if name == tag:
            opened.append(line)
        elif name == f"end{tag}" and opened:
            opened.pop()
    return opened[-1] if opened else 0


def _tags(tokens: Iterable[tuple[int, str, str]]) -> Iterator[tuple[int, str]]:
    """The line and the name of each tag."""
    begins = False
    for line, kind, text in tokens:
        if kind == "name" and begins:
            yield line, text
        begins = kind == "block_begin" or (begins and kind == "whitespace")
