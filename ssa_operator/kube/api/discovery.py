"""Finds the resource of a kind or name through the API server's discovery, and caches what it finds.

Promises:
- One discovery is two requests (aggregated discovery, KEP-3352). A document that has not changed is not sent again, and
  a group of it that has not changed is not read again.
- An unknown kind causes a new discovery, at most one every `PAUSE` seconds. After `invalidate` the next call discovers.
- The CRD of a kind that no call has asked for yet causes at most one discovery every `PAUSE` seconds: a cluster may get
  thousands of CRDs at once, each of which changes several times. The first call that asks for the kind discovers.
- A call that arrives during a discovery waits for its result before it reports a kind as unknown.
- If an aggregated API server does not answer, only the kinds of its group are unknown.
- The mapper knows which kinds the cluster served earlier in the life of this process and no longer does, except those
  whose CRD was deleted.
- An answer that can't be read is an error, and doesn't change the cache.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Iterator, Mapping
from http import HTTPStatus

import msgspec

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError, Unreachable
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.api.transport import decoded
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.kube.clock import SYSTEM, Clock
from ssa_operator.objects.identity import GroupKind, join_api_version
from ssa_operator.objects.kinds import unknown_kind_hint

log = logging.getLogger(__name__)

PAUSE = 2.0
"""Seconds between two discoveries because of unknown kinds."""

_ASKED_LIMIT = 10_000
"""Number of remembered kinds that calls asked for. Beyond it, every kind counts as asked for."""

_PATHS = ("/api", "/apis")
_ACCEPT = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


class UnknownKind(Exception):  # noqa: N818 - it is a fact about the cluster as often as an error
    """The cluster does not serve a kind or resource. The text names it, and what to do."""


REQUEST_ERRORS = (ApiError, CredentialsError, UnknownKind)
"""Why a request for an object of some kind fails."""


class _Kind(msgspec.Struct):
    group: str = ""
    version: str = ""
    kind: str = ""


class _Subresource(msgspec.Struct):
    subresource: str


class _DiscoveredResource(msgspec.Struct, rename="camel"):
    resource: str
    response_kind: _Kind | None = None
    scope: str = "Namespaced"
    singular_resource: str = ""
    short_names: list[str] = []
    verbs: list[str] = []
    subresources: list[_Subresource] = []


class _Version(msgspec.Struct):
    version: str
    resources: list[_DiscoveredResource] = []
    freshness: str = "Current"


class _Name(msgspec.Struct, frozen=True):
    name: str = ""


class _Group(msgspec.Struct):
    metadata: _Name = _Name()
    versions: list[_Version] = []


class _Groups(msgspec.Struct):
    kind: str = ""
    items: list[msgspec.Raw] = []
    """Each is a `_Group`."""


def _resources(group: _Group) -> Iterator[Resource]:
    for version in group.versions:
        for each in version.resources:
            if each.response_kind is not None and each.response_kind.kind:
                yield Resource(
                    group=group.metadata.name,
                    version=version.version,
                    kind=each.response_kind.kind,
                    plural=each.resource,
                    namespaced=each.scope == "Namespaced",
                    subresources=frozenset(sub.subresource for sub in each.subresources),
                    singular=each.singular_resource,
                    short_names=tuple(each.short_names),
                    verbs=frozenset(each.verbs),
                )


def _failures(group: _Group) -> Iterator[str]:
    """Why the API server of a group doesn't answer, for its versions."""
    for version in group.versions:
        if version.freshness != "Current":
            yield f"{join_api_version(group.metadata.name, version.version)} is {version.freshness.lower()}"


