"""Says whether a moment is within the window of a rollout.

Promises:
- A window opens at each minute that its schedule names in its time zone, and stays open for its duration.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from ssa_operator.objects.rollout_settings import Window

MINUTE = 60.0


def is_open(window: Window, now: float) -> bool:
    """Whether a wave may begin at a moment, in seconds since the epoch."""
    minute = int(now // MINUTE)
    return any(_opens(window, minute - back) for back in range(_minutes_back(window, now) + 1))


def _minutes_back(window: Window, now: float) -> int:
    """How many minutes ago it may have opened to be open still."""
    return int((window.duration - now % MINUTE - 1e-6) // MINUTE)


@lru_cache(maxsize=20_000)
def _opens(window: Window, minute: int) -> bool:
    found = datetime.fromtimestamp(minute * MINUTE, UTC).astimezone(ZoneInfo(window.time_zone))
    minutes, hours, days, months, weekdays = window.schedule
    day, weekday = found.day in days, found.isoweekday() % 7 in weekdays
    suits = (day or weekday) if window.either_day else (day and weekday)
    return found.minute in minutes and found.hour in hours and found.month in months and suits
