"""Parses the settings of a folder: `_settings.yaml`.

Promises:
- An unknown or invalid setting is an error with its line. The default never replaces it silently.
- Without the setting `rollout`, a folder has no rollouts.
- A folder's settings are those that the operator reads. If they are invalid, or if two templates folders have the
  resource, the defaults are used: `check` and the operator report the problem.
- A templates folder that does not exist or can't be read has no resources.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, TypeAlias

from ssa_operator.objects.label_selectors import selector_fault
from ssa_operator.objects.live_object import MANAGER
from ssa_operator.objects.messages import near_names
from ssa_operator.objects.parent_settings import MAX_CHILDREN, MAX_DEPTH, AdoptPolicy, ParentSettings
from ssa_operator.objects.predicate import Predicate
from ssa_operator.objects.rollout_settings import Batch, Canary, RolloutSettings, Window
from ssa_operator.objects.scalars import parse_duration
from ssa_operator.rendering.folder.folder_snapshot import read_snapshot
from ssa_operator.rendering.jinja.predicates import PredicateError, compile_predicate
from ssa_operator.rendering.values.limits import MOST_SECONDS
from ssa_operator.rendering.yaml.documents import parse_mapping
from ssa_operator.rendering.yaml.nodes import DocumentError, SlotValues, find_location

SETTINGS = "_settings.yaml"

SCHEMA = "_schema.yaml"
"""The API of the folder in short, from which the CRD is made."""


class Settings(ParentSettings, frozen=True, kw_only=True):
    """The settings of one resource's folder."""

    interval: float | None = None
    """Seconds between two resyncs; None for the operator's interval."""
    version: str | None = None
    """The version of the resource to read; None for the preferred one."""
    former_managers: frozenset[str] = frozenset()
    """Field managers whose fields the operator takes over when it adopts an existing object."""
    suspend_when: Predicate | None = None
    """The expression over a parent that suspends it while it is true; None without one."""
    render_limit: float | None = None
    """Seconds of processor time that one template may take, at most 30; None for one."""
    rollout: RolloutSettings | None = None
    """How a changed template set is rolled out; None for all parents at once."""


DEFAULT = Settings()


def parse_settings(name: str, text: str) -> Settings:
    """The settings in a file's text. Raises DocumentError."""
    found, node = parse_mapping(name, text, f"settings are a mapping of {', '.join(_SETTINGS)}")
    if node is None:
        return DEFAULT
    try:
        return Settings(**_fields(found, _SETTINGS))
    except _WrongSettingError as error:
        location = find_location(node, error.path, SlotValues())
        raise DocumentError(f"{'.'.join(error.path)}{error}", location) from None


class _WrongSettingError(ValueError):
    """A setting at a path. The text goes on after the path."""

    def __init__(self, text: str, path: tuple[str, ...]) -> None:
        super().__init__(text)
        self.path = path


Reader: TypeAlias = Callable[[Any], Any]
"""Gives the value of a setting, None for the default. Raises ValueError with the text after the path of the setting."""


