"""Classifies values by whether they are a Secret's content, and marks errors whose text may quote it.

Promises:
- If an expression that reads a Secret's content fails, the message names the template line and quotes no value.
"""

from __future__ import annotations

from enum import Enum

HIDDEN_ERROR = "an expression with a Secret's content fails; its message is not shown, because it may quote the content"
"""The message of such an error."""

HIDDEN_RULE = "the manifest breaks a rule in a field that a Secret's content names; the message is not shown"
"""The message of a manifest's problem that names such a field."""


class Secrecy(Enum):
    """How a value relates to a Secret's content or to a generated value."""

    NONE = "none"
    """It is not derived from content."""
    DIGEST = "digest"
    """A hash of content: a status and an object's name may have it, and no message quotes it."""
    CONTENT = "content"
    """Content, a part of it, or derived from it."""


_MARK = "_ssa_operator_quotes_content"


def mark_error(error: BaseException) -> None:
    """Mark an error whose text may quote a Secret's content."""
    setattr(error, _MARK, True)


def quotes_content(error: BaseException | None) -> bool:
    """Whether an error, or one that it follows from, is marked."""
    seen = 0
    while error is not None and seen < _CHAIN_LIMIT:
        if getattr(error, _MARK, False):
            return True
        error, seen = error.__cause__ or error.__context__, seen + 1
    return error is not None


_CHAIN_LIMIT = 100
