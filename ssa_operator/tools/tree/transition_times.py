"""Since when an object has not been ready, read from the object itself.

Promises:
- A time comes from the field that makes the object not ready: its deletion, or the condition that its kind's readiness
  rule reads. If the object records no such time, the result is None: the rule guesses nothing.
- A pending claim and a Job without a verdict have not been ready since their creation or start, because they can have
  no earlier state.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from ssa_operator.objects.identity import GroupKind
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
    if time := _condition_time(status.get("conditions"), _CONDITIONS.get(kind, _ANY)):
        return time
    if kind == GroupKind("", "PersistentVolumeClaim") and status.get("phase", "Pending") == "Pending":
        return _text(metadata.get("creationTimestamp"))
    if kind == GroupKind("batch", "Job"):
        return _text(status.get("startTime")) or _text(metadata.get("creationTimestamp"))
    return None


def _condition_time(conditions: object, deciding: tuple[tuple[str, tuple[str, ...]], ...]) -> str | None:
    """The transition time of the first deciding condition that makes the object not ready."""
    if not isinstance(conditions, list):
        return None
    found = {each.get("type"): each for each in conditions if isinstance(each, Mapping)}
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
