"""Finds when the window of a rollout is open.

Promises:
- A window opens at each minute that its schedule names in its time zone, and stays open for its duration.
- A minute that a change to daylight saving time skips doesn't open it; one that is repeated opens it twice.
"""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from ssa_operator.objects.rollout_settings import Window

NEVER = "never"
"""When a window opens whose schedule names no day, such as 31 February."""

_DAYS = 366 * 8 + 1
"""For how many days the next opening is looked for: 29 February may be missing for eight years."""


def is_open(window: Window, now: float) -> bool:
    """Whether a wave may begin at a moment, in seconds since the epoch."""
    day, last = _day(window, now - window.duration), _day(window, now)
    days = (day + timedelta(days=after) for after in range((last - day).days + 1))
    return any(opens <= now < opens + window.duration for day in days for opens in _openings(window, day))


def next_opening(window: Window, now: float) -> str:
    """When a closed window opens, in its time zone; '' while it is open."""
    if is_open(window, now):
        return ""
    today = _day(window, now)
    for ahead in range(_DAYS):
        if later := [each for each in _openings(window, today + timedelta(days=ahead)) if each > now]:
            return datetime.fromtimestamp(min(later), ZoneInfo(window.time_zone)).isoformat(timespec="minutes")
    return NEVER


def _day(window: Window, moment: float) -> date:
    return datetime.fromtimestamp(moment, ZoneInfo(window.time_zone)).date()


@lru_cache(maxsize=2 * _DAYS)
def _openings(window: Window, day: date) -> tuple[float, ...]:
    """The moments of a day at which it opens, in seconds since the epoch."""
    minutes, hours, days, months, weekdays = window.schedule
    suits = (day.day in days, day.isoweekday() % 7 in weekdays)
    if day.month not in months or not (any if window.either_day else all)(suits):
        return ()
    zone = ZoneInfo(window.time_zone)
    times = (time(hour, minute, fold=fold) for hour in hours for minute in minutes for fold in (0, 1))
    starts = (datetime.combine(day, each, zone) for each in times)
    # A time that is skipped is another one, seen from its moment.
    return tuple(each.timestamp() for each in starts if datetime.fromtimestamp(each.timestamp(), zone) == each)
