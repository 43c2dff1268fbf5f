"""Makes the Events of a reconcile, which the operator records on the parent.

Promises:
- A reconcile emits one Event for each kind of change, with the children that it changed, and one Event for a new
  verdict that a user should see. If the change made the parent ready, its Event says so, and there is no second one.
- An Event contains only what a status may contain, and never the content of a Secret.
- The operator cuts notes to the API server's limit of 1024 bytes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import MANAGER, LiveObject
from ssa_operator.objects.readiness import condition_of
from ssa_operator.objects.render_result import TemplateWarning
from ssa_operator.objects.scalars import micro_time
from ssa_operator.reconcile.child import Child, Result
from ssa_operator.reconcile.status.child_status import kept_text
from ssa_operator.reconcile.status.report import Report
from ssa_operator.reconcile.status.verdict import Verdict

API_VERSION = "events.k8s.io/v1"
NOTE_LIMIT = 1024
_NAMES_LIMIT = 20
"""Children that a note names."""
_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_TRANSIENT = frozenset({"Progressing", "WaitingForDependency", "Deleting"})
"""Reasons of Ready that come and go by themselves, or that a user asked for. No Event has them, with two exceptions in
`_verdict_event`.
"""


class Event(Struct, frozen=True, kw_only=True):
    """One Event on a parent, before it is counted in a series or written."""

    reason: str
    """The reason for machines, in CamelCase."""
    action: str
    """The action that the operator took."""
    note: str
    """The message for users."""
    warning: bool = False
    """Whether the type is Warning instead of Normal."""
    about: LiveObject | None = None
    """The child that the Event is about, None if it is about several or the parent."""
    regarding: LiveObject | None = None
    """The object that the Event is on, None for the parent."""


def events(before: Report | None, parent: LiveObject, report: Report, *, shown: bool = True) -> tuple[Event, ...]:
    """The Events of a reconcile. `before` is the last report, None for the first of a process: then the verdict in the
    parent's status is not emitted again. `shown` is whether the status can show conditions; where it can't, an Event
    also reports what the parent waits for.
    """
    emitted = [*_change_events(report.outcomes)]
    earlier = before.verdict if before is not None else reported_verdict(parent)
    verdict = _verdict_event(earlier, report.verdict, shown=shown)
    if verdict is not None and report.verdict.ready and emitted and not emitted[-1].warning:
        emitted[-1] = replace(emitted[-1], note=f"{emitted[-1].note}; {verdict.note}")
        verdict = None
    for outcome in report.outcomes:
        for text in outcome.warnings:
            note = f"{outcome.identity}: {text}"
            emitted.append(Event(reason="APIWarning", action="Apply", note=note, warning=True, about=_about(outcome)))
    for outcome, why in newly_kept(before, report):
        note = f"{outcome.identity}: {kept_text(why)}"
        emitted.append(Event(reason="ChildKept", action="Reconcile", note=note, warning=True, about=_about(outcome)))
    if verdict is not None:
        emitted.append(verdict)
    if report.notice and (before is None or not before.notice):
        emitted.append(Event(reason="StatusConflict", action="WriteStatus", note=report.notice, warning=True))
    if report.records_notice and (before is None or before.records_notice != report.records_notice):
        emitted.append(Event(reason="RecordsLost", action="Reconcile", note=report.records_notice, warning=True))
    if report.feedback_loop and (before is None or not before.feedback_loop):
        emitted.append(Event(reason="EndlessChange", action="Apply", note=report.feedback_loop, warning=True))
    known = set(before.warnings) if before is not None else set()
    emitted += [_template_event(each, parent) for each in report.warnings if each not in known]
    return tuple(emitted)


def _template_event(warning: TemplateWarning, parent: LiveObject) -> Event:
    metadata = {"name": warning.name, "namespace": warning.namespace, "uid": warning.uid}
    live = LiveObject.of({"apiVersion": warning.api_version, "kind": warning.kind, "metadata": metadata})
    return Event(reason=warning.reason, action="Warn", note=warning.message, warning=True, about=parent, regarding=live)


def newly_kept(before: Report | None, report: Report) -> list[tuple[Child, str]]:
    """The children that the parent never deletes because it lives in them, each with the reason, without those that
    the last report already had as such. The first reconcile of a process has those that it changed.
    """
    known = before.kept if before else frozenset()
    changed = (Result.CREATED, Result.CONFIGURED)
    return [
        (outcome, why)
        for outcome in report.outcomes
        if (why := outcome.why_kept) and outcome.identity not in known and (before or outcome.result in changed)
    ]


def event_body(event: Event, regarding: LiveObject, instance: str, now: float) -> dict[str, Any]:
    """The Event object; `instance` names the process, `now` is in seconds since the epoch."""
    namespace = regarding.identity.namespace or "default"
    body: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": "Event",
        "metadata": {"name": _name(event, regarding, instance, now), "namespace": namespace},
        "eventTime": micro_time(now),
        "reportingController": MANAGER,
        "reportingInstance": instance[:128],
        "type": "Warning" if event.warning else "Normal",
        "reason": event.reason,
        "action": event.action,
        "note": bounded_note(event.note),
        "regarding": reference(regarding),
    }
    if event.about is not None:
        body["related"] = reference(event.about)
    return body


def reference(live: LiveObject) -> dict[str, str]:
    """The reference to an object in an Event."""
    identity = live.identity
    found = {
        "apiVersion": f"{identity.group}/{live.version}" if identity.group else live.version,
        "kind": identity.kind,
        "namespace": identity.namespace,
        "name": identity.name,
        "uid": live.uid,
    }
    return {key: value for key, value in found.items() if value}


def bounded_note(note: str) -> str:
    """The note, cut to the limit of the API server, which counts bytes."""
    encoded = note.encode()
    return note if len(encoded) <= NOTE_LIMIT else encoded[: NOTE_LIMIT - 3].decode(errors="ignore") + "…"


def _change_events(outcomes: Sequence[Child]) -> Iterator[Event]:
    for outcome in outcomes:
        change = outcome.foreign_change
        if change is not None and outcome.result in (Result.CREATED, Result.CONFIGURED):
            deleted = f"recreated {outcome.identity}: it was deleted"
            note = deleted if change.deleted else f"reverted {outcome.identity}: {outcome.reason}"
            yield Event(reason="Repaired", action="Apply", note=note, about=_about(outcome))
        if outcome.message and outcome.result in (Result.CONFIGURED, Result.UNCHANGED):
            note = f"{outcome.identity}: {outcome.message}"
            yield Event(reason="FieldsLeft", action="Apply", note=note, warning=True, about=_about(outcome))
    others = [outcome for outcome in outcomes if outcome.foreign_change is None]
    for result, reason, action, verb in (
        (Result.CREATED, "Created", "Create", "created"),
        (Result.CONFIGURED, "Changed", "Apply", "changed"),
        (Result.RECREATED, "Recreated", "Recreate", "deleted and recreated"),
        (Result.PRUNED, "Pruned", "Delete", "deleted"),
    ):
        found = [outcome for outcome in others if outcome.result is result]
        if found:
            note = f"{verb} {_names(outcome.identity for outcome in found)}"
            if len({outcome.reason for outcome in found}) == 1 and result is not Result.CREATED:
                note += f": {found[0].reason}"
            yield Event(reason=reason, action=action, note=note, about=_about(found[0]) if len(found) == 1 else None)


def _about(outcome: Child) -> LiveObject | None:
    """The object of an outcome, None if its name is hidden: the Event would show it."""
    live = outcome.live
    return live if live is not None and live.identity == outcome.identity else None


def _verdict_event(before: Verdict | None, after: Verdict, *, shown: bool) -> Event | None:
    if before is not None and (before.reason, before.message) == (after.reason, after.message):
        return None
    if after.ready:
        if before is not None and before.ready:
            return None
        return Event(reason="Ready", action="Reconcile", note=after.message)
    if after.reason in _TRANSIENT:
        if after.reason == "WaitingForDependency" and not shown:
            return Event(reason=after.reason, action="Reconcile", note=after.message, warning=after.stalled)
        if after.reason == "Deleting" or not after.stalled:
            return None
        return Event(reason="ChildFailed", action="Reconcile", note=after.message, warning=True)
    return Event(reason=after.reason, action="Reconcile", note=after.message, warning=True)


def reported_verdict(parent: LiveObject) -> Verdict | None:
    """The verdict in the parent's status, None without one."""
    condition = condition_of(parent.body, "Ready")
    if condition is None:
        return None
    reason, message = str(condition.get("reason", "")), str(condition.get("message", ""))
    return Verdict(ready=condition.get("status") == "True", reason=reason, message=message)


def _names(identities: Iterable[Identity]) -> str:
    names = [str(identity) for identity in identities]
    more = f" and {len(names) - _NAMES_LIMIT} more" if len(names) > _NAMES_LIMIT else ""
    return ", ".join(names[:_NAMES_LIMIT]) + more


def _name(event: Event, regarding: LiveObject, instance: str, now: float) -> str:
    """A unique name: it follows from the content of the Event, the object, the process and the time."""
    content = f"{regarding.uid}/{instance}/{now!r}/{event.reason}/{event.action}/{event.note}"
    token = hashlib.blake2b(content.encode(), digest_size=8).hexdigest()
    name = regarding.identity.name
    # Some kinds (ClusterRole) allow names that are invalid for an Event.
    return f"{name[:200].rstrip('.-')}.{token}" if re.fullmatch(_NAME, name) else f"{MANAGER}.{token}"
