"""Reads parents from the cluster, with their conditions and children, for `ssa-operator status`.

Promises:
- The output has the conditions and children exactly as the operator reported them.
- If the CRD of a parent can't have `status.resources`, the command lists the children by their label, computes their
  readiness by the operator's rules, and shows the reason.
- The output names what the user has no permission to read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ssa_operator.cli.children import ListedChildren, get_crd, list_children, status_entries
from ssa_operator.cli.tree import conditions_of, entry
from ssa_operator.core.objects.crd_schema import has_status, undeclared_reports
from ssa_operator.core.objects.identity import read_identity
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.status.previous_status import reported_children
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper, UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.request import Scope
from ssa_operator.kube.api.resource import Resource
from ssa_operator.rendering.folder.sources import load_all


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedParent:
    """A parent and its resource."""

    live: LiveObject

    resource: Resource

    cluster_scope: bool
    """The template folder's `clusterScope`."""

    @property
    def children_in_any_namespace(self) -> bool:
        """Whether its children may be in other namespaces than its own, or cluster-scoped."""
        return self.cluster_scope or not self.resource.namespaced


@dataclass(frozen=True, slots=True)
class MissingReport:
    """The fields of a status that the operator can't write, and the reason."""

    fields: tuple[str, ...] = ()
    reason: str = ""


async def list_parents(
    client: Client, mapper: RESTMapper, templates: Sequence[Path], namespaces: Sequence[str], wanted: str
) -> list[ListedParent]:
    """The parents of all template folders, or those that `wanted` names as KIND/NAME, in some namespaces (() is all).

    Raises ApiError.
    """
    kind, _, name = wanted.rpartition("/")
    parents: list[ListedParent] = []
    for folder in load_all(templates).folders.values():
        try:
            resource = await mapper.resource_by_name(folder.name)
        except UnknownKind:
            continue
        if kind and kind.lower() not in (resource.kind.lower(), resource.plural, resource.name, *resource.short_names):
            continue
        if resource.built_in and not kind:
            # Their status has nothing of the operator, and there may be thousands. The user names them to see them.
            continue
        for namespace in namespaces if namespaces and resource.namespaced else ("",):
            items, _ = await client.list(resource, namespace)
            parents += [
                ListedParent(live=live, resource=resource, cluster_scope=folder.settings.cluster_scope)
                for live in items
                if not name or live.identity.name == name
            ]
    return parents


async def parent_entries(
    client: Client, mapper: RESTMapper, parents: Sequence[ListedParent], namespaces: Sequence[str], now: float
) -> list[dict[str, Any]]:
    """The data to show of each parent. `now` is in seconds since the epoch. Raises ApiError."""
    incomplete = {parent.resource: parent for parent in parents if _is_incomplete(parent)}
    missing = {resource: await _missing_report(client, parent) for resource, parent in incomplete.items()}
    without_children = [
        parent
        for parent in parents
        if reported_children(parent.live) is None and "resources" in missing[parent.resource].fields
    ]
    scopes = [*await _reported_scopes(mapper, parents), *await _possible_scopes(mapper, without_children, namespaces)]
    children = await list_children(client, [parent.live.uid for parent in parents], scopes)
    unreported = [child for parent in without_children for child in children.by_parent[parent.live.uid]]
    states = await status_entries(client, unreported, now)
    return [
        _entry(
            parent,
            children,
            missing[parent.resource] if _is_incomplete(parent) else None,
            states if parent in without_children else None,
        )
        for parent in parents
    ]


def _entry(
    parent: ListedParent,
    children: ListedChildren,
    missing: MissingReport | None,
    states: Mapping[str, dict[str, Any]] | None,
) -> dict[str, Any]:
    """The data to show of one parent. `missing` is None if its status is complete; `states` has the readiness of the
    children if its status can't list them.
    """
    listed = children.by_parent[parent.live.uid]
    shown: Iterable[Mapping[str, Any]] = reported_children(parent.live) or ()
    if states is not None:
        shown = [states[child.live.uid] for child in listed if child.live.uid in states]
    created = {child.live.uid: child.live.metadata.creation_timestamp for child in listed}
    resources = [
        {**each, "creationTimestamp": created[each["uid"]]} if created.get(each.get("uid", "")) else dict(each)
        for each in shown
    ]
    if states is not None and missing is not None:
        notes = [f"{missing.reason}; the children were found by their label"]
        notes += [f"children of these kinds are not shown, because {why}" for why in _reasons(children.skipped)]
    else:
        notes = [*_report_notes(missing), *_age_notes(resources, children.skipped)]
    return entry(parent.live, {"conditions": conditions_of(parent.live), "resources": resources}) | {"notes": notes}


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


def _is_incomplete(parent: ListedParent) -> bool:
    """Whether the status has no children or no conditions."""
    return reported_children(parent.live) is None or not conditions_of(parent.live)


async def _missing_report(client: Client, parent: ListedParent) -> MissingReport:
    """The fields that the operator can't write to the status of the parents of a kind."""
    resource, everything = parent.resource, ("conditions", "resources")
    try:
        definition = await get_crd(client, resource)
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
