"""Parses the setting `rollout` of a folder: in which waves a changed template set reaches the parents.

Promises:
- An unknown or invalid part is an error with its line. The default never replaces it silently.
- Without the setting a folder has no rollouts.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from ssa_operator.objects.label_selectors import selector_fault
from ssa_operator.objects.messages import near_names
from ssa_operator.objects.rollout_settings import Batch, Canary, RolloutSettings, Window
from ssa_operator.objects.scalars import parse_duration
from ssa_operator.rendering.yaml.nodes import DocumentError, Node, SlotValues, find_location

_KEYS = ("canary", "batch", "settle", "maxUnready", "maxPrune", "window")

_PERCENT = re.compile(r"(\d{1,3})%", re.ASCII)

_FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 7))
"""The fields of a schedule, in order, with the least and the greatest number of each."""

_PART = re.compile(r"(?:\*|(\d{1,2})(?:-(\d{1,2}))?)(?:/(\d{1,2}))?", re.ASCII)

LONGEST_WINDOW = 7 * 86400.0
"""Seconds."""


def parse_rollout(found: Any, node: Node) -> RolloutSettings | None:
    """The setting `rollout` of a folder, whose settings are `node`. Raises DocumentError."""
    if found is None:
        return None
    reading = _Reading(node)
    reading.mapping(found, ("rollout",), _KEYS)
    return RolloutSettings(
        canary=_canary(found.get("canary"), reading),
        batch=_batch(found.get("batch", "10%"), reading),
        settle=reading.duration(found.get("settle", "30s"), ("rollout", "settle")),
        max_unready=reading.number(found.get("maxUnready", 0), ("rollout", "maxUnready"), least=0),
        max_prune=reading.number(found.get("maxPrune", 0), ("rollout", "maxPrune"), least=0),
        window=_window(found.get("window"), reading),
    )


class _Reading(Struct, frozen=True):
    """The settings that are read."""

    node: Node

    def wrong(self, path: tuple[str, ...], message: str) -> DocumentError:
        return DocumentError(f"{'.'.join(path)} {message}", find_location(self.node, path, SlotValues()))

    def mapping(self, found: Any, path: tuple[str, ...], known: tuple[str, ...]) -> None:
        if not isinstance(found, dict):
            raise self.wrong(path, f"must be a mapping of {', '.join(known)}")
        for key in found:
            if key not in known:
                near = near_names(str(key), known, likeness=0.5)
                hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
                raise self.wrong((*path, key), f"is not a setting; {hint}")

    def number(self, found: Any, path: tuple[str, ...], *, least: int) -> int:
        if type(found) is not int or found < least:
            raise self.wrong(path, f"must be a whole number from {least}")
        return found

    def duration(self, found: Any, path: tuple[str, ...]) -> float:
        try:
            return parse_duration(str(found))
        except ValueError as error:
            raise self.wrong(path, f"is no duration: {error}") from None


def _canary(found: Any, reading: _Reading) -> Canary:
    if found is None:
        return Canary()
    reading.mapping(found, ("rollout", "canary"), ("selector", "count"))
    selector = found.get("selector")
    if fault := selector_fault(selector):
        raise reading.wrong(("rollout", "canary", "selector"), fault)
    count = found.get("count")
    if count is not None:
        count = reading.number(count, ("rollout", "canary", "count"), least=1)
    elif selector is None:
        count = 1
    return Canary(selector=selector, count=count)


def _batch(found: Any, reading: _Reading) -> Batch:
    if type(found) is int and found > 0:
        return Batch(found)
    match = _PERCENT.fullmatch(found) if isinstance(found, str) else None
    if match is None or not 0 < int(match[1]) <= 100:
        raise reading.wrong(("rollout", "batch"), "must be a number of parents from 1, or a percentage such as 10%")
    return Batch(int(match[1]), percent=True)


def _window(found: Any, reading: _Reading) -> Window | None:
    if found is None:
        return None
    at = ("rollout", "window")
    reading.mapping(found, at, ("schedule", "duration", "timeZone"))
    for key in ("schedule", "duration"):
        if key not in found:
            raise reading.wrong(at, f"has no {key}; a window is as in schedule: '0 2 * * 1-5', duration: 4h")
    duration = reading.duration(found["duration"], (*at, "duration"))
    if not 60 <= duration <= LONGEST_WINDOW:
        raise reading.wrong((*at, "duration"), "must be from 1m to 7d")
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - few folders have a window

    zone = found.get("timeZone", "UTC")
    try:
        ZoneInfo(zone)
    except (ValueError, TypeError, OSError, KeyError):  # an unknown zone is a KeyError
        raise reading.wrong((*at, "timeZone"), "must be a time zone such as Etc/UTC or Europe/Berlin") from None
    schedule = _schedule(found["schedule"], reading)
    days, weekdays = found["schedule"].split()[2], found["schedule"].split()[4]
    return Window(
        schedule=schedule,
        either_day=not (days.startswith("*") or weekdays.startswith("*")),
        duration=duration,
        time_zone=zone,
        text=found["schedule"],
    )


def _schedule(found: Any, reading: _Reading) -> tuple[frozenset[int], ...]:
    at = ("rollout", "window", "schedule")
    parts = found.split() if isinstance(found, str) else []
    if len(parts) != len(_FIELDS):
        raise reading.wrong(at, "must have the five fields of cron: minute, hour, day, month, weekday, as 0 2 * * 1-5")
    numbers = []
    for (name, least, greatest), text in zip(_FIELDS, parts, strict=True):
        values: set[int] = set()
        for part in text.split(","):
            match = _PART.fullmatch(part)
            first = int(match[1]) if match and match[1] else least
            last = int(match[2]) if match and match[2] else first if match and match[1] and not match[3] else greatest
            step = int(match[3]) if match and match[3] else 1
            if match is None or step < 1 or not least <= first <= last <= greatest:
                raise reading.wrong(at, f"has the {name} {part}; use *, numbers from {least} to {greatest}, and steps")
            values.update(range(first, last + 1, step))
        numbers.append(frozenset(value % 7 for value in values) if name == "weekday" else frozenset(values))
    return tuple(numbers)
