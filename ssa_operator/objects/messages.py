"""Messages of limited length.

Promises:
- A message about several causes has room for each of them, and counts the causes that it omits.
- The hint about a mistyped name has the same words everywhere, and costs little for any length and number of names.
- The number 1 has a singular noun.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from heapq import nlargest

from ssa_operator.objects.source_location import FieldPath, field_text

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


def misspelt_field(path: FieldPath, siblings: Iterable[str]) -> str | None:
    """A question with the field that is most similar to the last one of a path, among those beside it; None if none is
    similar. `check`, `render`, `dev` and the status of a parent ask alike.
    """
    near = near_names(str(path[-1]), siblings)
    return f"did you mean {field_text((*path[:-1], near[0]))}?" if near else None


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
