"""Messages of bounded length: what the API server takes, and what people read.

Promises:
- Of many causes each has its place; what is left out is said.
"""

from __future__ import annotations

from collections.abc import Sequence

MESSAGE_LIMIT = 4096
"""Characters of the message of a condition; Kubernetes' metav1.Condition allows 32 KiB."""

CAUSES_LIMIT = 8
"""So many causes are told."""


def sentence(causes: Sequence[str]) -> str:
    """The causes in one message; where they don't fit, the long ones are shortened, so that each has its place."""
    more = f"; and {len(causes) - CAUSES_LIMIT} more" if len(causes) > CAUSES_LIMIT else ""
    told, room = causes[:CAUSES_LIMIT], MESSAGE_LIMIT - len(more)
    if len("; ".join(told)) > room:
        told = [shortened(cause, room // len(told) - 2) for cause in told]
    return "; ".join(told) + more


def shortened(text: str, limit: int) -> str:
    """The text without its middle where it is longer than `limit` characters: in an API server's words, that is where
    the value is quoted; the field stands before it, the reason after it.
    """
    if len(text) <= limit:
        return text
    tail = (limit - 1) // 3
    return f"{text[: limit - 1 - tail]}…{text[len(text) - tail :]}"


def bounded(text: str, limit: int) -> str:
    """The beginning of the text where it is longer than `limit` characters."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
