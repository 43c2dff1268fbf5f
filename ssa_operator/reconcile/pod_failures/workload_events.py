"""Finds why an object isn't ready by its Events: many controllers write the reason into a Warning Event only.

Promises:
- The newest Warning Event is the cause. For a claim without one, the cause is its newest Event: a Normal Event says
  that it waits for its first pod, or for an external provisioner.
- Only an object that isn't ready has a cause, and a workload only if no pod of it shows a failure. A paused or
  suspended one has none.
- The text of an Event is foreign text: it is one line, without control characters, and has a limit.
- If an Event differs from the reported one only in what it quotes, such as the random name of a pod, the reported one
  stays, so that the status isn't written for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from ssa_operator.objects.identity import GroupKind, is_built_in
from ssa_operator.objects.json_codec import mapping
from ssa_operator.objects.live_object import MANAGER, LiveObject
from ssa_operator.objects.messages import shortened, visible_line

CAUSE_LIMIT = 512
"""Characters of a cause."""

CLUSTER_SCOPED = "default"
"""The namespace of the Events on cluster-scoped objects."""

_CLAIM = GroupKind("", "PersistentVolumeClaim")
_CRON_JOB = GroupKind("batch", "CronJob")
_REPORTING = frozenset({
    *(GroupKind("apps", kind) for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")),
    GroupKind("batch", "Job"), _CRON_JOB, _CLAIM, GroupKind("", "Pod"), GroupKind("", "Service"),
    GroupKind("networking.k8s.io", "Ingress"), GroupKind("autoscaling", "HorizontalPodAutoscaler"),
    GroupKind("policy", "PodDisruptionBudget"),
})  # fmt: skip
"""The built-in kinds about which controllers write why they are not ready."""

_DAEMON_SET, _JOB = GroupKind("apps", "DaemonSet"), GroupKind("batch", "Job")
_QUOTED = re.compile(r'"[^"]*"')
_AGGREGATED = "(combined from similar events): "


class _Metadata(Struct, frozen=True, rename="camel"):
    creation_timestamp: str | None = None


class _EventSeries(Struct, frozen=True, rename="camel"):
    last_observed_time: str | None = None


class _Source(Struct, frozen=True):
    component: str | None = None


class ObjectEvent(Struct, frozen=True, rename="camel"):
    """An Event, as the core API has it."""

    type: str | None = None
    metadata: _Metadata = _Metadata()
    reason: str | None = None
    message: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    series: _EventSeries | None = None
    source: _Source | None = None
    reporting_component: str | None = None

    @property
    def time(self) -> str:
        """When it occurred last, to the second; '' if that is unknown."""
        last = self.series.last_observed_time if self.series is not None else None
        times = (last, self.last_timestamp, self.event_time, self.metadata.creation_timestamp)
        # RFC 3339 in UTC sorts as text, and only some of these times have fractions.
        return max((time[:19] for time in times if time), default="")

    @property
    def text(self) -> str:
        """`FailedCreate: create Pod web-0 in StatefulSet web failed error: ...`"""
        message = visible_line((self.message or "").strip().removeprefix(_AGGREGATED))
        return shortened(f"{visible_line(self.reason or 'Warning')}: {message}", CAUSE_LIMIT)


class ObjectEvents(Struct, frozen=True):
    """A list of Events."""

    items: list[ObjectEvent] | None = None


def has_events(kind: GroupKind) -> bool:
    """Whether controllers may write Events about the objects of a kind: a custom one, or a built-in one that is known
    for it.
    """
    return kind in _REPORTING or not is_built_in(kind.group)


def events_selector(live: LiveObject) -> str:
    """The field selector of the Events that may say why an object isn't ready. A CronJob's are those of the Job that it
    created last, while that runs.
    """
    if live.identity.group_kind == _CLAIM:
        return f"involvedObject.uid={live.uid}"
    uid = live.uid
    active = mapping(live.body.get("status")).get("active")
    if live.identity.group_kind == _CRON_JOB and active:
        uid = mapping(active[-1]).get("uid") or uid
    return f"involvedObject.uid={uid},type=Warning"


def is_paused(body: Mapping[str, Any]) -> bool:
    """Whether an object is not ready because its author paused it."""
    spec = mapping(body.get("spec"))
    return bool(spec.get("paused") or spec.get("suspend"))


def lacks_pods(body: Mapping[str, Any]) -> bool:
    """Whether the status of a built-in workload counts fewer pods than it wants."""
    kind = GroupKind.of(body.get("apiVersion", ""), body.get("kind", ""))
    spec, status = mapping(body.get("spec")), mapping(body.get("status"))
    if is_paused(body):
        return False
    if kind == _DAEMON_SET:
        return _number(status, "currentNumberScheduled") < _number(status, "desiredNumberScheduled")
    if kind == _JOB:
        left = _number(spec, "completions", _number(spec, "parallelism", 1)) - _number(status, "succeeded")
        return _number(status, "active") < min(_number(spec, "parallelism", 1), left)
    return kind.group == "apps" and _number(status, "replicas") < _number(spec, "replicas", 1)


def event_cause(events: Iterable[ObjectEvent], reported: str) -> str:
    """The text of the newest Warning Event, without one of the newest Event, '' without any. `reported` is the cause
    that was found before.
    """
    others = [event for event in events if MANAGER not in (event.reporting_component, _component(event))]
    newest = max(others, key=lambda event: (event.type == "Warning", event.time), default=None)
    if newest is None:
        return ""
    found = newest.text
    return reported if _QUOTED.sub("", reported) == _QUOTED.sub("", found) else found


def _component(event: ObjectEvent) -> str | None:
    return event.source.component if event.source is not None else None


def _number(fields: Mapping[str, Any], name: str, otherwise: int = 0) -> int:
    found = fields.get(name)
    return found if type(found) is int else otherwise
