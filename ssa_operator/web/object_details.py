"""What is known of one object beside its lines: its conditions, its Events, and the rule that judged it.

Promises:
- The readiness is the one that the operator finds, by the rule that it uses.
- Only the parent, its live children, what these own, and what the templates look up are shown, so that a page of a
  parent reads no other object.
- If an object holds a Secret's content, the texts of its conditions and Events are hidden, because they may quote it.
  So are those of the objects below it, and of a looked-up object that another one made.
- If the operator may not list Events, a note names the permission.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.request import Scope
from ssa_operator.kube.api.resource import Resource
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.messages import visible_line
from ssa_operator.objects.readiness import readiness, rule_of
from ssa_operator.operator.preview import Preview
from ssa_operator.reconcile.child import Child
from ssa_operator.reconcile.parent_state import Parents
from ssa_operator.reconcile.status.child_status import STATUS_HIDDEN
from ssa_operator.tools.command_target import FoundObject
from ssa_operator.tools.owners import owner_chain, read
from ssa_operator.tools.tree.object_events import ObjectEvent
from ssa_operator.tools.tree.tree_view import conditions_of
from ssa_operator.web.looked_up import is_looked_up, owner_of

CORE_EVENTS = Resource(group="", version="v1", kind="Event", plural="events", namespaced=True)
"""Only the core API selects Events by the object that they are about."""

MAX_EVENTS = 50

_TEXTS = ("type", "status", "reason", "message", "lastTransitionTime")


async def details_of_parent(client: Client, found: FoundObject, *, events: bool) -> dict[str, Any]:
    """The conditions and Events of a parent. `events` says whether the reader may list Events."""
    return {"conditions": _conditions(found.live, hidden=False)} | await _events(
        client, found.live, hidden=found.resource.confidential, allowed=events
    )


async def details_of_child(
    preview: Preview,
    client: Client,
    mapper: RESTMapper,
    parents: Parents,
    found: FoundObject,
    child: Identity,
    now: float,
    *,
    events: bool,
) -> dict[str, Any] | None:
    """The conditions, the Events and the readiness of a child, of an object below one, or of one that a template looks
    up; None if it is none of them. Raises ApiError.
    """
    planned = await preview.plan(parents.parent(found.live))
    steps = {step.identity: step for step in preview.steps(planned)}
    own = {live.identity: live for live in planned.observed.children.own}
    own |= {identity: step.live for identity, step in steps.items() if step.live is not None}
    live, step = own.get(child), steps.get(child)
    hidden = bool(planned.secrets.of(child))
    if live is None:
        live = await read(client, mapper, child)
        if live is None:
            return None
        above = await _child_above(client, mapper, live, own)
        if above is None and not is_looked_up(preview, planned, child):
            return None
        hidden = bool(owner_of(live) if above is None else planned.secrets.of(above))
    hidden = hidden or child.group_kind == GroupKind("", "Secret")
    return {
        "conditions": _conditions(live, hidden=hidden),
        "readiness": _readiness(live, step, now, hidden=hidden),
    } | await _events(client, live, hidden=hidden, allowed=events)


def _readiness(live: LiveObject, step: Child | None, now: float, *, hidden: bool) -> dict[str, str]:
    if step is None:
        found, rule = readiness(live.body, now), rule_of(live.body, now)
    else:
        found = step.readiness_of(live, now)
        rule = rule_of(live.body, now, reports_status=step.reports_status, ready_when=step.rule)
    message = STATUS_HIDDEN if hidden and found.message else found.message
    return {"state": found.state.value, "rule": rule} | ({"message": message} if message else {})


def _conditions(live: LiveObject, *, hidden: bool) -> list[dict[str, str]]:
    """The conditions of any object, with their texts alone."""
    return [
        {
            part: STATUS_HIDDEN if hidden and part == "message" else each[part]
            for part in _TEXTS
            if isinstance(each.get(part), str) and each[part]
        }
        for each in conditions_of(live)
    ]


async def _events(client: Client, live: LiveObject, *, hidden: bool, allowed: bool) -> dict[str, Any]:
    namespace = live.identity.namespace or "default"
    scope = Scope(CORE_EVENTS, namespace, field_selector=f"involvedObject.uid={live.uid}")
    if not allowed:
        return {"events": [], "notes": ["Events are not shown, because you may not list them"]}
    try:
        lives, _ = await client.list_scope(scope)
    except ApiError as error:
        if not error.forbidden:
            raise
        return {"events": [], "notes": ["Events are not shown, because the operator may not list them"]}
    found = sorted((ObjectEvent.of(each.body) for each in lives), key=lambda event: event.time, reverse=True)
    return {"events": [_event(each, hidden=hidden) for each in found[:MAX_EVENTS]], "notes": []}


def _event(event: ObjectEvent, *, hidden: bool) -> dict[str, Any]:
    data = {
        "type": event.type or "Normal",
        "reason": visible_line(event.reason),
        "note": STATUS_HIDDEN if hidden else visible_line(event.note.strip()),
        "time": event.time,
        "reporter": visible_line(event.reporter),
    }
    return data | ({"count": event.count} if event.count > 1 else {})


async def _child_above(
    client: Client, mapper: RESTMapper, live: LiveObject, children: Mapping[Identity, LiveObject]
) -> Identity | None:
    """The child of the parent that an object is below, None if it is below none."""
    uids = {child.uid: identity for identity, child in children.items()}
    async for each in owner_chain(client, mapper, live):
        owners = sorted(each.owner_references, key=lambda reference: not reference.controller)
        if above := next((uids[owner.uid] for owner in owners if owner.uid in uids), None):
            return above
    return None
