"""Lists children by the parent label, for their ages and for parents whose status has no children.

Promises:
- One request for each kind lists the children's metadata. If the readiness of children is needed, one more request for
  each of their kinds lists the whole objects. Whole Secrets are never listed.
- If the user can't list a kind, the other kinds are listed, and the kind is named with the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ssa_operator.controller.informers.crds import RESOURCE as DEFINITIONS
from ssa_operator.core.objects.crd_schema import reports_status
from ssa_operator.core.objects.identity import Identity
from ssa_operator.core.objects.live_object import PARENT_UID_LABEL, LiveObject
from ssa_operator.core.readiness.rules import readiness
from ssa_operator.core.status.child_status import ChildStatus
from ssa_operator.core.status.conditions import resource_entry
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.request import Scope
from ssa_operator.kube.api.resource import Resource

PARALLEL_REQUESTS = 16
"""The limit of parallel requests: a cluster serves some sixty kinds."""

MAX_SELECTED_UIDS = 16
"""The most parents in a label selector. With more, the children of all parents are listed."""

_FORBIDDEN = "listing them is forbidden"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ListedChild:
    """A child's metadata, and the scope of the list that has it."""

    scope: Scope
    live: LiveObject

    @property
    def identity(self) -> Identity:
        kind, metadata = self.scope.resource.group_kind, self.live.metadata
        return Identity(kind.group, kind.kind, metadata.namespace, metadata.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedChildren:
    """The children of some parents."""

    by_parent: Mapping[str, Sequence[ListedChild]]
    """By the parent's uid."""

    skipped: Mapping[Resource, str] = field(default_factory=dict)
    """The resources that the user can't list, with the reason."""


async def list_children(client: Client, uids: Collection[str], within: Iterable[Scope]) -> ListedChildren:
    """The children of the parents with these uids, within some scopes."""
    selector = f"{PARENT_UID_LABEL} in ({','.join(uids)})" if len(uids) <= MAX_SELECTED_UIDS else PARENT_UID_LABEL
    scopes = [replace(scope, label_selector=selector) for scope in dict.fromkeys(within)]
    answers = await _gather_limited(client.list_metadata(scope) for scope in scopes)
    children: dict[str, dict[str, ListedChild]] = {uid: {} for uid in uids}
    skipped = {}
    for scope, answer in zip(scopes, answers, strict=True):
        if isinstance(answer, ApiError):
            if not answer.not_found:
                skipped[scope.resource] = _FORBIDDEN if answer.code == 403 else f"{answer}"
            continue
        for live in answer:
            # Kubernetes copies labels, for instance those of a Service to its EndpointSlices. Only an object that the
            # operator has applied is a child. An object that two groups serve has one uid.
            if live.parent_uid in children and live.owned_fields():
                children[live.parent_uid].setdefault(live.uid, ListedChild(scope, live))
    return ListedChildren(
        by_parent={uid: sorted(each.values(), key=lambda child: child.identity) for uid, each in children.items()},
        skipped=skipped,
    )


async def status_entries(client: Client, children: Sequence[ListedChild], now: float) -> Mapping[str, dict[str, Any]]:
    """The entries that the operator would write to `status.resources`, by the children's uids. `now` is in seconds
    since the epoch.

    A child that was deleted in the meantime has no entry. Raises ApiError.
    """
    scopes = list(dict.fromkeys(child.scope for child in children if not child.scope.resource.confidential))
    resources = list(dict.fromkeys(child.scope.resource for child in children))
    lists = await asyncio.gather(*(client.list_scope(scope) for scope in scopes))
    reporting = dict(
        zip(resources, await _gather_limited(_reports_status(client, each) for each in resources), strict=True)
    )
    bodies: dict[str, Mapping[str, Any]] = {live.uid: live.body for lives, _ in lists for live in lives}
    entries = {}
    for child in children:
        resource, uid = child.scope.resource, child.live.uid
        if resource.confidential:
            metadata = child.live.body["metadata"]
            bodies[uid] = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
        if uid in bodies:
            # A user without the permission to read CRDs gets the result of an operator without this permission.
            result = readiness(bodies[uid], now, reports_status=reporting[resource] is True)
            entries[uid] = resource_entry(ChildStatus(identity=child.identity, uid=uid, readiness=result))
    return entries


async def get_crd(client: Client, resource: Resource) -> Mapping[str, Any] | None:
    """The CRD of a resource, None if it has none. Raises ApiError."""
    if "." not in resource.group:
        return None
    try:
        return (await client.get(DEFINITIONS, resource.name)).body
    except ApiError as error:
        if error.not_found:
            return None
        raise


async def _reports_status(client: Client, resource: Resource) -> bool:
    definition = await get_crd(client, resource)
    return definition is not None and reports_status(definition)


async def _gather_limited(calls: Iterable[Awaitable[T]]) -> list[T | ApiError]:
    """The results or errors of the calls, with a limited number of calls in parallel."""
    limit = asyncio.Semaphore(PARALLEL_REQUESTS)

    async def run(call: Awaitable[T]) -> T | ApiError:
        async with limit:
            try:
                return await call
            except ApiError as error:
                return error

    return await asyncio.gather(*map(run, calls))
