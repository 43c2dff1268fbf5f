"""Gets, lists, applies, creates and deletes Kubernetes objects.

Promises:
- Every call returns an object or a list, or raises an error that names the request.
- A list is a snapshot of one resourceVersion, however many pages it has.
- An apply succeeds even if the object's managedFields name an API version that the CRD no longer has, and if it empties
  a mapping of a custom resource.
- A DryRunClient sends no request that changes the cluster.
- Only the empty mappings that the API server refuses are left out of a manifest, and the mappings around them that
  would be empty without them.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec
from msgspec import Struct

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.errors import ApiError, InvalidPath, Unreachable
from ssa_operator.kube.api.flow_control import WriteFence
from ssa_operator.kube.api.request import DEFAULT_APPLY, ApplyOptions, DeleteOptions, Request, Scope
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.api.transport import Response, Transport
from ssa_operator.kube.auth.credentials import Credentials
from ssa_operator.kube.clock import SYSTEM, Clock
from ssa_operator.objects.json_codec import decoder, encode
from ssa_operator.objects.live_object import MANAGER, DecodedBodies, LiveObject
from ssa_operator.objects.managed_fields import in_version

PAGE = 500
"""Objects in one page of a list, as in kubectl and client-go."""


FIRST_PAGE = 16
"""Objects in the first page of a list whose objects may be large: an object may have 1.5 MiB."""

PAGE_SIZE = 8 * 2**20
"""Bytes that the next pages of such a list should have."""


class _ShardInfo(msgspec.Struct):
    selector: str = ""


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    token: str = msgspec.field(default="", name="continue")
    shard_info: _ShardInfo | None = None


class _Page(msgspec.Struct):
    metadata: _ListMetadata
    items: list[msgspec.Raw] | None = None


_decode_page = decoder(_Page)
_decode_mapping = decoder(dict[str, Any])


class Applied(Struct, frozen=True, kw_only=True):
    """The result of an apply: the object, whether the apply created it, and the server's warnings."""

    live: LiveObject
    created: bool
    warnings: tuple[str, ...]


