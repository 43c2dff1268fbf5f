"""Finds when the window of a rollout is open.

Promises:
- A window opens at each minute that its schedule names in its time zone, and stays open for its duration.
- A minute that a change to daylight saving time skips doesn't open it; one that is repeated opens it twice.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from ssa_operator.objects.rollout_settings import Window

MINUTE = 60.0

NEVER = "never"
"""When a window opens whose schedule names no day, such as 31 February."""

_DAYS = 366 * 8 + 1
"""For how many days the next opening is looked for: 29 February may be missing for eight years."""


def is_open(window: Window, now: float) -> bool:
    """Whether a wave may begin at a moment, in seconds since the epoch."""
    minute = int(now // MINUTE)
    return any(_opens(window, minute - back) for back in range(_minutes_back(window, now) + 1))


def next_opening(window: Window, now: float) -> str:
    """When a closed window opens, in its time zone; '' while it is open."""
    return "" if is_open(window, now) else _next_opening(window, int(now // MINUTE))


@lru_cache
def _next_opening(window: Window, minute: int) -> str:
    zone = ZoneInfo(window.time_zone)
    minutes, hours, *_ = window.schedule
    today = datetime.fromtimestamp(minute * MINUTE, zone).date()
    for day in (today + timedelta(days=ahead) for ahead in range(_DAYS)):
        if not _suits(window, day):
            continue
        starts = (time(hour, at, fold=fold) for hour in hours for at in minutes for fold in (0, 1))
        moments = (datetime.combine(day, start, zone).timestamp() // MINUTE for start in starts)
        later = (int(moment) for moment in moments if moment > minute and _opens(window, int(moment)))
        if (first := min(later, default=None)) is not None:
            return datetime.fromtimestamp(first * MINUTE, zone).isoformat(timespec="minutes")
    return NEVER


def _minutes_back(window: Window, now: float) -> int:
    """How many minutes ago it may have opened to be open still."""
    return int((window.duration - now % MINUTE - 1e-6) // MINUTE)


@lru_cache(maxsize=20_000)
def _opens(window: Window, minute: int) -> bool:
    found = datetime.fromtimestamp(minute * MINUTE, UTC).astimezone(ZoneInfo(window.time_zone))
    minutes, hours, *_ = window.schedule
    return found.minute in minutes and found.hour in hours and _suits(window, found)


def _suits(window: Window, found: date) -> bool:
    """Whether the schedule names a day."""
    _, _, days, months, weekdays = window.schedule
    day, weekday = found.day in days, found.isoweekday() % 7 in weekdays
    return found.month in months and ((day or weekday) if window.either_day else (day and weekday))
