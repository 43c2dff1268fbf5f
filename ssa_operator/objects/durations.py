"""Durations in Go's and Kubernetes' syntax, with days, and ages in kubectl's.

Promises:
- A duration is read to the nanosecond.
- A text that is no duration is an error that shows how to write one.
- `age` writes an age as kubectl does.
"""

from __future__ import annotations

import re

from ssa_operator.objects.timestamps import seconds_of

_UNITS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}
DURATION_LIMIT = 100
"""Characters of a duration."""

_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h|d)", re.ASCII)


def parse_duration(text: str) -> float:
    """The seconds of a duration such as `300ms`, `10s`, `1h30m` or `7d`; a bare `0` is allowed.

    The syntax is Go's (https://pkg.go.dev/time#ParseDuration) without a sign and with `d` for 24 hours.

    Raises ValueError for anything else.
    """
    if text == "0":
        return 0.0
    if len(text) > DURATION_LIMIT:
        raise ValueError(
            f"a duration of {len(text)} characters is too long; write one of at most {DURATION_LIMIT}, like 1h30m"
        )
    seconds = 0.0
    position = 0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None:
            break
        seconds += float(part[1]) * _UNITS[part[2]]
        position = part.end()
    if not text or position < len(text):
        raise ValueError(f"{text!r} is not a duration; write one like 500ms, 10s, 1h30m or 7d")
    return seconds


def age(timestamp: object, now: float) -> str:
    """The age of a timestamp as kubectl writes it: `4m12s`, `3h`, `12d`. `timestamp` is in RFC 3339 as in
    `metadata.creationTimestamp`; `now` is in seconds since the epoch.

    The rule is kubectl's (k8s.io/apimachinery/pkg/util/duration, HumanDuration): the longer ago, the fewer units.
    Returns '<unknown>' without a timestamp, and '<invalid>' for one that is more than a second in the future.
    """
    since = seconds_of(timestamp)
    if since is None:
        return "<unknown>"
    seconds = int(now - since)
    if seconds < 0:
        return "0s" if seconds == -1 else "<invalid>"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _two_units(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two_units(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two_units(days, "d", hours % 24, "h")
    if days < 2 * 365:
        return f"{days}d"
    if days < 8 * 365:
        return _two_units(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two_units(count: int, unit: str, rest: int, smaller: str) -> str:
    return f"{count}{unit}{rest}{smaller}" if rest else f"{count}{unit}"
