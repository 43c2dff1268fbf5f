"""Finds the children of parents by the parent label, for their ages and for parents whose status has no children.

Promises:
- One request for each kind lists the children's metadata. If the readiness of children is needed, one more request for
  each of their kinds lists the whole objects. Whole Secrets are never listed.
- A child is shown in the version in which the operator applied it, if the cluster serves that.
- If the user can't list a kind, the other kinds are listed, and the kind is named with the reason.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from ssa_operator.kube.api.discovery import RESTMapper, UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.request import Scope
from ssa_operator.kube.api.resource import Resource
from ssa_operator.objects.identity import Identity, split_api_version
from ssa_operator.objects.live_object import PARENT_UID_LABEL, LiveObject
from ssa_operator.objects.readiness.rules import readiness
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.reconcile.status.child_status import ChildStatus
from ssa_operator.reconcile.status.conditions import resource_entry
from ssa_operator.schema.crd_schema import reports_status
from ssa_operator.tools.tree.listings import FORBIDDEN, Listings

MAX_SELECTED_UIDS = 16
"""The most parents in a label selector. With more, the children of all parents are listed."""


class ListedChild(Struct, frozen=True):
    """A child, with its metadata at least, and the scope of the list that has it."""

    scope: Scope
    live: LiveObject

    @property
    def identity(self) -> Identity:
        kind, metadata = self.scope.resource.group_kind, self.live.metadata
        return Identity(kind.group, kind.kind, metadata.namespace, metadata.name)


class ListedChildren(Struct, frozen=True, kw_only=True):
    """The children of some parents."""

    by_parent: Mapping[str, Sequence[ListedChild]]
    """By the parent's uid."""

    skipped: Mapping[Resource, str] = field(default_factory=dict)
    """The resources that the user can't list, with the reason."""


async def list_children(
    listings: Listings, mapper: RESTMapper, uids: Collection[str], within: Iterable[Scope], *, whole: bool = False
) -> ListedChildren:
    """The children of the parents with these uids, within some scopes: their metadata, or with `whole` the objects,
    without Secrets. Raises ApiError.
    """
    selector = f"{PARENT_UID_LABEL} in ({','.join(sorted(uids))})"
    if len(uids) > MAX_SELECTED_UIDS:
        selector = PARENT_UID_LABEL
    scopes = [
        replace(scope, label_selector=selector, metadata_only=not whole or scope.resource.confidential)
        for scope in dict.fromkeys(within)
    ]
    found: dict[str, ListedChild] = {}
    skipped = {}
    for scope, listing in (await listings.read(scopes)).items():
        if listing.problem:
            skipped[scope.resource] = FORBIDDEN if listing.forbidden else listing.problem
        for live in listing.objects:
            # Kubernetes copies labels, for instance those of a Service to its EndpointSlices. Only an object that the
            # operator has applied is a child. An object that two groups serve has one uid.
            if live.parent_uid in uids and live.owned_fields():
                found.setdefault(live.uid, ListedChild(scope, live))
    children: dict[str, list[ListedChild]] = {uid: [] for uid in uids}
    for child in await _in_own_versions(listings, mapper, found.values()):
        children[child.live.parent_uid].append(child)
    return ListedChildren(
        by_parent={uid: sorted(each, key=lambda child: child.identity) for uid, each in children.items()},
        skipped=skipped,
    )


async def _in_own_versions(
    listings: Listings, mapper: RESTMapper, children: Iterable[ListedChild]
) -> Sequence[ListedChild]:
    """The children, those in the version in which the operator applied them that were listed in the preferred one.
    Raises ApiError.
    """
    moved: dict[ListedChild, Scope] = {}
    children = list(children)
    for child in children:
        group, version = split_api_version(child.live.own_api_version())
        resource = child.scope.resource
        if version and group == resource.group and version != resource.version:
            with contextlib.suppress(UnknownKind):
                moved[child] = replace(child.scope, resource=await mapper.resource(resource.group_kind, version))
    # The metadata is the same in all versions.
    whole = [scope for scope in moved.values() if not scope.metadata_only]
    lives = {live.uid: live for each in (await listings.read(whole)).values() for live in each.objects}
    return [
        ListedChild(moved[child], lives.get(child.live.uid, child.live))
        if child in moved and (moved[child].metadata_only or child.live.uid in lives)
        else child
        for child in children
    ]


async def status_entries(
    listings: Listings, children: Sequence[ListedChild], now: float
) -> Mapping[str, dict[str, Any]]:
    """The entries that the operator would write to `status.resources`, by the children's uids. `now` is in seconds
    since the epoch.

    A child that was deleted in the meantime has no entry. Raises CommandError.
    """
    whole = {
        child: replace(child.scope, metadata_only=False) for child in children if not child.scope.resource.confidential
    }
    bodies: dict[str, Mapping[str, Any]] = {}
    for listing in (await listings.read(whole.values())).values():
        if listing.problem:
            raise CommandError(listing.problem)
        bodies |= {live.uid: live.body for live in listing.objects}
    reporting = {
        resource: await _reports_status(listings, resource)
        for resource in dict.fromkeys(child.scope.resource for child in children)
    }
    entries = {}
    for child in children:
        resource, uid = child.scope.resource, child.live.uid
        if resource.confidential:
            metadata = child.live.body["metadata"]
            bodies[uid] = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
        if uid in bodies:
            result = readiness(bodies[uid], now, reports_status=reporting[resource])
            entries[uid] = resource_entry(ChildStatus(identity=child.identity, uid=uid, readiness=result))
    return entries


async def _reports_status(listings: Listings, resource: Resource) -> bool:
    """Whether a controller writes the status of a resource's objects. A user without the permission to read CRDs gets
    the answer of an operator without this permission.
    """
    try:
        definition = await listings.crd(resource)
    except ApiError:
        return False
    return definition is not None and reports_status(definition)
