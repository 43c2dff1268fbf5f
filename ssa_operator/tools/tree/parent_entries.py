"""Reads parents from the cluster, with their conditions and children, for `ssa-operator status`.

Promises:
- The output has the conditions and children exactly as the operator reported them.
- If the CRD of a parent can't have `status.resources`, the command lists the children by their label, computes their
  readiness by the operator's rules, and shows the reason.
- The output names what the user has no permission to read, Events included.
- Parents that are not ready come first: those that need a change, then those that may become ready, then the others.
- Only Events of the operator count, and only those on the parent with this uid.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ssa_operator.kube.api.discovery import RESTMapper, UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.request import Scope
from ssa_operator.kube.api.resource import Resource
from ssa_operator.objects.identity import read_identity
from ssa_operator.objects.live_object import MANAGER, LiveObject
from ssa_operator.objects.readiness import ReadinessState, conditions_of, readiness
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.reconcile.parent_records.rules import NO_REVISION, REVISION_ANNOTATION, read_parent_records
from ssa_operator.reconcile.status.event_requests import EVENTS
from ssa_operator.reconcile.status.previous_status import reported_children
from ssa_operator.rendering.folder.folder_settings import Settings
from ssa_operator.schema.crd_schema import has_status, undeclared_reports
from ssa_operator.tools.command_target import ObjectReference, list_names, matching_resources, nearest, resolve_kind
from ssa_operator.tools.tree.listings import FORBIDDEN, ListedChildren, Listings, list_children, status_entries
from ssa_operator.tools.tree.object_history import ObjectEvent, unready_since
from ssa_operator.tools.tree.tree_view import entry, not_ready_since, urgency

MAX_NAMESPACES = 16
"""The most namespaces whose children are listed one by one. With more, all namespaces are listed."""


class ListedParent(Struct, frozen=True, kw_only=True):
    """A parent and its resource."""

    live: LiveObject

    resource: Resource

    cluster_scope: bool
    """The template folder's `clusterScope`."""

    @property
    def children_in_any_namespace(self) -> bool:
        """Whether its children may be in other namespaces than its own, or cluster-scoped."""
        return self.cluster_scope or not self.resource.namespaced


class MissingReport(Struct, frozen=True):
    """The fields of a status that the operator can't write, and the reason."""

    fields: tuple[str, ...] = ()
    reason: str = ""


async def parent_resources(mapper: RESTMapper, folders: Mapping[str, Settings]) -> Mapping[Resource, Settings]:
    """The resources of the template folders that the cluster serves, with their settings. Raises ApiError."""
    found = {}
    for name, settings in folders.items():
        with contextlib.suppress(UnknownKind):
            found[await mapper.resource_by_name(name)] = settings
    return found


async def report_unserved(mapper: RESTMapper, folders: Mapping[str, Settings]) -> None:
    """Print a sentence for each template folder whose resource the cluster does not serve, with what to do. Raises
    CommandError with them if it serves none, and ApiError.
    """
    found = []
    for name in folders:
        try:
            await mapper.resource_by_name(name)
        except UnknownKind as error:
            found.append(f"{name}: {error}")
    if found and len(found) == len(folders):
        raise CommandError("\n".join(found))
    if found:
        streams.error("\n".join(found))


async def list_parents(
    listings: Listings,
    mapper: RESTMapper,
    folders: Mapping[str, Settings],
    namespaces: Sequence[str],
    wanted: Sequence[ObjectReference] = (),
    selector: str = "",
) -> list[ListedParent]:
    """The parents of the template folders, or those that `wanted` names, in some namespaces (() is all), with the
    labels of a selector.

    Raises CommandError if a wanted object or kind does not exist or can't be read, and ApiError.
    """
    resources = await parent_resources(mapper, folders)
    scopes: dict[Scope, Resource] = {}
    for reference in wanted:
        for resource in await _wanted_resources(mapper, reference, resources):
            scopes |= dict.fromkeys(_scopes(resource, namespaces, selector, reference.name), resource)
    if not wanted:
        # The status of a built-in kind has no fields of the operator, and there may be thousands of objects. They are
        # shown only if the user names them.
        shown = (resource for resource in resources if not resource.built_in)
        scopes = {scope: resource for resource in shown for scope in _scopes(resource, namespaces, selector)}
    found = {}
    for scope, listing in (await listings.read(scopes)).items():
        if listing.problem:
            raise CommandError(listing.problem)
        resource = scopes[scope]
        for live in listing.objects:
            found[live.uid] = ListedParent(
                live=live, resource=resource, cluster_scope=resources[resource].cluster_scope
            )
    parents = list(found.values())
    for reference in wanted:
        kinds = {resource for resource, _ in matching_resources(reference.kind, resources)}
        if not any(each.resource in kinds and reference.name in ("", each.live.identity.name) for each in parents):
            raise CommandError(await _missing_parent(listings, reference, kinds, namespaces))
    return parents


