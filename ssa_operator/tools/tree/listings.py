"""Reads the objects of scopes: once by lists, or continuously by watches.

Promises:
- A command reads the same values from lists and from watches, so `--watch` shows the same as the command without it.
- A scope that the user may not read has a problem, and the other scopes are read. A resource that the cluster does not
  serve has no objects.
- Watches send no request for a scope that they watch already, and close the watches of scopes that are no longer read.
- One request for each kind lists the children's metadata. If the readiness of children is needed, one more request for
  each of their kinds lists the whole objects. Whole Secrets are never listed.
- A child is shown in the version in which the operator applied it, if the cluster serves that.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from ssa_operator.informers.crds import RESOURCE as DEFINITIONS
from ssa_operator.kube.api.client import PAGE, Client
from ssa_operator.kube.api.discovery import RESTMapper, UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.request import Scope
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.kube.watch.reflector import Reflector, ReflectorState
from ssa_operator.objects.identity import Identity, split_api_version
from ssa_operator.objects.live_object import PARENT_UID_LABEL, LiveObject
from ssa_operator.objects.readiness import readiness
from ssa_operator.objects.shared_record import SHARED_LABEL_VALUE
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.reconcile.status.child_status import ChildStatus
from ssa_operator.reconcile.status.conditions import resource_entry
from ssa_operator.schema.crd_schema import reports_status

PARALLEL_REQUESTS = 16
"""The limit of parallel requests: a cluster serves some sixty kinds."""

SYNC_TIMEOUT = 10.0
"""Seconds that a new watch has to deliver its objects before the command goes on without them."""

COALESCE = 0.1
"""Seconds after a change during which further changes count as the same one."""

FORBIDDEN = "listing them is forbidden"

T = TypeVar("T")


class Listing(Struct, frozen=True):
    """The objects of a scope."""

    objects: Sequence[LiveObject] = ()

    problem: str = ""
    """Why the objects can't be read, '' if they can."""

    forbidden: bool = False
    """Whether the user has no permission to read them."""


class Listings(ABC):
    """Reads scopes, and the CRDs of resources."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._definitions: dict[Resource, Mapping[str, Any] | None] = {}

    @abstractmethod
    async def read(self, scopes: Iterable[Scope]) -> Mapping[Scope, Listing]:
        """The objects of each scope."""

    async def crd(self, resource: Resource) -> Mapping[str, Any] | None:
        """The CRD of a resource, None if it has none; it is read once. Raises ApiError."""
        if resource not in self._definitions:
            self._definitions[resource] = await _get_crd(self.client, resource)
        return self._definitions[resource]


class Lists(Listings):
    """Lists each scope once, when it is first read: several parents of a command have their children in one scope."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._listed: dict[Scope, Listing] = {}

    async def read(self, scopes: Iterable[Scope]) -> Mapping[Scope, Listing]:
        wanted = dict.fromkeys(scopes)
        new = [scope for scope in wanted if scope not in self._listed]
        # Metadata is small, so it comes in one page.
        answers = await gather_limited(
            lambda scope: self.client.list_scope(scope, 0 if scope.metadata_only else PAGE), new
        )
        self._listed |= zip(new, map(_listing, answers), strict=True)
        return {scope: self._listed[scope] for scope in wanted}