def _fields(found: Any, readers: Mapping[str, Reader]) -> dict[str, Any]:
    """The fields of a mapping of settings, without those that have their default. Raises ValueError."""
    if not isinstance(found, dict):
        raise ValueError(f" must be a mapping of {', '.join(readers)}")  # noqa: TRY004 - a reader raises no other error
    for key in found:
        if key not in readers:
            near = near_names(key, readers, likeness=0.5)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(readers)}"
            raise _WrongSettingError(f" is not a setting; {hint}", (key,))
    fields: dict[str, Any] = {}
    for key, read in readers.items():
        try:
            value = read(found[key]) if key in found else None
        except ValueError as error:
            raise _WrongSettingError(str(error), (key, *getattr(error, "path", ()))) from None
        if value is not None:
            fields[re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", key)] = value
    return fields


def _optional(read: Reader) -> Reader:
    return lambda value: None if value is None else read(value)


def _checked(is_valid: Callable[[Any], bool], text: str) -> Reader:
    def read(value: Any) -> Any:
        if not is_valid(value):
            raise ValueError(text)
        return value

    return read


def _number(least: int, default: str = "") -> Reader:
    return _checked(
        lambda value: type(value) is int and value >= least, f" must be a whole number from {least}{default}"
    )


def _limit(default: int) -> Reader:
    return _optional(_number(1, f"; the default is {default}"))


def _seconds(value: Any, text: str = " is no duration") -> float:
    try:
        return parse_duration(str(value))
    except ValueError as error:
        raise ValueError(f"{text}: {error}") from None


def _time(value: Any, most: float = inf) -> float:
    if (seconds := _seconds(value, "")) <= 0:
        raise ValueError(" must be longer than 0")
    if seconds > most:
        raise ValueError(f" must be at most {most:g}s")
    return seconds


def _adopt(value: Any) -> AdoptPolicy:
    if value not in tuple(AdoptPolicy):
        raise ValueError(f" must be {', '.join(AdoptPolicy)}")
    return AdoptPolicy(value)


def _former_managers(value: Any) -> frozenset[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
        raise ValueError(" must be a list of field managers such as [helm]")
    if MANAGER in value:
        raise ValueError(f": {MANAGER} is the operator itself; remove it")
    return frozenset(value)


_EXPRESSION = _checked(
    lambda value: isinstance(value, str), " must be an expression such as \"labels['x'] == 'true'\", in quotes"
)


def _suspend_when(value: Any) -> Predicate:
    try:
        return compile_predicate(_EXPRESSION(value))
    except PredicateError as error:
        raise ValueError(f" {error}") from None


def _selector(value: Any) -> Any:
    if fault := selector_fault(value):
        raise ValueError(f" {fault}")
    return value


def _canary(value: Any) -> Canary:
    fields = _fields(value, {"selector": _selector, "count": _optional(_number(1))})
    return Canary(**{"count": None if "selector" in fields else 1, **fields})


def _batch(value: Any) -> Batch:
    if type(value) is int and value > 0:
        return Batch(value)
    match = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    if match is None or not 0 < int(match[1]) <= 100:
        raise ValueError(" must be a number of parents from 1, or a percentage such as 10%")
    return Batch(int(match[1]), percent=True)


def _window(value: Any) -> Window:
    fields = _fields(value, {"schedule": _schedule, "duration": _window_length, "timeZone": _time_zone})
    for key in ("schedule", "duration"):
        if key not in fields:
            raise ValueError(f" has no {key}; a window is as in schedule: '0 2 * * 1-5', duration: 4h")
    return Window(**fields.pop("schedule"), **fields)


def _window_length(value: Any) -> float:
    if not 60 <= (seconds := _seconds(value)) <= LONGEST_WINDOW:
        raise ValueError(" must be from 1m to 7d")
    return seconds


def _time_zone(value: Any) -> str:
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - few folders have a window

    try:
        return ZoneInfo(value).key
    except (ValueError, TypeError, OSError, KeyError):  # an unknown zone is a KeyError
        raise ValueError(" must be a time zone such as Etc/UTC or Europe/Berlin") from None


def _schedule(value: Any) -> Mapping[str, Any]:
    """The fields of a Window that a schedule of cron decides."""
    parts = value.split() if isinstance(value, str) else []
    if len(parts) != len(_CRON):
        raise ValueError(" must have the five fields of cron: minute, hour, day, month, weekday, as 0 2 * * 1-5")
    numbers = []
    for (name, least, greatest), text in zip(_CRON, parts, strict=True):
        values: set[int] = set()
        for part in text.split(","):
            match = _PART.fullmatch(part)
            first = int(match[1]) if match and match[1] else least
            last = int(match[2]) if match and match[2] else first if match and match[1] and not match[3] else greatest
            step = int(match[3]) if match and match[3] else 1
            if match is None or step < 1 or not least <= first <= last <= greatest:
                raise ValueError(f" has the {name} {part}; use *, numbers from {least} to {greatest}, and steps")
            values.update(range(first, last + 1, step))
        numbers.append(frozenset(number % 7 for number in values) if name == "weekday" else frozenset(values))
    either_day = not (parts[2].startswith("*") or parts[4].startswith("*"))
    return {"schedule": tuple(numbers), "either_day": either_day, "text": value}


def _rollout(value: Any) -> RolloutSettings:
    return RolloutSettings(**_fields(value, _ROLLOUT))


_PERCENT = re.compile(r"(\d{1,3})%", re.ASCII)

_CRON = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 7))
"""The fields of a schedule, in order, with the least and the greatest number of each."""

_PART = re.compile(r"(?:\*|(\d{1,2})(?:-(\d{1,2}))?)(?:/(\d{1,2}))?", re.ASCII)

LONGEST_WINDOW = 7 * 86400.0
"""Seconds."""

_SETTINGS: Mapping[str, Reader] = {
    "interval": _optional(_time),
    "version": _optional(_checked(lambda value: isinstance(value, str) and value != "", " must be a name such as v1")),
    "clusterScope": _checked(lambda value: isinstance(value, bool), " must be true or false"),
    "formerManagers": _former_managers,
    "suspendWhen": _optional(_suspend_when),
    "maxChildren": _limit(MAX_CHILDREN),
    "maxDepth": _limit(MAX_DEPTH),
    "renderLimit": _optional(partial(_time, most=MOST_SECONDS)),
    "adopt": _adopt,
    "rollout": _optional(_rollout),
}
"""By its key, how each setting is read."""

_ROLLOUT: Mapping[str, Reader] = {
    "canary": _optional(_canary),
    "batch": _batch,
    "settle": _seconds,
    "maxUnready": _number(0),
    "maxPrune": _number(0),
    "window": _optional(_window),
}
"""The same for the setting `rollout`."""


RESOURCE_NAME = re.compile(r"[a-z][a-z0-9-]*(?:\.[a-z0-9-]+)*")
"""The names of template folders: those of resources."""


def read_resource_settings(roots: Iterable[Path]) -> Mapping[str, Settings]:
    """The settings by the name of the resource."""
    found: dict[str, Settings] = {}
    for root in dict.fromkeys(roots):
        with contextlib.suppress(OSError):
            snapshot = read_snapshot(root)
            for name in filter(RESOURCE_NAME.fullmatch, snapshot.folders):
                settings = DEFAULT
                with contextlib.suppress(DocumentError):
                    settings = parse_settings(f"{name}/{SETTINGS}", snapshot.files.get(f"{name}/{SETTINGS}", ""))
                found[name] = DEFAULT if name in found else settings
    return found
