"""Reads the audit log of a local control plane: the requests to its API server, with their users."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.objects.json_codec import decoder

_decode = decoder(dict[str, Any])

_CONTROL_PLANE = ("system:kube-controller-manager", "system:kube-scheduler", "system:apiserver", "kwok")


class _User(msgspec.Struct, frozen=True):
    username: str


class _ObjectReference(msgspec.Struct, frozen=True, rename="camel"):
    api_group: str = ""
    api_version: str = ""
    namespace: str = ""
    resource: str = ""


class _Write(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of a request that say which objects it is about."""

    verb: str
    user: _User
    object_ref: _ObjectReference = _ObjectReference()


_decode_write = decoder(_Write)

_BLOCK = 65536
"""Bytes that are read at once to find the end of the last line."""

_beginnings: dict[Path, int] = {}
"""Where the running test begins in each log."""


def begin(cluster: Cluster) -> None:
    """A test begins. Reading the requests of all tests before takes seconds."""
    assert cluster.audit_log is not None
    _beginnings[cluster.audit_log] = end_of_log(cluster)


def end_of_log(cluster: Cluster) -> int:
    """The position after all requests up to now. The API server may be writing a line, which is a later request."""
    assert cluster.audit_log is not None
    with cluster.audit_log.open("rb") as log:
        at = log.seek(0, os.SEEK_END)
        while at > 0:
            start = max(at - _BLOCK, 0)
            log.seek(start)
            if (end := log.read(at - start).rfind(b"\n")) >= 0:
                return start + end + 1
            at = start
    return 0


def audited(cluster: Cluster) -> list[dict[str, Any]]:
    """The requests since the running test began, in the order in which they ended."""
    assert cluster.audit_log is not None
    return audited_after(cluster, _beginnings.get(cluster.audit_log, 0))[0]


def audited_after(cluster: Cluster, position: int) -> tuple[list[dict[str, Any]], int]:
    """The requests after a position in the log, and the position at their end. The first position is 0."""
    whole = _read(cluster, position)
    # Tests create objects that are nested deeper than Python can decode.
    return [_decode(line) for line in whole.splitlines()], position + len(whole)


def _read(cluster: Cluster, position: int) -> bytes:
    assert cluster.audit_log is not None
    with cluster.audit_log.open("rb") as log:
        log.seek(position)
        read = log.read()
    # The API server may be writing the last line.
    return read[: read.rfind(b"\n") + 1]


def written_collections(cluster: Cluster, position: int, namespace: str) -> list[str]:
    """The paths of the collections of a namespace in which a test or its operators wrote after a position in the log.

    Events are left out: no test minds those of another one.
    """
    requests = (_decode_write(line) for line in _read(cluster, position).splitlines())
    written = {
        each.object_ref
        for each in requests
        if each.object_ref.namespace == namespace
        and each.object_ref.resource not in ("events", "namespaces")
        and each.object_ref.api_group != "authorization.k8s.io"
        and each.verb in ("create", "patch", "update")
        and each.user.username not in _CONTROL_PLANE
    }
    return sorted(
        f"/{f'apis/{each.api_group}' if each.api_group else 'api'}/{each.api_version}"
        f"/namespaces/{namespace}/{each.resource}"
        for each in written
    )


def is_by_operator(request: Mapping[str, Any]) -> bool:
    """Whether an operator sent a request; a test sends those of a user with the operator's client, too."""
    return request["userAgent"].startswith("ssa-operator/") and "fieldManager=kubectl" not in request["requestURI"]


def own_requests(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    """The requests of operators for objects in a namespace, since the running test began."""
    return [
        request
        for request in audited(cluster)
        if is_by_operator(request) and request.get("objectRef", {}).get("namespace") == namespace
    ]
