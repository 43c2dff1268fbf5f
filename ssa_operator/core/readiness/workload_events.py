"""Finds why a workload has fewer pods than it wants: its controller writes that into a Warning Event only.

Promises:
- Only a workload that lacks pods, and of which no pod shows a failure, has such a cause. A paused or suspended one
  lacks none.
- The text of an Event is foreign text: it is one line, without control characters, and has a limit.
- If an Event differs from the reported one only in what it quotes, such as the random name of a pod, the reported one
  stays, so that the status isn't written for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from ssa_operator.core.objects.identity import GroupKind, split_api_version
from ssa_operator.core.objects.live_object import MANAGER
from ssa_operator.core.objects.messages import shortened
from ssa_operator.core.objects.visible_text import visible_line

CAUSE_LIMIT = 512
"""Characters of a cause."""

_DAEMON_SET, _JOB = GroupKind("apps", "DaemonSet"), GroupKind("batch", "Job")
_QUOTED = re.compile(r'"[^"]*"')
_AGGREGATED = "(combined from similar events): "
_COUNT = re.compile(r"(?i)^(?!desired|max|min)\w*replicas$")
_WANTED = re.compile(r"(?i)^desired\w*replicas$")


class _Metadata(Struct, frozen=True, rename="camel"):
    creation_timestamp: str | None = None


class _Series(Struct, frozen=True, rename="camel"):
    last_observed_time: str | None = None


class _Source(Struct, frozen=True):
    component: str | None = None


class WarningEvent(Struct, frozen=True, rename="camel"):
    """An Event of type Warning, as the core API has it."""

    metadata: _Metadata = _Metadata()
    reason: str | None = None
    message: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    series: _Series | None = None
    source: _Source | None = None
    reporting_component: str | None = None

    @property
    def time(self) -> str:
        """When it occurred last, to the second; '' where that is unknown."""
        last = self.series.last_observed_time if self.series is not None else None
        times = (last, self.last_timestamp, self.event_time, self.metadata.creation_timestamp)
        # RFC 3339 in UTC sorts as text, and only some of these times have fractions.
        return max((time[:19] for time in times if time), default="")

    @property
    def text(self) -> str:
        """`FailedCreate: create Pod web-0 in StatefulSet web failed error: ...`"""
        message = visible_line((self.message or "").strip().removeprefix(_AGGREGATED))
        return shortened(f"{visible_line(self.reason or 'Warning')}: {message}", CAUSE_LIMIT)


class WarningEvents(Struct, frozen=True):
    """A list of Events."""

    items: list[WarningEvent] | None = None


def lacks_pods(body: Mapping[str, Any]) -> bool:
    """Whether the status of an object counts fewer pods than it wants. Of a kind that this package doesn't know, it
    counts them in fields such as `readyReplicas` and `desiredWorkerReplicas`.
    """
    kind = GroupKind(split_api_version(body.get("apiVersion", ""))[0], body.get("kind", ""))
    spec, status = _mapping(body.get("spec")), _mapping(body.get("status"))
    if spec.get("paused") or spec.get("suspend"):
        return False
    if kind == _DAEMON_SET:
        return _number(status, "currentNumberScheduled") < _number(status, "desiredNumberScheduled")
    if kind == _JOB:
        left = _number(spec, "completions", _number(spec, "parallelism", 1)) - _number(status, "succeeded")
        return _number(status, "active") < min(_number(spec, "parallelism", 1), left)
    if kind.group == "apps":
        return _number(status, "replicas") < _number(spec, "replicas", 1)
    counts = [value for name, value in status.items() if _COUNT.match(name) and type(value) is int]
    wanted = [value for name, value in status.items() if _WANTED.match(name) and type(value) is int]
    wanted.append(_number(spec, "replicas"))
    return bool(counts or len(wanted) > 1) and min(counts, default=0) < max(wanted)


def event_cause(events: Iterable[WarningEvent], reported: str) -> str:
    """The text of the newest Event, '' without any. `reported` is the cause that was found before."""
    others = [event for event in events if MANAGER not in (event.reporting_component, _component(event))]
    newest = max(others, key=lambda event: event.time, default=None)
    if newest is None:
        return ""
    found = newest.text
    return reported if _QUOTED.sub("", reported) == _QUOTED.sub("", found) else found


def _component(event: WarningEvent) -> str | None:
    return event.source.component if event.source is not None else None


def _number(fields: Mapping[str, Any], name: str, otherwise: int = 0) -> int:
    found = fields.get(name)
    return found if type(found) is int else otherwise


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
