"""Reads the audit log of a local control plane: the requests to its API server, with their users."""

from __future__ import annotations

import json
from typing import Any

from ssa_operator.devcluster.cluster import Cluster


def audited(cluster: Cluster) -> list[dict[str, Any]]:
    """All requests up to now, in the order in which they ended."""
    assert cluster.audit_log is not None
    return [json.loads(line) for line in cluster.audit_log.read_text().splitlines()]


def own_requests(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    """The requests of operators for objects in a namespace."""
    return [
        event
        for event in audited(cluster)
        if event["userAgent"].startswith("ssa-operator/") and event.get("objectRef", {}).get("namespace") == namespace
    ]
