"""What an API server is asked: objects one by one, lists, applies, deletions.

Promises:
- Whatever it answers is an object, a list, or an error that says which request it was.
- A list is of one moment, however many pages it has.
- An apply succeeds also where an object still has fields in a version that is gone.
"""

from __future__ import annotations

import builtins
from dataclasses import dataclass, replace

import msgspec

from ssa_operator.core.objects.live_object import MANAGER, LiveObject
from ssa_operator.core.policies.adoption import in_version
from ssa_operator.core.redaction.secret_values import NO_SECRETS, Redactor
from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.errors import ApiError, Unreachable
from ssa_operator.kube.api.request import Deletion, Request, Scope
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.api.transport import Transport

PAGE = 500
"""Objects in one page of a list; kubectl and client-go ask for as many."""


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    token: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _ListMetadata
    items: list[msgspec.Raw] | None = None


_decode_page = msgspec.json.Decoder(_Page).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What an apply gave: the object as it now is, whether it is new, and the server's warnings."""

    live: LiveObject
    created: bool
    warnings: tuple[str, ...]


class Client(Transport):
    """The calls of the API, by resource and name, over one transport."""

    async def get(self, resource: Resource, name: str, namespace: str = "") -> LiveObject:
        """Raises ApiError (`not_found` where there is none)."""
        request = calls.get(resource, name, namespace)
        return _live((await self.send(request)).body, request)

    async def list(
        self, resource: Resource, namespace: str = "", label_selector: str = "", limit: int = PAGE
    ) -> tuple[list[LiveObject], str]:
        """All objects of a scope and the version of the list, as of one moment; `limit` is the size of a page."""
        return await self.list_scope(Scope(resource, namespace, label_selector), limit)

    async def list_scope(self, scope: Scope, limit: int = PAGE) -> tuple[builtins.list[LiveObject], str]:
        """`list` of a scope."""
        found: list[LiveObject] = []
        token = ""
        while True:
            try:
                response = await self.send(calls.list_page(scope, limit=limit, token=token))
            except ApiError as error:
                if not (error.gone and token):
                    raise
                # The moment that the pages showed is compacted away. In one piece it can't happen again.
                found, token, limit = [], "", 0
                continue
            items, metadata = _page(response.body, scope)
            found += items
            token = metadata.token
            if not token:
                return found, metadata.resource_version

    async def apply(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: bytes,
        *,
        subresource: str = "",
        dry_run: bool = False,
        redactor: Redactor = NO_SECRETS,
        manager: str = MANAGER,
    ) -> Applied:
        """Server-side apply of an encoded manifest, forced, as the operator's field manager. Raises ApiError.

        Where errors and warnings would hold what `secrecy` knows, they don't quote values; for Secrets they never do.
        """
        request = calls.apply(
            resource, namespace, name, body, subresource=subresource, dry_run=dry_run, manager=manager
        )
        if redactor:
            request = replace(request, redactor=redactor)
        try:
            response = await self.send(request)
        except ApiError as error:
            if dry_run or not error.missing_version:
                raise
            await self._forget_version(resource, namespace, name, error.missing_version)
            response = await self.send(request)
        return Applied(live=_live(response.body, request), created=response.status == 201, warnings=response.warnings)

    async def _forget_version(self, resource: Resource, namespace: str, name: str, version: str) -> None:
        """Make the fields that an object's managers wrote in a version that is gone fields of the present one. With
        them as they are, the object can't be applied to any more.
        """
        live = await self.get(resource, name, namespace)
        patch = in_version(live, resource.api_version, instead_of=version)
        await self.send(calls.merge_patch(resource, namespace, name, patch))

    async def json_patch(
        self, resource: Resource, namespace: str, name: str, body: bytes, *, manager: str = MANAGER
    ) -> LiveObject:
        """Send an encoded JSON patch. Raises ApiError (`invalid` or `conflict` where a `test` in it fails)."""
        request = calls.json_patch(resource, namespace, name, body, manager=manager)
        return _live((await self.send(request)).body, request)

    async def create(self, resource: Resource, namespace: str, body: bytes, *, dry_run: bool = False) -> Applied:
        """POST of an encoded object. Raises ApiError (`already_exists`)."""
        request = calls.create(resource, namespace, body, dry_run=dry_run)
        response = await self.send(request)
        return Applied(live=_live(response.body, request), created=True, warnings=response.warnings)

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str,
        propagation: str = "Background",
        resource_version: str = "",
    ) -> LiveObject | None:
        """Delete the object with that uid: None when it is gone, the object while its finalizers keep it.

        Raises ApiError: `conflict` where another object has taken the name.
        """
        request = calls.delete(resource, namespace, name, Deletion(uid, propagation, resource_version))
        try:
            response = await self.send(request)
        except ApiError as error:
            if error.not_found:
                return None
            raise
        live = _live(response.body, request)
        # A Status, which has no uid, says that it is gone; the object that it isn't yet.
        return live if live.deleting and live.uid == uid else None


def _live(body: bytes, request: Request) -> LiveObject:
    try:
        return LiveObject(body)
    except msgspec.DecodeError as error:
        raise Unreachable(request.subject, f"the answer is no object: {error}", sent=True) from error


def _page(body: bytes, scope: Scope) -> tuple[list[LiveObject], _ListMetadata]:
    resource = scope.resource
    try:
        page = _decode_page(body)
        return [LiveObject(item, resource.api_version, resource.kind) for item in page.items or ()], page.metadata
    except msgspec.DecodeError as error:
        raise Unreachable(f"list of {scope}", f"the answer is no list: {error}", sent=True) from error
