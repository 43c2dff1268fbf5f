"""Reads and writes one Lease.

Promises:
- A write names the resourceVersion that was read. If another process wrote the Lease since, it is a conflict.
- A request for the Lease ends before its timeout, retries included.
- A write keeps the labels, annotations and owner references of the Lease.
- A watch of the Lease only wakes the reader, which then reads the newest state.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.errors import ApiError, Unreachable
from ssa_operator.kube.api.request import Request, Scope
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.api.transport import Transport
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.lease import Lease

LEASES = Resource(
    group="coordination.k8s.io", version="v1", kind="Lease", plural="leases", namespaced=True, singular="lease"
)


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None


class _Object(msgspec.Struct):
    metadata: dict[str, Any]
    spec: _Spec = msgspec.field(default_factory=_Spec)


def new_identity() -> str:
    """The name of this process in a Lease: its host, which is the pod in a cluster, and a random suffix."""
    return f"{socket.gethostname()}_{secrets.token_hex(8)}"


class LeaseAccess:
    """The Lease `namespace/name`.

    `transport` has connections of its own, so that no other request delays a renewal. `labels` are those that each
    write sets, beside those that the Lease has.
    """

    def __init__(
        self,
        transport: Transport,
        namespace: str,
        name: str,
        *,
        timeout: float,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self.namespace = namespace
        self.name = name
        self._transport = transport
        self._timeout = timeout
        self._labels = dict(labels or {})

    def __str__(self) -> str:
        return LEASES.describe(self.namespace, self.name)

    async def get(self) -> Lease | None:
        """The Lease in its newest state, None if it does not exist. Raises ApiError."""
        try:
            return await self._send(calls.get(LEASES, self.name, self.namespace))
        except ApiError as error:
            if error.not_found:
                return None
            raise

    async def write(self, lease: Lease) -> Lease:
        """Update the Lease that was read, or create it if there was none, and return the stored Lease.

        Raises ApiError: `conflict` or `already_exists` if another process was faster, `not_found` if it is gone.
        """
        body = encode(self._body(lease))
        if lease.resource_version:
            return await self._send(calls.update(LEASES, self.namespace, self.name, body))
        return await self._send(calls.create(LEASES, self.namespace, body))

    async def events(self, lease: Lease) -> AsyncIterator[None]:
        """One item for each change after this state, until the API server ends the watch. Raises ApiError."""
        scope = Scope(LEASES, self.namespace, name=self.name)
        watch = calls.watch(scope, resource_version=lease.resource_version, seconds=WATCH_SECONDS)
        async with self._transport.stream(watch) as pieces:
            async for _ in pieces:
                yield

    async def _send(self, request: Request) -> Lease:
        try:
            async with asyncio.timeout(self._timeout):
                return _lease(await self._transport.read(request, _Object))
        except TimeoutError:
            raise Unreachable(request.subject, f"no answer in {self._timeout:g} s", sent=True) from None

    def _body(self, lease: Lease) -> dict[str, Any]:
        # Without managedFields in a PUT, the API server keeps the stored ones.
        kept = {key: value for key, value in lease.metadata.items() if key != "managedFields"}
        labels = {**kept.get("labels", {}), **self._labels}
        metadata = {**kept, **({"labels": labels} if labels else {})}
        spec = {
            "holderIdentity": lease.holder,
            "leaseDurationSeconds": lease.duration,
            "leaseTransitions": lease.transitions,
            "acquireTime": lease.acquired,
            "renewTime": lease.renewed,
        }
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {**metadata, "name": self.name, "namespace": self.namespace},
            "spec": {key: value for key, value in spec.items() if value not in ("", None) or key == "holderIdentity"},
        }


WATCH_SECONDS = 300
"""Seconds after which the API server ends a watch of the Lease."""


def _lease(read: _Object) -> Lease:
    spec = read.spec
    return Lease(
        holder=spec.holder_identity or "",
        duration=spec.lease_duration_seconds or 0,
        transitions=spec.lease_transitions or 0,
        acquired=spec.acquire_time or "",
        renewed=spec.renew_time or "",
        metadata=read.metadata,
    )
