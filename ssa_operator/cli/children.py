"""Children as the cluster has them: those that no status lists, and how old each one is.

Promises:
- They are found by their label: one request a kind asks for their metadata. Where their state has to be judged, the
  objects of the kinds that were found are listed; those of Secrets never are.
- A kind that can't be listed is left out, and named with the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import msgspec

from ssa_operator.controller.watches.crds import RESOURCE as DEFINITIONS
from ssa_operator.core.objects.crd_schema import reports_status
from ssa_operator.core.objects.identity import Identity
from ssa_operator.core.objects.live_object import PARENT_UID_LABEL, LiveObject
from ssa_operator.core.readiness.rules import readiness
from ssa_operator.core.status.child_status import ChildStatus
from ssa_operator.core.status.conditions import resource_entry
from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.request import Scope
from ssa_operator.kube.api.resource import Resource

AT_ONCE = 16
"""Requests under way at a time: discovery knows some sixty kinds."""

NAMED = 16
"""So many parents are named in a label selector; of more, the children of all parents are listed."""

_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

_FORBIDDEN = "listing them is forbidden"

T = TypeVar("T")


class _List(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """A child as far as its metadata tell, and where it was listed."""

    scope: Scope
    live: LiveObject

    @property
    def identity(self) -> Identity:
        kind, metadata = self.scope.resource.group_kind, self.live.metadata
        return Identity(kind.group, kind.kind, metadata.namespace, metadata.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Children:
    """The children of some parents, by the parent's uid, and why other kinds can't be listed."""

    found: Mapping[str, Sequence[Found]]
    skipped: Mapping[Resource, str] = field(default_factory=dict)


async def children_of(client: Client, uids: Collection[str], places: Iterable[tuple[Resource, str]]) -> Children:
    """The children of the parents with these uids, of the given kinds in the given namespaces ('' for all)."""
    selector = f"{PARENT_UID_LABEL} in ({','.join(uids)})" if len(uids) <= NAMED else PARENT_UID_LABEL
    scopes = [Scope(resource, namespace, selector) for resource, namespace in dict.fromkeys(places)]
    found: dict[str, dict[str, Found]] = {uid: {} for uid in uids}
    skipped = {}
    for scope, answer in zip(scopes, await _gathered(_metadata(client, scope) for scope in scopes), strict=True):
        if isinstance(answer, ApiError):
            if not answer.not_found:
                skipped[scope.resource] = _FORBIDDEN if answer.code == 403 else f"{answer}"
            continue
        for live in answer:
            # Kubernetes copies labels, those of a Service to its EndpointSlices for instance: what the operator did not
            # apply is no child. An object that two groups serve has one uid.
            if live.parent_uid in found and live.owned_fields():
                found[live.parent_uid].setdefault(live.uid, Found(scope, live))
    return Children(
        found={uid: sorted(each.values(), key=lambda child: child.identity) for uid, each in found.items()},
        skipped=skipped,
    )


async def judged(client: Client, children: Sequence[Found], now: float) -> Mapping[str, dict[str, Any]]:
    """What `status.resources` would say of children, by their uids; `now` is in seconds since the epoch.

    A child that went meanwhile is left out. Raises ApiError.
    """
    scopes = list(dict.fromkeys(child.scope for child in children if not child.scope.resource.confidential))
    resources = list(dict.fromkeys(child.scope.resource for child in children))
    lists = await asyncio.gather(*(client.list_scope(scope) for scope in scopes))
    reporting = dict(zip(resources, await _gathered(_announces(client, each) for each in resources), strict=True))
    bodies: dict[str, Mapping[str, Any]] = {live.uid: live.body for lives, _ in lists for live in lives}
    entries = {}
    for child in children:
        resource, uid = child.scope.resource, child.live.uid
        if resource.confidential:
            metadata = child.live.body["metadata"]
            bodies[uid] = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
        if uid in bodies:
            # Whoever may not read CRDs sees what an operator without that right would say.
            found = readiness(bodies[uid], now, reports_status=reporting[resource] is True)
            entries[uid] = resource_entry(ChildStatus(identity=child.identity, uid=uid, readiness=found))
    return entries


async def definition_of(client: Client, resource: Resource) -> Mapping[str, Any] | None:
    """The CRD of a resource, None where it has none. Raises ApiError."""
    if "." not in resource.group:
        return None
    try:
        return (await client.get(DEFINITIONS, resource.name)).body
    except ApiError as error:
        if error.not_found:
            return None
        raise


async def _announces(client: Client, resource: Resource) -> bool:
    definition = await definition_of(client, resource)
    return definition is not None and reports_status(definition)


async def _metadata(client: Client, scope: Scope) -> list[LiveObject]:
    request = replace(calls.list_page(scope, limit=0), accept=_METADATA)
    answer = msgspec.json.decode((await client.send(request)).body, type=_List)
    return [LiveObject(item) for item in answer.items or ()]


async def _gathered(calls: Iterable[Awaitable[T]]) -> list[T | ApiError]:
    """What the calls give, or why they fail, a few at a time."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(call: Awaitable[T]) -> T | ApiError:
        async with turn:
            try:
                return await call
            except ApiError as error:
                return error

    return await asyncio.gather(*map(one, calls))
