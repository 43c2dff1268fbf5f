"""Reads the times that Kubernetes' objects hold: RFC 3339, as `metadata.creationTimestamp` and conditions have them.

Promises:
- Any value is read without an error: a value that is not a moment with a zone is no time. Clients that write a status
  or an annotation may write anything there.
- A moment is aware of its zone, so that two moments can always be compared.
- The time to read a value does not depend on its length.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_RFC3339 = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:)(\d{2})(?:\.(\d{1,40}))?(?:[Zz]|([+-])(\d{2}):(\d{2}))", re.ASCII
)

_MAX_LENGTH = 80
"""Characters: the longest text that the pattern matches is shorter."""


def moment_of(value: object) -> datetime | None:
    """The moment of a time in UTC, truncated to microseconds; None for any other value. A leap second
    is the second after it.
    """
    if not isinstance(value, str) or len(value) > _MAX_LENGTH:
        return None
    found = _RFC3339.fullmatch(value)
    if found is None or int(found[3]) > 60 or (found[5] and (int(found[6]) > 23 or int(found[7]) > 59)):
        return None
    offset = timedelta(hours=int(found[6]), minutes=int(found[7])) if found[5] else timedelta()
    more = timedelta(seconds=int(found[3]), microseconds=int((found[4] or "0").ljust(6, "0")[:6]))
    try:
        moment = datetime.fromisoformat(f"{found[1]}T{found[2]}00").replace(tzinfo=UTC)
        return moment + more + (offset if found[5] == "-" else -offset)
    except (ValueError, OverflowError):
        return None


def seconds_of(value: object) -> float | None:
    """The moment of a time in seconds since the epoch; None if the value is not a time."""
    moment = moment_of(value)
    return None if moment is None else moment.timestamp()
