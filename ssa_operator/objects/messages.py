r"""Texts for users: messages of limited length, and foreign texts without the characters that control a terminal.

Promises:
- A message about several causes has room for each of them, and counts the causes that it omits.
- The hint about a mistyped name has the same words everywhere, and costs little for any length and number of names.
- The number 1 has a singular noun.
- Control characters, and characters that change the order of text or are invisible, are shown as escapes: `\x1b`,
  `\u202e`. Letters, emoji and combining characters of any language stay.
- No line begins a workflow command of GitHub (`::error::`, `##[group]`) or of Azure (`##vso[task]`), which read the
  output of a job, including that of a container.
- Escapes of JSON and of YAML keep the data the same.
- Text that needs no escape is returned unchanged.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from heapq import nlargest

MESSAGE_LIMIT = 4096
"""Characters of the message of a condition; Kubernetes' metav1.Condition allows 32 KiB."""

CAUSES_LIMIT = 8
"""Causes in one message."""

NEAR_LENGTH = 100
"""Characters of a name that is compared with another one."""

_COMPARED = 8
"""Names that are compared with a mistyped one, letter by letter."""


def sentence(causes: Sequence[str]) -> str:
    """One message about all causes. If they don't fit, long ones are shortened, so that there is room for each."""
    more = f"; and {len(causes) - CAUSES_LIMIT} more" if len(causes) > CAUSES_LIMIT else ""
    shown, room = causes[:CAUSES_LIMIT], MESSAGE_LIMIT - len(more)
    if len("; ".join(shown)) > room:
        shown = [shortened(cause, room // len(shown) - 2) for cause in shown]
    return "; ".join(shown) + more


def shortened(text: str, limit: int) -> str:
    """The text without its middle if it is longer than `limit` characters. The API server's messages quote values in
    the middle, between the field and the reason.
    """
    if len(text) <= limit:
        return text
    tail = (limit - 1) // 3
    return f"{text[: limit - 1 - tail]}…{text[len(text) - tail :]}"


def counted(number: int, noun: str) -> str:
    """A number with its noun: `1 error`, `2 errors`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """A question with the known name that is most similar to a mistyped name; `otherwise` if none is similar."""
    near = near_names(name, known)
    return f"did you mean {near[0]}?" if near else otherwise


def near_names(name: str, known: Iterable[str], count: int = 1, likeness: float = 0.6) -> list[str]:
    """The known names that are most similar to a mistyped name, `count` at most, the most similar first. `likeness` is
    the least ratio of difflib.

    Its comparison takes a time that is cubic in the length. So the names with the most letters in common are chosen
    first, in linear time, and a name of more than NEAR_LENGTH characters is similar to none.
    """
    if len(name) > NEAR_LENGTH:
        return []
    matcher = difflib.SequenceMatcher()
    matcher.set_seq2(name)
    alike: list[tuple[float, str]] = []
    for each in known:
        matcher.set_seq1(each[: NEAR_LENGTH + 1])
        if matcher.real_quick_ratio() >= likeness and (common := matcher.quick_ratio()) >= likeness:
            alike.append((common, each))
    found: list[tuple[float, str]] = []
    for _, each in nlargest(_COMPARED, alike):
        matcher.set_seq1(each[: NEAR_LENGTH + 1])
        if (ratio := matcher.ratio()) >= likeness:
            found.append((ratio, each))
    return [each for _, each in nlargest(count, found)]


def bounded(text: str, limit: int) -> str:
    """The text, cut off after `limit` characters."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


_UNSAFE = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 and C1, without tab and line feed
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"  # line separators, and marks of direction (bidi)
    "\u180e\u200b\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb"  # invisible; the joiners of Persian and of emoji stay
    "\ud800-\udfff\U000e0000-\U000e007f"  # halves of characters, as in undecodable names of files; invisible tags
)
_CONTROL = re.compile(f"[{_UNSAFE}]")
_CONTROL_OF_LINE = re.compile(f"[{_UNSAFE}\n]")
_HASHES = re.compile(r"##(?=\w*\[)")


def visible(text: str) -> str:
    """A text of several lines, safe to show to people."""
    return without_workflow_commands(without_controls(text))


def visible_line(text: str) -> str:
    """The same for a text of one line, such as the name of a file: line ends become escapes."""
    return visible(_CONTROL_OF_LINE.sub(_escape, text) if "\n" in text else text)


def without_controls(text: str) -> str:
    """A text that need not begin a line, with escapes for control characters."""
    return _CONTROL.sub(_escape, text)


def without_workflow_commands(text: str) -> str:
    """A text that has escapes of its own, such as colours, without workflow commands."""
    if "::" in text:
        text = "\n".join(map(_without_command, text.split("\n")))
    return _HASHES.sub(r"\\x23#", text)


def _without_command(line: str) -> str:
    """A line that begins no workflow command: `::name::` after white space. `::1` is an address.

    https://github.com/actions/runner/blob/main/src/Runner.Common/ActionCommand.cs; it reads `##[name]` anywhere.
    """
    start = len(line) - len(line.lstrip())
    begins = line.startswith("::", start) and "::" in line[start + 2 :]
    return f"{line[:start]}\\x3a{line[start + 1 :]}" if begins else line


def is_risky(text: str) -> bool:
    """Whether `visible` changes a text."""
    return _CONTROL.search(text) is not None or without_workflow_commands(text) != text


def escaped_json(text: str) -> str:
    """A JSON text with the same data, in which strings have escapes for what `visible` shows as escapes."""
    return _HASHES.sub(r"#\\u0023", _CONTROL.sub(_json_escape, text)) if is_risky(text) else text


def escaped_quoted_yaml(text: str) -> str:
    """The same for a YAML text whose risky strings are in double quotes."""
    return _HASHES.sub(r"#\\x23", _CONTROL.sub(_escape, text)) if is_risky(text) else text


def _escape(found: re.Match[str]) -> str:
    """An escape that Python, YAML and people read."""
    letter = found[0]
    if letter in _SHORT:
        return _SHORT[letter]
    code = ord(letter)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_SHORT = {"\n": "\\n", "\r": "\\r"}


def _json_escape(found: re.Match[str]) -> str:
    return "".join(
        f"\\u{int.from_bytes(pair, 'big'):04x}" for pair in _pairs(found[0].encode("utf-16-be", "surrogatepass"))
    )


def _pairs(encoded: bytes) -> list[bytes]:
    return [encoded[at : at + 2] for at in range(0, len(encoded), 2)]