async def _wanted_resources(
    mapper: RESTMapper, reference: ObjectReference, resources: Iterable[Resource]
) -> list[Resource]:
    """The resources with a template folder that a user's word for a kind can mean. Raises CommandError."""
    if found := matching_resources(reference.kind, resources):
        return [resource for resource, _ in found]
    other = await resolve_kind(mapper, reference.kind)
    hint = f"`ssa-operator tree {reference}` shows any object" if reference.name else "name the folder with --templates"
    raise CommandError(f"there is no template folder {other.name}; {hint}")


def _scopes(resource: Resource, namespaces: Sequence[str], selector: str, name: str = "") -> list[Scope]:
    within = namespaces if namespaces and resource.namespaced else ("",)
    return [Scope(resource, namespace, selector, name) for namespace in within]


async def _missing_parent(
    listings: Listings, reference: ObjectReference, kinds: Iterable[Resource], namespaces: Sequence[str]
) -> str:
    where = f"namespace {' or '.join(namespaces)}" if namespaces else "any namespace"
    names = [pair for resource in kinds for pair in await list_names(listings.client, resource)]
    near = nearest(reference.name, {name for namespace, name in names if namespace in (namespaces or (namespace,))})
    hint = f"; did you mean {' or '.join(near)}?" if reference.name and near else ""
    return f"there is no {reference} in {where}{hint}"


async def parent_entries(
    listings: Listings,
    mapper: RESTMapper,
    parents: Sequence[ListedParent],
    now: float,
    *,
    namespaces: Sequence[str] = (),
    whole: bool = False,
) -> list[dict[str, Any]]:
    """The data to show of each parent, the parents that are not ready first. `now` is in seconds since the epoch.
    With `whole` the children's objects are read, which record since when they are not ready.

    Raises ApiError and CommandError.
    """
    incomplete = [
        parent for parent in parents if reported_children(parent.live) is None or not conditions_of(parent.live.body)
    ]
    of_kind = {parent.resource: parent for parent in incomplete}
    missing = {resource: await _missing_report(listings, parent) for resource, parent in of_kind.items()}
    reports = {parent.live.uid: missing[parent.resource] for parent in incomplete}
    without_children = {
        parent.live.uid
        for parent in incomplete
        if reported_children(parent.live) is None and "resources" in reports[parent.live.uid].fields
    }
    unlisted = [parent for parent in parents if parent.live.uid in without_children]
    scopes = [*await _reported_scopes(mapper, parents), *await _possible_scopes(mapper, unlisted, namespaces)]
    children = await list_children(listings, mapper, [parent.live.uid for parent in parents], scopes, whole=whole)
    unreported = [child for uid in without_children for child in children.by_parent[uid]]
    states = await status_entries(listings, unreported, now)
    silent = [parent.live for parent in incomplete if "conditions" in reports[parent.live.uid].fields]
    events, why = await last_events(listings, silent)
    entries = [
        _entry(
            parent,
            children,
            reports.get(parent.live.uid),
            states if parent.live.uid in without_children else None,
            now,
        )
        for parent in parents
    ]
    by_uid = {each["uid"]: each for each in entries}
    for live in silent:
        if live.uid in events:
            by_uid[live.uid]["event"] = events[live.uid]
        if why:
            by_uid[live.uid]["notes"].append(f"its Events are not shown, because {why}")
    return sorted(entries, key=urgency)


def _entry(
    parent: ListedParent,
    children: ListedChildren,
    missing: MissingReport | None,
    states: Mapping[str, dict[str, Any]] | None,
    now: float,
) -> dict[str, Any]:
    """The data to show of one parent. `missing` is None if its status is complete; `states` has the readiness of the
    children if its status can't list them.
    """
    listed = children.by_parent[parent.live.uid]
    shown: Iterable[Mapping[str, Any]] = reported_children(parent.live) or ()
    if states is not None:
        shown = [states[child.live.uid] for child in listed if child.live.uid in states]
    by_uid = {child.live.uid: child.live for child in listed}
    data = entry(parent.live, {"conditions": conditions_of(parent.live.body), "resources": shown})
    data = with_children(data, lambda each: by_uid.get(str(each.get("uid", ""))), now)
    if states is not None and missing is not None:
        notes = [f"{missing.reason}; the children were found by their label"]
        notes += [f"children of these kinds are not shown, because {why}" for why in _reasons(children.skipped)]
    else:
        notes = [*_report_notes(missing), *_age_notes(data["resources"], children.skipped)]
    revision = _revision(parent.live)
    return data | {"notes": notes} | ({"revision": revision} if revision else {})


def _revision(live: LiveObject) -> str:
    """The revision of its templates that a parent runs, '' without rollouts."""
    if REVISION_ANNOTATION not in live.metadata.annotations:
        return ""
    return read_parent_records(live).revision.revision.removeprefix(NO_REVISION)


def with_children(
    parent: Mapping[str, Any], live_of: Callable[[Mapping[str, Any]], LiveObject | None], now: float
) -> dict[str, Any]:
    """A parent's data with the ages and times of its children, whose objects `live_of` knows, or not."""
    since = not_ready_since(parent)
    return {**parent, "resources": [child_data(each, live_of(each), since, now) for each in parent["resources"]]}