class Client(Transport):
    """The calls to one API server, by resource and name."""

    def __init__(self, credentials: Credentials, clock: Clock = SYSTEM, fence: WriteFence | None = None) -> None:
        super().__init__(credentials, clock, fence)
        self._decoded_bodies = DecodedBodies()

    async def get(self, resource: Resource, name: str, namespace: str = "") -> LiveObject:
        """Raises ApiError (`not_found` if the object does not exist)."""
        request = calls.get(resource, name, namespace)
        return self._live((await self.send(request)).body, request)

    async def find(self, resource: Resource, name: str, namespace: str = "") -> LiveObject | None:
        """`get`, but None if the object does not exist. An object whose name is not a valid path segment never exists.
        Raises ApiError.
        """
        try:
            return await self.get(resource, name, namespace)
        except InvalidPath:
            return None
        except ApiError as error:
            if not error.not_found:
                raise
            return None

    async def list(
        self, resource: Resource, namespace: str = "", label_selector: str = "", limit: int = PAGE
    ) -> tuple[list[LiveObject], str]:
        """All objects and the list's resourceVersion. `limit` is the size of a page. Raises ApiError."""
        return await self.list_scope(Scope(resource, namespace, label_selector), limit)

    async def list_scope(
        self,
        scope: Scope,
        limit: int = PAGE,
        keep: Callable[[LiveObject], bool] | None = None,
        reduce: Callable[[LiveObject], LiveObject] | None = None,
        after_page: Callable[[], Awaitable[None]] | None = None,
    ) -> tuple[builtins.list[LiveObject], str]:
        """`list` of a scope. With `keep`, the objects for which it returns False are dropped page by page. With
        `reduce`, its result is kept in place of each object, and the pages are small while the objects are large.
        `after_page` is awaited after each page; a list may begin again.
        """
        objects: list[LiveObject] = []
        if reduce is not None:
            limit = min(limit, FIRST_PAGE)
        token = ""
        while True:
            try:
                response = await self.send(calls.list_page(scope, limit=limit, token=token))
            except ApiError as error:
                if not (error.gone and token):
                    raise
                # The server has compacted the resourceVersion of the pages. This can't happen to a list of one page.
                objects, token, limit = [], "", 0
                continue
            page = self._page(response.body, scope)
            # One by one, so that of a page only its body is in memory.
            lives = self._live_objects(page, scope)
            kept = lives if keep is None else filter(keep, lives)
            objects += kept if reduce is None else map(reduce, kept)
            if after_page is not None:
                await after_page()
            metadata = page.metadata
            if reduce is not None and limit:
                limit = _next_limit(len(page.items or ()), len(response.body))
            token = metadata.token
            if not token:
                return objects, metadata.resource_version

    async def latest_version(self, scope: Scope) -> str:
        """The resourceVersion that a list of the scope has now. Raises ApiError."""
        response = await self.send(calls.list_page(scope, limit=1))
        return self._page(response.body, scope).metadata.resource_version

    async def applies_shard_selector(self, scope: Scope) -> bool:
        """Whether the API server filters a list of the scope by its `shard_selector`. Raises ApiError.

        A server without the gate ShardedListAndWatch ignores the selector. A server with the gate echoes it in the
        metadata of the list, but not for custom resources and metadata-only lists, which it filters, too (1.36.3).
        """
        response = await self.send(calls.list_page(scope, limit=1))
        metadata = self._page(response.body, scope).metadata
        return metadata.shard_info is not None and metadata.shard_info.selector != ""

    async def apply(
        self, resource: Resource, namespace: str, name: str, body: bytes, options: ApplyOptions = DEFAULT_APPLY
    ) -> Applied:
        """Force a server-side apply of an encoded manifest. Raises ApiError.

        Errors and warnings quote no value of a Secret, and no field of `options.secret`.
        """
        request = calls.apply(resource, namespace, name, body, options)
        try:
            response = await self.send(request)
        except ApiError as error:
            if error.missing_version and not options.dry_run:
                await self._replace_version(resource, namespace, name, error.missing_version)
                response = await self.send(request)
            elif error.null_mappings:
                response = await self._apply_without_emptied(request, error)
            else:
                raise
        if not options.dry_run and _has_null_for_empty(request, response):
            response = await self._apply_again(request, response)
        return Applied(
            live=self._live(response.body, request), created=response.status == 201, warnings=response.warnings
        )

    async def _apply_without_emptied(self, request: Request, refusal: ApiError) -> Response:
        """Apply a manifest that empties mappings: first without them, then unmodified. A dry run has no effect on the
        next one, so it returns the object without them.
        """
        filled = without_emptied_mappings(_decode_mapping(request.body), refusal.null_mappings)
        try:
            response = await self.send(replace(request, body=encode(filled)))
        except ApiError as error:
            # What else is wrong with the manifest is in the first refusal, too.
            raise refusal if error.invalid else error from None
        return response if request.dry_run else await self._apply_again(request, response)

    async def _apply_again(self, request: Request, response: Response) -> Response:
        """Apply a manifest to the object that another apply returned."""
        body = _decode_mapping(request.body)
        if body["metadata"].get("resourceVersion"):
            body["metadata"]["resourceVersion"] = self._live(response.body, request).resource_version
        return await self.send(replace(request, body=encode(body)))

    async def _replace_version(self, resource: Resource, namespace: str, name: str, version: str) -> None:
        """Replace a version that the CRD no longer has in the object's managedFields. The API server refuses every
        apply to an object that names such a version.
        """
        live = await self.get(resource, name, namespace)
        patch = in_version(live, resource.api_version, instead_of=version)
        await self.send(calls.merge_patch(resource, namespace, name, patch))

    async def json_patch(self, resource: Resource, namespace: str, name: str, body: bytes) -> LiveObject:
        """Send an encoded JSON patch. Raises ApiError (`invalid` or `conflict` if a `test` in it fails)."""
        request = calls.json_patch(resource, namespace, name, body)
        return self._live((await self.send(request)).body, request)

    async def merge_patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: bytes,
        *,
        subresource: str = "",
        manager: str = MANAGER,
    ) -> LiveObject:
        """Send an encoded JSON merge patch. Raises ApiError (`conflict` if its resourceVersion is outdated)."""
        request = calls.merge_patch(resource, namespace, name, body, subresource=subresource, manager=manager)
        return self._live((await self.send(request)).body, request)

    async def create(self, resource: Resource, namespace: str, body: bytes) -> Applied:
        """POST an encoded object. Raises ApiError (`already_exists`)."""
        request = calls.create(resource, namespace, body)
        response = await self.send(request)
        return Applied(live=self._live(response.body, request), created=True, warnings=response.warnings)

    async def delete(self, resource: Resource, namespace: str, name: str, options: DeleteOptions) -> LiveObject | None:
        """Delete the object with the options' uid. Returns None if it is gone, the object if finalizers keep it.

        Raises ApiError: `conflict` if another object has the name now.
        """
        request = calls.delete(resource, namespace, name, options)
        try:
            response = await self.send(request)
        except ApiError as error:
            if error.not_found:
                return None
            raise
        live = self._live(response.body, request)
        # The server answers with a Status, which has no uid, if the object is gone, and else with the object.
        return live if live.deleting and live.uid == options.uid else None

    def live_object(self, raw: bytes | msgspec.Raw, api_version: str = "", kind: str = "") -> LiveObject:
        """One encoded object; its arguments are those of LiveObject. Raises msgspec.DecodeError."""
        return LiveObject(raw, api_version, kind, self._decoded_bodies)

    def _live(self, body: bytes, request: Request) -> LiveObject:
        try:
            return self.live_object(body)
        except msgspec.DecodeError as error:
            raise Unreachable(request.subject, f"the answer is not an object: {error}", sent=True) from error

    def _page(self, body: bytes, scope: Scope) -> _Page:
        try:
            return _decode_page(body)
        except msgspec.DecodeError as error:
            raise _no_list(scope, error) from error

    def _live_objects(self, page: _Page, scope: Scope) -> Iterator[LiveObject]:
        """The objects of a page. Raises Unreachable."""
        version, kind = scope.resource.api_version, scope.resource.kind
        for item in page.items or ():
            try:
                yield self.live_object(item, version, kind)
            except msgspec.DecodeError as error:
                raise _no_list(scope, error) from error


