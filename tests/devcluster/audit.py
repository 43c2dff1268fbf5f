"""Reads the audit log of a local control plane: the requests to its API server, with their users."""

from __future__ import annotations

from typing import Any

from ssa_operator.core.objects.json_decoding import decoder
from ssa_operator.devcluster.cluster import Cluster

_decode = decoder(dict[str, Any])


def audited(cluster: Cluster) -> list[dict[str, Any]]:
    """All requests up to now, in the order in which they ended."""
    return audited_after(cluster, 0)[0]


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


def own_requests(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    """The requests of operators for objects in a namespace."""
    return [
        event
        for event in audited(cluster)
        if event["userAgent"].startswith("ssa-operator/") and event.get("objectRef", {}).get("namespace") == namespace
    ]