def child_data(
    reported: Mapping[str, Any], live: LiveObject | None, parent_since: str | None, now: float
) -> dict[str, Any]:
    """The data to show of a child: its entry in the status, its creation, and since when it is not ready.

    The object itself records the time, if it is not ready for its own sake. A child that the operator could not apply
    has no time of its own, so the time is that since when the parent is not ready.
    """
    data = dict(reported)
    if live is not None and live.metadata.creation_timestamp:
        data["creationTimestamp"] = live.metadata.creation_timestamp
    state = data.get("state")
    if state == ReadinessState.CURRENT:
        phase = completed_phase(live) if live is not None else None
        return data | {"phase": phase} if phase else data
    if live is not None and (live.deleting or readiness(live.body, now).state == state):
        since = unready_since(live.body)
    else:
        since = parent_since if live is None or state in (ReadinessState.WAITING, ReadinessState.FAILED) else None
    return data | {"since": since} if since else data


def completed_phase(live: LiveObject) -> str | None:
    """The phase of a pod that has completed, None for every other object."""
    identity, status = live.identity, live.body.get("status")
    phase = status.get("phase") if isinstance(status, Mapping) else None
    return phase if (identity.group, identity.kind, phase) == ("", "Pod", "Succeeded") else None


def _report_notes(missing: MissingReport | None) -> Iterable[str]:
    if missing is not None:
        yield missing.reason if missing.fields else "the operator has not reported anything yet"


def _age_notes(resources: Sequence[Mapping[str, Any]], skipped: Mapping[Resource, str]) -> Iterable[str]:
    kinds = {(each.get("group", ""), each.get("kind")) for each in resources}
    without_age = {resource: why for resource, why in skipped.items() if resource.group_kind in kinds}
    for why in _reasons(without_age):
        yield f"the age of children of these kinds is not shown, because {why}"


def _reasons(skipped: Mapping[Resource, str]) -> Iterable[str]:
    """Each reason once, with all resources that the user can't list because of it."""
    for why in dict.fromkeys(skipped.values()):
        names = ", ".join(sorted(each.name for each, reason in skipped.items() if reason == why))
        yield f"{why}: {names}"


async def _missing_report(listings: Listings, parent: ListedParent) -> MissingReport:
    """The fields that the operator can't write to the status of the parents of a kind."""
    resource, everything = parent.resource, ("conditions", "resources")
    try:
        definition = await listings.crd(resource)
    except ApiError as error:
        return MissingReport(everything, f"its status lists no children, and its CRD can't be read ({error})")
    if definition is None:
        return MissingReport(everything, f"the status of a {resource.kind} has no fields for the operator's report")
    if not has_status(definition, parent.live.version):
        return MissingReport(everything, f"its CRD {resource.name} has no status subresource")
    fields = undeclared_reports(definition, parent.live.version)
    names = " and ".join(f"status.{field}" for field in fields)
    return MissingReport(fields, f"its CRD {resource.name} doesn't declare {names} as the operator writes it")


async def _reported_scopes(mapper: RESTMapper, parents: Iterable[ListedParent]) -> list[Scope]:
    """The scopes of the children that the parents' statuses list."""
    reported = {
        (identity.group_kind, identity.namespace)
        for parent in parents
        for child in reported_children(parent.live) or ()
        if (identity := read_identity(child)) is not None
    }
    if len({namespace for _, namespace in reported}) > MAX_NAMESPACES:
        reported = {(kind, "") for kind, _ in reported}
    scopes = []
    for kind, namespace in sorted(reported):
        try:
            resource = await mapper.resource(kind)
        except UnknownKind:
            continue
        scopes.append(Scope(resource, namespace if resource.namespaced else ""))
    return scopes


async def _possible_scopes(
    mapper: RESTMapper, parents: Sequence[ListedParent], namespaces: Sequence[str]
) -> list[Scope]:
    """The scopes in which children may be that no status lists: every kind that can be applied and listed, in the
    namespaces that the template folders allow. With `-n` only in the parents' namespaces, if possible.
    """
    if not parents:
        return []
    in_any = any(parent.children_in_any_namespace for parent in parents)
    own = {parent.live.identity.namespace for parent in parents}
    within = sorted(own) if not in_any and (namespaces or len(own) == 1) else [""]
    return [
        Scope(resource, namespace)
        for resource in await mapper.resources()
        if {"list", "patch"} <= resource.verbs and (resource.namespaced or in_any)
        for namespace in within
    ]


async def last_events(listings: Listings, parents: Iterable[LiveObject]) -> tuple[Mapping[str, dict[str, Any]], str]:
    """The data of the last Event on each parent, by the parent's uid, and why Events can't be read ('' if they can)."""
    scopes = {Scope(EVENTS, parent.identity.namespace or "default") for parent in parents}
    found: dict[str, ObjectEvent] = {}
    problem = ""
    for listing in (await listings.read(scopes)).values():
        if listing.problem:
            problem = FORBIDDEN if listing.forbidden else listing.problem
        events = (ObjectEvent.of(live.body) for live in listing.objects)
        own = (event for event in events if event.reporter == MANAGER)
        found |= {event.uid: event for event in sorted(own, key=lambda event: event.time)}
    return {uid: event.data for uid, event in found.items()}, problem
