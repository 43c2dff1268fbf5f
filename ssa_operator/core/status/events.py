"""What a pass tells as Kubernetes events on the parent.

Promises:
- One event a pass for each thing that was done, with the children that it was done to; one for a verdict that a user
  should see, when it changes; nothing for a pass that changed nothing.
- Whatever a status may say, an event may, and nothing else: never a Secret's content.
- Notes keep to the API's limit of 1024 characters.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ssa_operator.core.objects.identity import Identity
from ssa_operator.core.objects.live_object import MANAGER, LiveObject
from ssa_operator.core.planning.outcome import Outcome, Result
from ssa_operator.core.status.conditions import live_condition
from ssa_operator.core.status.report import Report
from ssa_operator.core.status.verdict import Verdict

API_VERSION = "events.k8s.io/v1"
NOTE_LIMIT = 1024
_NAMED = 20
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUIET = frozenset({"Progressing", "WaitingForDependency", "Deleting"})
"""Reasons of Ready that come and go by themselves, or that somebody asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing to tell: `reason` for machines, `action` that was taken, `note` for people.

    about: the child that it concerns, where it is only one.
    """

    reason: str
    action: str
    note: str
    warning: bool = False
    about: LiveObject | None = None


@dataclass(frozen=True, slots=True)
class EventSeries:
    """How often the same was told, and when last (seconds since the epoch)."""

    count: int
    last: float


def events(before: Report | None, parent: LiveObject, report: Report, *, shown: bool = True) -> tuple[Event, ...]:
    """What a pass tells. `before` is the last report, None for the first of a process: then what the parent's status
    says already is not told again. `shown` is whether the status can show conditions: where it can't, an Event says
    also what the parent waits for.
    """
    told = [*_done(report.outcomes), *_warnings(report.outcomes)]
    known = before.verdict if before is not None else _told_verdict(parent)
    verdict = _verdict(known, report.verdict, shown=shown)
    if verdict is not None:
        told.append(verdict)
    if report.notice and (before is None or not before.notice):
        told.append(Event(reason="StatusConflict", action="WriteStatus", note=report.notice, warning=True))
    if report.feedback_loop and (before is None or not before.feedback_loop):
        told.append(Event(reason="EndlessChange", action="Apply", note=report.feedback_loop, warning=True))
    return tuple(told)


def status_refused(error: str) -> Event:
    """What is told where the API server doesn't take a parent's status: its status can't say so itself."""
    note = f"the status can't be written: {error}"
    return Event(reason="StatusRefused", action="WriteStatus", note=note, warning=True)


def status_undeclared(sentence: str) -> Event:
    """What is told where a parent's CRD keeps the operator from reporting in its status."""
    return Event(reason="StatusNotDeclared", action="WriteStatus", note=sentence)


def body(event: Event, regarding: LiveObject, instance: str, now: float) -> dict[str, Any]:
    """The Event object; `instance` is which operator says it, `now` is in seconds since the epoch."""
    namespace = regarding.identity.namespace or "default"
    written: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": "Event",
        "metadata": {"name": _name(event, regarding, instance, now), "namespace": namespace},
        "eventTime": micro_time(now),
        "reportingController": MANAGER,
        "reportingInstance": instance[:128],
        "type": "Warning" if event.warning else "Normal",
        "reason": event.reason,
        "action": event.action,
        "note": bounded(event.note),
        "regarding": reference(regarding),
    }
    if event.about is not None:
        written["related"] = reference(event.about)
    return written


def series_body(series: EventSeries) -> dict[str, Any]:
    """The patch that says that the same was told again; nothing else of an event may change."""
    return {"series": {"count": series.count, "lastObservedTime": micro_time(series.last)}}


def reference(live: LiveObject) -> dict[str, str]:
    """An object as an event points to it."""
    identity = live.identity
    found = {
        "apiVersion": f"{identity.group}/{live.version}" if identity.group else live.version,
        "kind": identity.kind,
        "namespace": identity.namespace,
        "name": identity.name,
        "uid": live.uid,
    }
    return {key: value for key, value in found.items() if value}


