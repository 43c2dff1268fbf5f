"""Reads the audit log of a local control plane: the requests to its API server, with their users."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ssa_operator.core.objects.json_decoding import decoder
from ssa_operator.devcluster.cluster import Cluster

_decode = decoder(dict[str, Any])

_beginnings: dict[Path, int] = {}
"""Where the running test begins in each log."""


def begin(cluster: Cluster) -> None:
    """A test begins. Reading the requests of all tests before takes seconds."""
    assert cluster.audit_log is not None
    _beginnings[cluster.audit_log] = end_of_log(cluster)


def end_of_log(cluster: Cluster) -> int:
    """The position after all requests up to now."""
    assert cluster.audit_log is not None
    return cluster.audit_log.stat().st_size


def audited(cluster: Cluster) -> list[dict[str, Any]]:
    """The requests since the running test began, in the order in which they ended."""
    assert cluster.audit_log is not None
    return audited_after(cluster, _beginnings.get(cluster.audit_log, 0))[0]


def audited_after(cluster: Cluster, position: int) -> tuple[list[dict[str, Any]], int]:
    """The requests after a position in the log, and the position at their end. The first position is 0."""
    assert cluster.audit_log is not None
    with cluster.audit_log.open("rb") as log:
        log.seek(position)
        read = log.read()
    # The API server may be writing the last line.
    whole = read[: read.rfind(b"\n") + 1]
    # Tests create objects that are nested deeper than Python can decode.
    return [_decode(line) for line in whole.splitlines()], position + len(whole)


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
