"""The syntax of a CronJob's schedule, as the API server reads it.

Promises:
- What it refuses, the API server refuses, too: five fields, or a word such as @daily.

The rules are those of github.com/robfig/cron/v3 (parser.go).
"""

from __future__ import annotations

import re

_WORDS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_BOUNDS = ((0, 59, ()), (0, 23, ()), (1, 31, ()), (1, 12, _MONTHS), (0, 6, _DAYS))
_EVERY = re.compile(r"@every [0-9a-zµ.]+", re.ASCII)
_DIGITS = 9


def schedule_faults(schedule: str) -> list[str]:
    """What is wrong with a schedule."""
    if "TZ" in schedule:
        return ["cannot use TZ or CRON_TZ in schedule, use timeZone field instead"]
    if schedule.startswith("@"):
        return [] if schedule in _WORDS or _EVERY.fullmatch(schedule) else [f"unrecognized descriptor: {schedule}"]
    fields = schedule.split()
    if len(fields) != len(_BOUNDS):
        return [f"expected exactly 5 fields, found {len(fields)}: {fields}"]
    for field, (low, high, names) in zip(fields, _BOUNDS, strict=True):
        for part in field.split(","):
            if fault := _fault(part, low, high, names):
                return [fault]
    return []


def _fault(part: str, low: int, high: int, names: tuple[str, ...]) -> str:
    interval, slash, step = part.partition("/")
    begin, dash, end = interval.partition("-")
    if slash and (not _is_number(step) or int(step) == 0):
        return f"step of range should be a positive number: {part}"
    if begin in ("*", "?"):
        return f"failed to parse int from {end}" if dash else ""
    first = _number(begin, low, names)
    last = _number(end, low, names) if dash else first
    if first is None or last is None:
        return f"failed to parse int from {part}"
    if first < low:
        return f"beginning of range ({first}) below minimum ({low}): {part}"
    if last > high:
        return f"end of range ({last}) above maximum ({high}): {part}"
    return f"beginning of range ({first}) beyond end of range ({last}): {part}" if first > last else ""


def _number(value: str, low: int, names: tuple[str, ...]) -> int | None:
    if value.lower() in names:
        return names.index(value.lower()) + low
    return int(value) if _is_number(value) else None


def _is_number(value: str) -> bool:
    return value.isascii() and value.isdigit() and len(value) <= _DIGITS
