"""Finds the block of a template that is not closed.

Promises:
- A block without an end is reported where it begins.
- A tag that doesn't exist is reported where it is, with the one that is meant.
- An end that closes another block names the line of the block that is open.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from jinja2 import TemplateSyntaxError

from ssa_operator.objects.messages import did_you_mean
from ssa_operator.rendering.jinja.functions import REMOVED

_OPEN = re.compile(r"The innermost block that needs to be closed is '(\w+)'")
_UNKNOWN = re.compile(r"Encountered unknown tag '(\w+)'")
_EXPECTED = re.compile(r"'(\w+)'")
_TAGS = (
    "block", "break", "call", "continue", "do", "extends", "filter", "for", "from", "if", "import", "include", "macro",
    "raw", "return", "set", "with",
)  # fmt: skip
_OTHERS = {"elseif": "elif", "elsif": "elif", "loop": "for"}
"""Tags of other languages."""

_END = re.compile(r"Encountered unknown tag '(end\w+)'")


def block_error(error: TemplateSyntaxError, tokens: Iterable[tuple[int, str, str]]) -> TemplateSyntaxError:
    """The error, with the line and the words of the block that is open; the same one if it is about something else.
    `tokens` are those of the template: line, type and text.
    """
    message = error.message or ""
    unknown = _UNKNOWN.search(message)
    if unknown is not None and unknown[1] in REMOVED:
        return error
    if unknown is not None and (unknown[1] == "end" or not unknown[1].startswith("end")):
        return TemplateSyntaxError(_no_tag(unknown[1], message), error.lineno)
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


def _no_tag(name: str, message: str) -> str:
    """The message about a tag that doesn't exist. Jinja's own one names those that may be here, which end a block."""
    expected = _EXPECTED.findall(message.partition("following tags: ")[2].partition(". ")[0])
    known = [*expected, *_TAGS]
    other = _OTHERS.get(name, "")
    what_to_do = f"write {{% {other} %}}" if other in known else did_you_mean(name, known)
    return f"there is no tag {{% {name} %}}" + (f"; {what_to_do}" if what_to_do else "")


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
