"""How often reconciles of a parent failed in a row.

Promises:
- A retryable failure of a child and a reconcile that did not come to its end are counted apart, each for its own
  backoff.
- The same error is logged once in a row.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace


class Retries(Struct, frozen=True, kw_only=True):
    """The failures in a row."""

    failed: int = 0
    """Reconciles in a row with a retryable failure."""
    unfinished: int = 0
    """Reconciles in a row that did not come to their end."""
    error: str = ""
    """Why the last of these did not."""


def after_report(retries: Retries, *, retryable: bool) -> Retries:
    """The retries after a reconcile that came to its end."""
    return Retries(failed=retries.failed + 1) if retryable else _NONE


_NONE = Retries()


def after_error(retries: Retries, error: str, *, terminal: bool) -> Retries:
    """The retries after a reconcile that did not; a terminal error is not tried again, and not counted."""
    return replace(retries, error=error, unfinished=retries.unfinished + (0 if terminal else 1))