def _no_list(scope: Scope, error: msgspec.DecodeError) -> Unreachable:
    return Unreachable(f"list of {scope}", f"the answer is not a list: {error}", sent=True)


def _next_limit(objects: int, size: int) -> int:
    """The number of objects that the next page of a list should have, after a page of this size."""
    return max(1, min(PAGE, objects * PAGE_SIZE // max(1, size)))


def _has_null_for_empty(request: Request, response: Response) -> bool:
    """Whether the API server made an empty mapping of the manifest null."""
    if b"{}" not in request.body or b":null" not in response.body:
        return False
    return has_null_for_empty(_decode_mapping(request.body), _decode_mapping(response.body))


class DryRunClient(Client):
    """A client for previews: it reads, and its writes are dry runs."""

    async def send(self, request: Request) -> Response:
        """`Transport.send`. Raises RuntimeError for a request that would change the cluster, because that is a bug."""
        if request.writes and not request.dry_run:
            raise RuntimeError(f"a preview must not send the {request.subject}, which is no dry run")
        return await super().send(request)


_POSITION = r"\[\d+\]"


def without_emptied_mappings(body: Mapping[str, Any], refused: Collection[str]) -> dict[str, Any]:
    """A manifest without the empty mappings at these fields, as the API server's message writes them
    (`spec.members[0].labels`).

    Positions are those of the object that the API server made of the manifest, where a list may have items of others.
    So the field is left out in each item of the list in which it is an empty mapping.
    """
    return _filled(body, "", {re.sub(_POSITION, "", field) for field in refused})


def _filled(mapping: Mapping[str, Any], prefix: str, refused: Collection[str]) -> dict[str, Any]:
    filled: dict[str, Any] = {}
    for key, value in mapping.items():
        field = f"{prefix}{key}"
        if isinstance(value, list):
            filled[key] = [_filled(each, f"{field}.", refused) if isinstance(each, Mapping) else each for each in value]
        elif not isinstance(value, Mapping) or (not value and field not in refused):
            filled[key] = value
        elif inner := _filled(value, f"{field}.", refused):
            filled[key] = inner
    return filled


def has_null_for_empty(body: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
    """Whether an object has null where its manifest has an empty mapping; in lists, wherever the item is."""
    return not {*_fields(body, {})}.isdisjoint(_fields(live, None))


def _fields(value: Any, wanted: object, field: str = "") -> Iterator[str]:
    """The fields with this value, without positions of lists."""
    if value == wanted:
        yield field
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _fields(each, wanted, f"{field}.{key}")
    elif isinstance(value, list):
        for each in value:
            yield from _fields(each, wanted, field)
