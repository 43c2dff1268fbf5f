"""What a page shows of one object: its conditions, its Events, the rule that judged it, its lines with their writers,
what an apply would change in it; and what one template file renders for a parent.

Promises:
- Readiness, writers and changes are those of the operator, of `ssa-operator blame` and of `ssa-operator diff`. Each
  write is a dry run. A file renders the manifests that a reconcile would apply now, by the last good templates.
- Only the parent, its live children, what these own, and what the templates look up are shown, so that a page of a
  parent reads no other object. What an apply would change, or a file renders, leaves out objects that the reader may
  not get.
- No Secret's content. Of an object that holds any, the texts of conditions and Events are hidden, because they may
  quote it; so are those of the objects below it, and of a looked-up object that another one made, which has no lines.
- If the operator may not list Events, a note names the permission.

https://kubernetes.io/docs/reference/using-api/api-concepts/#dry-run
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from msgspec.structs import replace

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.request import Scope
from ssa_operator.kube.api.resource import Resource
from ssa_operator.objects.field_attribution import Attribution
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.messages import visible_line
from ssa_operator.objects.readiness import conditions_of, readiness, rule_of
from ssa_operator.objects.secret_fields import HIDDEN
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.operator.preview import Planned, Preview
from ssa_operator.reconcile.child import Action, Child
from ssa_operator.reconcile.parent_state import Parents
from ssa_operator.reconcile.secrets.content_fields import fields_of, hidden_in_manifest, replaced
from ssa_operator.reconcile.secrets.redacted_report import redacted_outcomes
from ssa_operator.reconcile.status.child_status import STATUS_HIDDEN
from ssa_operator.rendering.folder.loaded_folders import Folder
from ssa_operator.rendering.yaml.to_yaml import yaml_lines
from ssa_operator.tools.blamed_object import BlamedObject, blamed_children, blamed_looked_up
from ssa_operator.tools.command_target import FoundObject
from ssa_operator.tools.owners import owner_chain, read
from ssa_operator.tools.plan.changes import changes_data, parent_changes
from ssa_operator.tools.plan.previews import NamedParent
from ssa_operator.tools.tree.object_history import ObjectEvent
from ssa_operator.web.parent_page import MayGet, is_looked_up, key_of, node_key, owner_of

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
        for each in conditions_of(live.body)
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


async def manifest_of(
    preview: Preview, client: Client, mapper: RESTMapper, parents: Parents, found: FoundObject, child: Identity
) -> dict[str, Any] | None:
    """The lines of an object, None if it is no live child of the parent, and no live object that its templates look up.
    Raises ApiError.
    """
    parent, key = parents.parent(found.live), key_of(child)
    for one in await blamed_children(preview, parent, lambda identity: key_of(identity) == key):
        data: dict[str, Any] = {"lines": list(_lines(one))}
        return data | ({"note": one.note} if one.note else {})
    if not is_looked_up(preview, await preview.plan(parent), child):
        return None
    live = await read(client, mapper, child)
    if live is None:
        return None
    if owner := owner_of(live):
        note = f"{owner} made it: its lines are not shown, because they may be a Secret's content"
        return {"lines": [], "note": note}
    other = await blamed_looked_up(preview, live)
    return None if other is None else {"lines": list(_lines(other))}


def _lines(blamed: BlamedObject) -> Iterator[dict[str, Any]]:
    fields = {field.path: field for field in blamed.fields}
    for line in yaml_lines(blamed.body):
        field = None if line.field is None else fields.get(line.field)
        yield {"text": line.text} if field is None else {"text": line.text, **_written(blamed, field)}


def _written(blamed: BlamedObject, field: Attribution) -> dict[str, Any]:
    """Who wrote a field. Its value is in the text."""
    data = {name: value for name, value in blamed.field_data(field).items() if name != "value"}
    return {"writer": field.writer.value, **data}


async def changes_now(
    preview: Preview, parents: Parents, found: FoundObject, child: str, may_get: MayGet
) -> dict[str, Any]:
    """What an apply of the parent would change now, or of one child (`node_key`). Raises ApiError."""
    parent = parents.parent(found.live)
    planned = await preview.plan(parent)
    if child:
        planned = _only(planned, child)
    outcomes = await preview.dry_run(planned, as_resumed=True)
    changes = parent_changes(NamedParent(parent=parent), planned, outcomes, secrets.token_bytes(16))
    hidden = {each.identity for each in changes.objects if not await may_get(preview.placed(planned)(each.identity))}
    shown = tuple(each for each in changes.objects if each.identity not in hidden)
    data = changes_data(replace(changes, objects=shown))
    if hidden:
        kinds = ", ".join(sorted({each.kind for each in hidden}))
        data["notes"].append(f"objects of these kinds are not shown, because you may not get them: {kinds}")
    if child:
        data["objects"] = [each for each in data["objects"] if node_key(each) == child]
    return data


def _only(planned: Planned, child: str) -> Planned:
    """The plan of one child. Whether an object is pruned depends on all others."""
    steps = tuple(step for step in planned.plan.steps if key_of(step.identity) == child)
    if not steps or any(step.action in (Action.PRUNE, Action.KEEP) for step in steps):
        return planned
    return replace(planned, plan=replace(planned.plan, steps=steps))


MAX_LINES = 2_000
"""Lines of an answer."""


async def rendered_file(
    preview: Preview, folder: Folder, parents: Parents, found: FoundObject, file: str, may_get: MayGet
) -> dict[str, Any]:
    """What a file of a folder renders for a parent: `documents` of `lines`, `problems`, `waits`. Raises ApiError."""
    planned = await preview.plan(replace(parents.parent(found.live), folder=folder))
    placed = preview.placed(planned)
    documents: list[dict[str, Any]] = []
    notes, left = [], MAX_LINES
    for step in preview.steps(planned):
        if not line_in(file, step.location):
            continue
        if not await may_get(placed(step.identity)):
            notes.append(f"a {step.identity.kind} is not shown, because you may not get it")
            continue
        document = _document(step, planned, file, left)
        left -= len(document["lines"])
        documents.append(document)
    if left <= 0:
        notes.append(f"only the first {MAX_LINES} lines are shown")
    problems = [each for each in planned.rendered.problems if not each.outdated]
    here = [each for each in problems if line_in(file, each.location)]
    # A wait for a whole file has no step.
    waits = [each for each in planned.rendered.waits if not each.identity and line_in(file, each.location)]
    return {
        "documents": documents,
        "problems": [{"message": each.message, "line": line_in(file, each.location)} for each in here],
        "waits": [{"message": f"a document is {each}", "line": line_in(file, each.location)} for each in waits],
        "elsewhere": len(problems) - len(here),
        "notes": list(dict.fromkeys(notes)),
    }


def line_in(file: str, location: SourceLocation | None) -> int:
    """The line of a file that writes what is at a location, or that includes the file that does; 0 if none does."""
    if location is None:
        return 0
    return next((each.line for each in (location, *location.included_from) if each.file == file), 0)


def _document(step: Child, planned: Planned, file: str, most: int) -> dict[str, Any]:
    shown = redacted_outcomes([step], planned.secrets)[0]
    data: dict[str, Any] = {
        "kind": shown.identity.kind,
        "name": shown.identity.name,
        "line": line_in(file, step.location),
        "lines": list(_rendered_lines(step, planned, file, most)),
    }
    return data | ({"message": shown.reason} if step.manifest is None and shown.reason else {})


def _rendered_lines(step: Child, planned: Planned, file: str, most: int) -> Iterator[dict[str, Any]]:
    if step.manifest is None:
        return
    document = step.manifest.document
    hidden = hidden_in_manifest(document.body, fields_of(step, planned.secrets))
    body = replaced(document.body, hidden, lambda *_: HIDDEN)
    for line in islice(yaml_lines(body), most):
        at = 0 if line.field is None else line_in(file, document.location_of(line.field))
        yield {"text": line.text} | ({"line": at} if at else {})