def micro_time(seconds: float) -> str:
    """A moment (seconds since the epoch) as Kubernetes' metav1.MicroTime wants it: always with six digits."""
    moment = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
    return f"{moment.isoformat(timespec='microseconds')}Z"


def bounded(note: str) -> str:
    """The note in what the API server takes; it counts bytes."""
    encoded = note.encode()
    return note if len(encoded) <= NOTE_LIMIT else encoded[: NOTE_LIMIT - 3].decode(errors="ignore") + "…"


def _done(outcomes: Sequence[Outcome]) -> Iterator[Event]:
    for outcome in outcomes:
        change = outcome.step.foreign_change
        if change is not None and outcome.result in (Result.CREATED, Result.CONFIGURED):
            identity = outcome.step.identity
            note = f"made {identity} again: it was deleted" if change.deleted else f"put {identity} back: "
            yield Event(
                reason="Repaired",
                action="Apply",
                note=note if change.deleted else note + outcome.step.reason,
                about=outcome.live,
            )
    others = [outcome for outcome in outcomes if outcome.step.foreign_change is None]
    for result, reason, action, verb in (
        (Result.CREATED, "Created", "Create", "created"),
        (Result.CONFIGURED, "Changed", "Apply", "changed"),
        (Result.RECREATED, "Recreated", "Recreate", "deleted and made again"),
        (Result.PRUNED, "Pruned", "Delete", "deleted"),
    ):
        found = [outcome for outcome in others if outcome.result is result]
        if found:
            note = f"{verb} {_names(outcome.step.identity for outcome in found)}"
            if len({outcome.step.reason for outcome in found}) == 1 and result is not Result.CREATED:
                note += f": {found[0].step.reason}"
            yield Event(reason=reason, action=action, note=note, about=found[0].live if len(found) == 1 else None)


def _warnings(outcomes: Sequence[Outcome]) -> Iterator[Event]:
    for outcome in outcomes:
        for text in outcome.warnings:
            note = f"{outcome.step.identity}: {text}"
            yield Event(reason="APIWarning", action="Apply", note=note, warning=True, about=outcome.live)


def _verdict(before: Verdict | None, after: Verdict, *, shown: bool) -> Event | None:
    if before is not None and (before.reason, before.message) == (after.reason, after.message):
        return None
    if after.ready:
        if before is not None and before.ready:
            return None
        return Event(reason="Ready", action="Reconcile", note=after.message)
    if after.reason in _QUIET:
        if after.reason == "WaitingForDependency" and not shown:
            return Event(reason=after.reason, action="Reconcile", note=after.message, warning=after.stalled)
        if after.reason == "Deleting" or not after.stalled:
            return None
        return Event(reason="ChildFailed", action="Reconcile", note=after.message, warning=True)
    return Event(reason=after.reason, action="Reconcile", note=after.message, warning=True)


def _told_verdict(parent: LiveObject) -> Verdict | None:
    """The verdict that the parent's status holds, None where there is none."""
    condition = live_condition(parent, "Ready")
    if condition is None:
        return None
    reason, message = str(condition.get("reason", "")), str(condition.get("message", ""))
    return Verdict(ready=condition.get("status") == "True", reason=reason, message=message)


def _names(identities: Iterable[Identity]) -> str:
    names = [str(identity) for identity in identities]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _name(event: Event, regarding: LiveObject, instance: str, now: float) -> str:
    """A name that no other event has: what is told, of which object, by whom, when."""
    told = f"{regarding.uid}/{instance}/{now!r}/{event.reason}/{event.action}/{event.note}"
    token = hashlib.blake2b(told.encode(), digest_size=8).hexdigest()
    name = regarding.identity.name
    # Some kinds (ClusterRole) have names that an event may not have.
    return f"{name[:200].rstrip('.-')}.{token}" if _NAME.fullmatch(name) else f"{MANAGER}.{token}"