class _DiscoveredGroup(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    resources: tuple[Resource, ...]
    failure: str
    """Why its discovery fails, '' if it doesn't."""


def _discovered_group(encoded: msgspec.Raw, path: str) -> _DiscoveredGroup:
    """Raises ApiError if it can't be read."""
    group = decoded(encoded, _Group, f"GET {path}")
    return _DiscoveredGroup(
        name=group.metadata.name,
        resources=tuple(_resources(group)),
        failure="; ".join(_failures(group)),
    )


class _Discovered(msgspec.Struct, frozen=True, kw_only=True):
    """What a discovery found, or one document of it."""

    resources: tuple[Resource, ...]
    failing: Mapping[str, str] = {}
    """Why the discovery of these groups fails."""
    etag: str = ""
    """The version of the document."""
    groups: Mapping[bytes, _DiscoveredGroup] = {}
    """The groups of the document by their digests."""


class RESTMapper:
    """The cached resources of a cluster."""

    def __init__(self, client: Client, clock: Clock = SYSTEM) -> None:
        self._client = client
        self._clock = clock
        self._refreshing = asyncio.Lock()
        self._discovered_at: float | None = None
        self._valid = False
        self._invalidated = False
        self._by_kind: dict[GroupKind, dict[str, Resource]] = {}
        self._by_name: dict[str, Resource] = {}
        self._documents: dict[str, _Discovered] = {}
        self._failing: Mapping[str, str] = {}
        self._asked: set[GroupKind] = set()
        self._outdated = False
        """Whether the CRD of a kind changed that no call has asked for."""
        self._withdrawn: dict[GroupKind, set[str]] = {}
        self._deleted: set[GroupKind] = set()
        """The kinds without a CRD that discovery still lists."""

    async def discover(self) -> None:
        """Discover the cluster's resources for `peek`, unless the cache is valid. Raises ApiError."""
        await self._refresh(again=False)

    def peek(self, kind: GroupKind, version: str | None = None) -> Resource:
        """`resource` from the cache, without a request. Raises UnknownKind."""
        self._remember_asked(kind)
        served = self._by_kind.get(kind, {})
        found = served.get(version) if version else next(iter(served.values()), None)
        if found is None:
            raise self._unknown_kind(kind, version)
        return found

    def versions(self, kind: GroupKind) -> tuple[str, ...]:
        """The versions in which the cluster serves a kind, from the cache; the one that the server prefers first."""
        self._remember_asked(kind)
        return tuple(self._by_kind.get(kind, ()))

    def was_asked_for(self, kind: GroupKind) -> bool:
        """Whether a call asked for a kind, so that a change of its CRD may change an answer."""
        return kind in self._asked or len(self._asked) >= _ASKED_LIMIT

    def _remember_asked(self, kind: GroupKind) -> None:
        if len(self._asked) < _ASKED_LIMIT:
            self._asked.add(kind)

    def failure(self, group: str) -> str | None:
        """Why the last discovery of a group failed, None if it didn't."""
        return self._failing.get(group)

    def is_withdrawn(self, kind: GroupKind, version: str | None = None) -> bool:
        """Whether a discovery of this process found a kind in a version (None: in any), and the last one did not; false
        if its CRD was deleted.
        """
        withdrawn = self._withdrawn.get(kind, set())
        return bool(withdrawn) if version is None else version in withdrawn

    async def resource(self, kind: GroupKind, version: str | None = None) -> Resource:
        """The resource of a kind, in that version or the one that the server prefers.

        Raises UnknownKind, and ApiError if discovery fails.
        """
        await self._refresh(again=False)
        with contextlib.suppress(UnknownKind):
            return self.peek(kind, version)
        await self._refresh(again=True)
        return self.peek(kind, version)

    async def resource_by_name(self, name: str) -> Resource:
        """The resource called `deployments.apps` or `namespaces`, in the version that the server prefers.

        Raises UnknownKind, and ApiError if discovery fails.
        """
        for again in (False, True):
            await self._refresh(again=again)
            if name in self._by_name:
                return self._by_name[name]
        raise UnknownKind(f"the cluster serves no resource {name}; {self._hint(GroupKind(name.partition('.')[2], ''))}")

    async def resources(self) -> tuple[Resource, ...]:
        """Every resource that the cluster serves, in its preferred version. Raises ApiError."""
        await self._refresh(again=False)
        return tuple(self._by_name.values())

    def invalidate(self) -> None:
        """Make the next call discover, because the served kinds may have changed."""
        self._valid, self._invalidated = False, True
        self._discovered_at = None

    def crd_changed(self, kind: GroupKind, *, deleted: bool) -> None:
        """Make the next call discover, because the CRD of a kind was created, changed or deleted; or a later call if no
        call has asked for the kind. A kind that its CRD's deletion removes from discovery does not count as withdrawn.
        """
        if self.was_asked_for(kind):
            self.invalidate()
        else:
            self._outdated = True
        self._deleted.discard(kind)
        if deleted:
            self._withdrawn.pop(kind, None)
            if kind in self._by_kind:
                self._deleted.add(kind)

    async def _refresh(self, *, again: bool) -> None:
        """Discover if the cache is invalid or, with `again`, older than `PAUSE` or than a CRD."""
        discovered_at = self._discovered_at
        if self._is_current(again=again):
            return
        async with self._refreshing:
            if self._valid and self._discovered_at != discovered_at:
                return  # another call has discovered in the meantime
            # A change during the discovery must not be lost.
            self._invalidated, self._outdated, began = False, False, self._clock.monotonic()
            try:
                found = await self._discover()
                if found is not None:
                    self._store(found)
            except ApiError:
                self._valid = False
                raise
            self._valid, self._discovered_at = not self._invalidated, began

    def _is_current(self, *, again: bool) -> bool:
        """Whether the cache answers a call; with `again`, a call for an unknown kind."""
        if not self._valid:
            return False
        is_old = self._discovered_at is None or self._clock.monotonic() - self._discovered_at >= PAUSE
        return not (is_old or self._outdated) if again else not (is_old and self._outdated)

    async def _discover(self) -> _Discovered | None:
        """What the cluster serves, None if nothing has changed since the last discovery."""
        before = self._documents
        found = await asyncio.gather(*map(self._get_document, _PATHS))
        self._documents = dict(zip(_PATHS, found, strict=True))
        if all(self._documents[path] is before.get(path) for path in _PATHS):
            return None
        core, groups = found
        return _Discovered(resources=(*core.resources, *groups.resources), failing={**core.failing, **groups.failing})

    async def _get_document(self, path: str) -> _Discovered:
        """One document; the known one if it has not changed."""
        known = self._documents.get(path)
        etag = known.etag if known is not None else ""
        response = await self._client.send(calls.raw_get(path, accept=_ACCEPT, if_none_match=etag))
        if known is not None and response.status == HTTPStatus.NOT_MODIFIED:
            return known
        document = decoded(response.body, _Groups, f"GET {path}")
        if document.kind != "APIGroupDiscoveryList":
            raise Unreachable(
                f"GET {path}", "the answer is not aggregated discovery, which Kubernetes has since 1.30", sent=True
            )
        known_groups = known.groups if known is not None else {}
        digests = {hashlib.sha256(encoded).digest(): encoded for encoded in document.items}
        groups = {
            digest: known_groups.get(digest) or _discovered_group(encoded, path) for digest, encoded in digests.items()
        }
        return _Discovered(
            resources=tuple([resource for group in groups.values() for resource in group.resources]),
            failing={group.name: group.failure for group in groups.values() if group.failure},
            etag=response.etag,
            groups=groups,
        )

    def _store(self, found: _Discovered) -> None:
        """Replace the cache. Groups whose discovery fails now keep their cached resources."""
        kept = [each for served in self._by_kind.values() for each in served.values() if each.group in found.failing]
        for group, reason in found.failing.items():
            if self._failing.get(group) != reason:
                log.warning("discovery of API group %s fails, the other groups are not affected: %s", group, reason)
        self._failing = found.failing
        before, self._by_kind, self._by_name = self._by_kind, {}, {}
        for resource in (*found.resources, *kept):
            self._by_kind.setdefault(resource.group_kind, {}).setdefault(resource.version, resource)
            self._by_name.setdefault(resource.name, resource)
        self._record_withdrawn(before)

    def _record_withdrawn(self, before: Mapping[GroupKind, Mapping[str, Resource]]) -> None:
        for kind, versions in before.items():
            lost = versions.keys() - self._by_kind.get(kind, {}).keys()
            if lost and kind not in self._deleted:
                self._withdrawn.setdefault(kind, set()).update(lost)
        for kind in self._withdrawn.keys() & self._by_kind.keys():
            self._withdrawn[kind] -= self._by_kind[kind].keys()
        # Discovery may list the kinds of a deleted CRD for a moment. Another API may serve them later.
        self._deleted &= self._by_kind.keys()

    def _unknown_kind(self, kind: GroupKind, version: str | None) -> UnknownKind:
        served = self._by_kind.get(kind, {})
        if served:
            return UnknownKind(
                f"the cluster serves {kind} in {', '.join(served)}, not in {version}; correct the apiVersion: write "
                f"{join_api_version(kind.group, next(iter(served)))}"
            )
        wanted = join_api_version(kind.group, version) if version else kind.group or "v1"
        return UnknownKind(f"the cluster serves no {kind.kind} in {wanted}; {self._hint(kind)}")

    def _hint(self, kind: GroupKind) -> str:
        if kind.group in self._failing:
            return f"the discovery of its group fails: {self._failing[kind.group]}"
        return unknown_kind_hint(kind.group, kind.kind)
