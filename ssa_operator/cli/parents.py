"""Parents as the cluster has them, and what is shown of each: conditions, children, and what is missing.

Promises:
- What the operator reported is shown in its own words. Where a parent's CRD has no room for children, they are found by
  their label and judged here by the operator's rules, and the reason is shown.
- What the user may not read is left out, and named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ssa_operator.cli.children import Children, children_of, definition_of, judged
from ssa_operator.cli.tree import conditions_of, entry
from ssa_operator.core.objects.crd_schema import has_status, undeclared_reports
from ssa_operator.core.objects.identity import read_identity
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.status.previous_status import reported_children
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper, UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.resource import Resource
from ssa_operator.rendering.folder.sources import load_all


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """A parent, how it is served, and whether its children may be anywhere (the folder's `clusterScope`)."""

    live: LiveObject
    resource: Resource
    cluster_scope: bool

    @property
    def anywhere(self) -> bool:
        """Whether its children may be in other namespaces than its own, or in none."""
        return self.cluster_scope or not self.resource.namespaced


@dataclass(frozen=True, slots=True)
class Reports:
    """What the operator can't report in a parent's status: `fields` of it, and `why`."""

    fields: tuple[str, ...] = ()
    why: str = ""


async def parents(
    client: Client, mapper: RESTMapper, templates: Sequence[Path], namespaces: Sequence[str], wanted: str
) -> list[Parent]:
    """The parents of all folders, or those that `wanted` names as KIND/NAME, in some namespaces (() for all).

    Raises ApiError.
    """
    kind, _, name = wanted.rpartition("/")
    found: list[Parent] = []
    for folder in load_all(templates).folders.values():
        try:
            resource = await mapper.resource_by_name(folder.name)
        except UnknownKind:
            continue
        if kind and kind.lower() not in (resource.kind.lower(), resource.plural, resource.name, *resource.short_names):
            continue
        if resource.built_in and not kind:
            # Nothing of the operator is in their status, and there may be thousands: they are shown when asked for.
            continue
        for namespace in namespaces if namespaces and resource.namespaced else ("",):
            items, _ = await client.list(resource, namespace)
            found += [
                Parent(live=live, resource=resource, cluster_scope=folder.settings.cluster_scope)
                for live in items
                if not name or live.identity.name == name
            ]
    return found


async def entries(
    client: Client, mapper: RESTMapper, found: Sequence[Parent], namespaces: Sequence[str], now: float
) -> list[dict[str, Any]]:
    """What is shown of each parent; `now` is in seconds since the epoch. Raises ApiError."""
    silent = {parent.resource: parent for parent in found if _is_silent(parent)}
    reports = {resource: await _unreported(client, parent) for resource, parent in silent.items()}
    unlisted = [parent for parent in found if reported_children(parent.live) is None and _unlisted(reports, parent)]
    places = [*await _reported_places(mapper, found), *await _possible_places(mapper, unlisted, namespaces)]
    children = await children_of(client, [parent.live.uid for parent in found], places)
    unjudged = [child for parent in unlisted for child in children.found[parent.live.uid]]
    states = await judged(client, unjudged, now)
    return [_entry(parent, children, states, reports, by_label=parent in unlisted) for parent in found]


def _entry(
    parent: Parent,
    children: Children,
    states: Mapping[str, dict[str, Any]],
    reports: Mapping[Resource, Reports],
    *,
    by_label: bool,
) -> dict[str, Any]:
    found = children.found[parent.live.uid]
    listed: Iterable[Mapping[str, Any]] = reported_children(parent.live) or ()
    if by_label:
        listed = [states[child.live.uid] for child in found if child.live.uid in states]
    made = {child.live.uid: child.live.metadata.creation_timestamp for child in found}
    resources = [
        {**each, "creationTimestamp": made[each["uid"]]} if made.get(each.get("uid", "")) else dict(each)
        for each in listed
    ]
    shown = entry(parent.live, {"conditions": conditions_of(parent.live), "resources": resources})
    return shown | {"notes": _notes(parent, children, reports, resources, by_label=by_label)}


def _notes(
    parent: Parent,
    children: Children,
    reports: Mapping[Resource, Reports],
    resources: Sequence[Mapping[str, Any]],
    *,
    by_label: bool,
) -> list[str]:
    notes = []
    missing = reports.get(parent.resource, Reports()) if _is_silent(parent) else Reports()
    if by_label:
        notes.append(f"{missing.why}; the children were found by their label")
        notes += [f"children of these kinds are not shown, as {why}" for why in _reasons(children.skipped)]
        return notes
    if missing.fields:
        notes.append(missing.why)
    elif _is_silent(parent):
        notes.append("the operator has not reported anything yet")
    kinds = {(each.get("group", ""), each.get("kind")) for each in resources}
    ageless = {each: why for each, why in children.skipped.items() if each.group_kind in kinds}
    return notes + [f"the age of children of these kinds is not shown, as {why}" for why in _reasons(ageless)]


def _reasons(skipped: Mapping[Resource, str]) -> Iterable[str]:
    """Why kinds can't be listed, each reason with all kinds that it holds for."""
    for why in dict.fromkeys(skipped.values()):
        names = ", ".join(sorted(each.name for each, reason in skipped.items() if reason == why))
        yield f"{why}: {names}"


def _is_silent(parent: Parent) -> bool:
    """Whether something of what the operator reports is missing in a status."""
    return reported_children(parent.live) is None or not conditions_of(parent.live)


def _unlisted(reports: Mapping[Resource, Reports], parent: Parent) -> bool:
    return "resources" in reports[parent.resource].fields


async def _unreported(client: Client, parent: Parent) -> Reports:
    """What of the operator's report the parents of a kind have no room for."""
    resource, everything = parent.resource, ("conditions", "resources")
    try:
        definition = await definition_of(client, resource)
    except ApiError as error:
        return Reports(everything, f"its status lists no children, and its CRD can't be read ({error})")
    if definition is None:
        return Reports(everything, f"the status of a {resource.kind} has no room for what the operator reports")
    if not has_status(definition, parent.live.version):
        return Reports(everything, f"its CRD {resource.name} has no status subresource")
    fields = undeclared_reports(definition, parent.live.version)
    names = " and ".join(f"status.{field}" for field in fields)
    return Reports(fields, f"its CRD {resource.name} doesn't declare {names} as the operator writes it")


async def _reported_places(mapper: RESTMapper, found: Iterable[Parent]) -> list[tuple[Resource, str]]:
    """Where the children are that statuses list."""
    named = {
        (identity.group_kind, identity.namespace)
        for parent in found
        for reported in reported_children(parent.live) or ()
        if (identity := read_identity(reported)) is not None
    }
    places = []
    for kind, namespace in sorted(named):
        try:
            resource = await mapper.resource(kind)
        except UnknownKind:
            continue
        places.append((resource, namespace if resource.namespaced else ""))
    return places


async def _possible_places(
    mapper: RESTMapper, found: Sequence[Parent], namespaces: Sequence[str]
) -> list[tuple[Resource, str]]:
    """Where children may be that no status lists: all kinds that can be applied and listed, no further than the folders
    let them be. With `-n` nothing is asked beyond these namespaces without need.
    """
    if not found:
        return []
    anywhere = any(parent.anywhere for parent in found)
    own = {parent.live.identity.namespace for parent in found}
    within = sorted(own) if not anywhere and (namespaces or len(own) == 1) else [""]
    return [
        (resource, namespace)
        for resource in await mapper.resources()
        if {"list", "patch"} <= resource.verbs and (resource.namespaced or anywhere)
        for namespace in within
    ]