class Watches(Listings):
    """Watches each scope from its first reading on, as an async context manager."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._changed = asyncio.Event()
        self._watches: dict[Scope, tuple[Reflector, asyncio.Task[None]]] = {}
        self._read: set[Scope] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close(list(self._watches))

    async def read(self, scopes: Iterable[Scope]) -> Mapping[Scope, Listing]:
        scopes = list(scopes)
        wanted = [scope for scope in dict.fromkeys(scopes) if is_watchable(scope.resource)]
        self._read.update(wanted)
        started = [self._start(scope) for scope in wanted if scope not in self._watches]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SYNC_TIMEOUT):
                await asyncio.gather(*(each.synced_or_unavailable() for each in started))
        found = {scope: _watched(self._watches[scope][0]) for scope in wanted}
        unwatchable = Listing((), "the API server can't watch them")
        return {scope: found.get(scope, unwatchable) for scope in dict.fromkeys(scopes)}

    @property
    def problems(self) -> list[str]:
        """Why watched objects may be out of date, for instance because the API server does not answer."""
        reflectors = (reflector for reflector, _ in self._watches.values())
        failing = (each.problem for each in reflectors if each.state is ReflectorState.FAILING and each.problem)
        return list(dict.fromkeys(failing))

    @asynccontextmanager
    async def round(self) -> AsyncIterator[None]:
        """One consistent reading. Afterwards the scopes that it did not read are no longer watched."""
        self._read.clear()
        self._changed.clear()
        yield
        await self._close([scope for scope in self._watches if scope not in self._read])

    async def change(self) -> None:
        """Wait until an object of a watched scope has changed since the last `round` began."""
        await self._changed.wait()
        await asyncio.sleep(COALESCE)

    def _start(self, scope: Scope) -> Reflector:
        cache = Cache()
        cache.listen(lambda _old, _new: self._changed.set())
        reflector = Reflector(self.client, scope, cache)
        reflector.listen(lambda _reflector: self._changed.set())
        task = asyncio.create_task(reflector.run(), name=f"watch {scope}")
        self._watches[scope] = (reflector, task)
        return reflector

    async def _close(self, scopes: Iterable[Scope]) -> None:
        tasks = [self._watches.pop(scope)[1] for scope in scopes]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _listing(answer: tuple[list[LiveObject], str] | ApiError) -> Listing:
    if not isinstance(answer, ApiError):
        return Listing(answer[0])
    return Listing() if answer.code == 404 else Listing((), str(answer), answer.forbidden)


def _watched(reflector: Reflector) -> Listing:
    objects = tuple(reflector.cache)
    if reflector.state is ReflectorState.MISSING:
        return Listing()
    if reflector.state is ReflectorState.FORBIDDEN:
        return Listing((), reflector.problem, forbidden=True)
    if not reflector.synced.is_set():
        return Listing((), reflector.problem or f"its watch has not delivered {reflector.scope} yet")
    return Listing(objects)


def is_watchable(resource: Resource) -> bool:
    """Whether the API server can watch a resource. Some aggregated API servers can only list."""
    return not resource.verbs or "watch" in resource.verbs


async def _get_crd(client: Client, resource: Resource) -> Mapping[str, Any] | None:
    if "." not in resource.group:
        return None
    try:
        return (await client.get(DEFINITIONS, resource.name)).body
    except ApiError as error:
        if error.not_found:
            return None
        raise


async def gather_limited(call: Callable[[Scope], Awaitable[T]], scopes: Iterable[Scope]) -> list[T | ApiError]:
    """The results or errors of a call for each scope, with a limited number of calls in parallel."""
    limit = asyncio.Semaphore(PARALLEL_REQUESTS)

    async def run(scope: Scope) -> T | ApiError:
        async with limit:
            try:
                return await call(scope)
            except ApiError as error:
                return error

    return await asyncio.gather(*map(run, scopes))


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
    selector = f"{PARENT_UID_LABEL} in ({','.join([*sorted(uids), SHARED_LABEL_VALUE])})"
    if len(uids) > MAX_SELECTED_UIDS:
        selector = PARENT_UID_LABEL
    scopes = [
        replace(scope, label_selector=selector, metadata_only=not whole or scope.resource.confidential)
        for scope in dict.fromkeys(within)
    ]
    uids = frozenset(uids)
    found: dict[str, ListedChild] = {}
    skipped = {}
    for scope, listing in (await listings.read(scopes)).items():
        if listing.problem:
            skipped[scope.resource] = FORBIDDEN if listing.forbidden else listing.problem
        for live in listing.objects:
            # Kubernetes copies labels, for instance those of a Service to its EndpointSlices. Only an object that the
            # operator has applied is a child. An object that two groups serve has one uid.
            if not uids.isdisjoint(live.parent_uids) and live.owned_fields():
                found.setdefault(live.uid, ListedChild(scope, live))
    children: dict[str, list[ListedChild]] = {uid: [] for uid in uids}
    for child in await _in_own_versions(listings, mapper, found.values()):
        for uid in uids.intersection(child.live.parent_uids):
            children[uid].append(child)
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
