"""Messages of limited length.

Promises:
- A message about several causes has room for each of them, and counts those that it leaves out.
- The hint at a mistyped name is in the same words everywhere.
- A number of one thing has the noun in the singular.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

MESSAGE_LIMIT = 4096
"""Characters of the message of a condition; Kubernetes' metav1.Condition allows 32 KiB."""

CAUSES_LIMIT = 8
"""Causes in one message."""


def sentence(causes: Sequence[str]) -> str:
    """One message about all causes. If they don't fit, long ones are shortened, so that there is room for each."""
    more = f"; and {len(causes) - CAUSES_LIMIT} more" if len(causes) > CAUSES_LIMIT else ""
    shown, room = causes[:CAUSES_LIMIT], MESSAGE_LIMIT - len(more)
    if len("; ".join(shown)) > room:
        shown = [shortened(cause, room // len(shown) - 2) for cause in shown]
    return "; ".join(shown) + more


def shortened(text: str, limit: int) -> str:
    """The text without its middle where it is longer than `limit` characters. The API server's messages quote values in
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
    """The known name that a mistyped name is most like, as a question; `otherwise` if it is like none."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]}?" if near else otherwise


def bounded(text: str, limit: int) -> str:
    """The beginning of the text where it is longer than `limit` characters."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
