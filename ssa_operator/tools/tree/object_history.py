"""What an object and its Events tell of its past: since when it has not been ready, and what happened.

Promises:
- A time comes from the field that makes the object not ready: its deletion, or the condition that its kind's readiness
  rule reads. If the object records no such time, the result is None: the rule guesses nothing.
- A pending claim and a Job without a verdict have not been ready since their creation or start, because they can have
  no earlier state.
- The time of an Event, from either API that has it, is that at which it happened last. Older reporters use the
  deprecated fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from msgspec import Struct

from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.json_codec import mapping
from ssa_operator.objects.readiness import conditions_of
from ssa_operator.objects.scalars import moment_of

_LONGEST = 2**40
"""Seconds."""

_ANY = (("Stalled", ("True",)), ("Reconciling", ("True",)), ("Ready", ("False", "Unknown")))

_CONDITIONS: Mapping[GroupKind, tuple[tuple[str, tuple[str, ...]], ...]] = {
    GroupKind("", "Pod"): (("PodScheduled", ("False",)), ("Ready", ("False", "Unknown"))),
    GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"): (
        ("NamesAccepted", ("False",)),
        ("Established", ("False", "Unknown")),
    ),
    GroupKind("apiregistration.k8s.io", "APIService"): (("Available", ("False", "Unknown")),),
    GroupKind("apps", "Deployment"): (("Progressing", ("False",)), ("Available", ("False", "Unknown"))),
    GroupKind("batch", "Job"): (("Failed", ("True",)), ("FailureTarget", ("True",)), ("Suspended", ("True",))),
}
"""By kind, the conditions that make its objects not ready, the deciding one first. Other kinds have the conditions of
`_ANY`.
"""


def unready_since(body: Mapping[str, Any]) -> str | None:
    """The time since when an object has not been ready, as an RFC 3339 timestamp; None if the object doesn't record it.
    The result is meaningless for an object that is ready.
    """
    metadata, status = body.get("metadata", {}), body.get("status")
    status = status if isinstance(status, Mapping) else {}
    if deletion := metadata.get("deletionTimestamp"):
        return _before(deletion, metadata.get("deletionGracePeriodSeconds") or 0)
    observed = status.get("observedGeneration")
    if isinstance(observed, int) and observed != metadata.get("generation", observed):
        return None  # the conditions are about an earlier generation
    kind = GroupKind.of(body.get("apiVersion", ""), body.get("kind", ""))
    if time := _condition_time(body, _CONDITIONS.get(kind, _ANY)):
        return time
    if kind == GroupKind("", "PersistentVolumeClaim") and status.get("phase", "Pending") == "Pending":
        return _text(metadata.get("creationTimestamp"))
    if kind == GroupKind("batch", "Job"):
        return _text(status.get("startTime")) or _text(metadata.get("creationTimestamp"))
    return None


def _condition_time(body: Mapping[str, Any], deciding: tuple[tuple[str, tuple[str, ...]], ...]) -> str | None:
    """The transition time of the first deciding condition that makes the object not ready."""
    found = {each.get("type"): each for each in conditions_of(body)}
    for name, values in deciding:
        condition = found.get(name, {})
        if condition.get("status") in values:
            return _text(condition.get("lastTransitionTime"))
    return None


def _text(time: object) -> str | None:
    return time if isinstance(time, str) and moment_of(time) is not None else None


def _before(time: object, seconds: object) -> str | None:
    """The time that many seconds earlier; None if the value is not a time."""
    moment = moment_of(time)
    if moment is None or not isinstance(seconds, int) or not 0 <= seconds <= _LONGEST:
        return None
    try:
        moment -= timedelta(seconds=seconds)
    except OverflowError:
        return None
    return f"{moment.replace(tzinfo=None).isoformat()}Z"


class ObjectEvent(Struct, frozen=True, kw_only=True):
    """An Event on an object, '' for what it doesn't say."""

    uid: str
    """The uid of the object that it is about."""
    object: str
    """`Kind/name` of this object."""
    type: str
    reason: str
    note: str
    time: str
    """An RFC 3339 timestamp."""
    reporter: str
    count: int

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> ObjectEvent:
        """The Event of a body of `v1` or `events.k8s.io/v1`."""
        about = mapping(body.get("regarding") or body.get("involvedObject"))
        series = mapping(body.get("series"))
        times = (
            series.get("lastObservedTime"),
            body.get("deprecatedLastTimestamp"),
            body.get("lastTimestamp"),
            body.get("eventTime"),
            mapping(body.get("metadata")).get("creationTimestamp"),
        )
        source = mapping(body.get("source"))
        reporters = (body.get(name) for name in ("reportingController", "reportingComponent"))
        counts = [each for each in (series.get("count"), body.get("count")) if isinstance(each, int)]
        return cls(
            uid=_first_text(about.get("uid")),
            object=f"{about.get('kind', '')}/{about.get('name', '')}",
            type=_first_text(body.get("type")),
            reason=_first_text(body.get("reason")),
            note=_first_text(body.get("note"), body.get("message")),
            time=_first_text(*times),
            reporter=_first_text(*reporters, source.get("component")),
            count=max(counts, default=1),
        )

    @property
    def data(self) -> dict[str, str]:
        """The Event for `--output json`."""
        return {"type": self.type, "reason": self.reason, "note": self.note, "time": self.time}


def _first_text(*values: object) -> str:
    """The first of some values that is a text, '' without one."""
    return next((value for value in values if isinstance(value, str) and value), "")
