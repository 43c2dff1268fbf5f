"""The scalars of Kubernetes' API: timestamps, durations and quantities.

Promises:
- Any value is read as a time without an error: a value that is not a moment with a zone is no time. Clients that write
  a status or an annotation may write anything there.
- A moment is aware of its zone, so that two moments can always be compared.
- The time to read a value does not depend on its length.
- A duration is read to the nanosecond.
- A text that is no duration is an error that shows how to write one.
- `age` writes an age as kubectl does.
- Two spellings of one quantity have the same amount.
- A text that is no quantity, or longer than QUANTITY_LIMIT, has no amount.
- Only two quantities, or two percentages, can be compared.

https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TypeGuard

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


def timestamp(seconds: float) -> str:
    """A moment (seconds since the epoch) as Kubernetes' metav1.Time writes it."""
    return f"{datetime.fromtimestamp(int(seconds), UTC).replace(tzinfo=None).isoformat()}Z"


def micro_time(seconds: float) -> str:
    """A moment (seconds since the epoch) as metav1.MicroTime, which always has six digits after the point."""
    return f"{datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


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
    "w": 604800.0,
}
DURATION_LIMIT = 100
"""Characters of a duration."""

_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h|d|w)", re.ASCII)


def parse_duration(text: str) -> float:
    """The seconds of a duration such as `300ms`, `10s`, `1h30m`, `7d` or `2w`; a bare `0` is allowed.

    The syntax is Go's (https://pkg.go.dev/time#ParseDuration) without a sign, with `d` for 24 hours and `w` for 7 days.

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


QUANTITY_LIMIT = 256
"""Characters of a quantity: Kubernetes' largest one has 19 digits."""

_QUANTITY = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))(?:[eE]([+-]?\d{1,3})|(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E))?")
_FACTORS: Mapping[str, Decimal] = {
    **{suffix: Decimal(10) ** (3 * power) for suffix, power in zip("num", (-3, -2, -1), strict=True)},
    **{suffix: Decimal(10) ** (3 * power) for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", 1)},
}


def amount(quantity: object) -> Decimal | None:
    """The amount of a quantity, which is a string or a number; None for anything else."""
    if not isinstance(quantity, str | int | float) or (isinstance(quantity, int) and quantity.bit_length() > 512):
        return None
    text = str(quantity)
    match = _QUANTITY.fullmatch(text) if len(text) <= QUANTITY_LIMIT else None
    if match is None:
        return None
    number, exponent, suffix = match.groups()
    return Decimal(number).scaleb(int(exponent or 0)) * _FACTORS.get(suffix or "", Decimal(1))


def is_same_amount(one: object, other: object) -> bool:
    """Whether two values are quantities of one amount."""
    found = amount(one)
    return found is not None and found == amount(other)


def amounts(one: object, other: object) -> tuple[Decimal, Decimal] | None:
    """The amounts of two quantities, or of two percentages (`25%`, as of `maxUnavailable`); None for anything else."""
    if isinstance(one, bool) or isinstance(other, bool) or is_percentage(one) is not is_percentage(other):
        return None
    found = [amount(each[:-1] if is_percentage(each) else each) for each in (one, other)]
    return None if found[0] is None or found[1] is None else (found[0], found[1])


def is_percentage(value: object) -> TypeGuard[str]:
    """Whether a value may be a percentage."""
    return isinstance(value, str) and value.endswith("%")
