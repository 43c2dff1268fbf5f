"""The audit log of a local control plane: what was asked of its API server, and by whom."""

from __future__ import annotations

import json
from typing import Any

from ssa_operator.devcluster.cluster import Cluster


def audited(cluster: Cluster) -> list[dict[str, Any]]:
    """All requests up to now, in the order in which they were over."""
    assert cluster.audit_log is not None
    return [json.loads(line) for line in cluster.audit_log.read_text().splitlines()]


def own_requests(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    """Those of operators for objects in a namespace."""
    return [
        event
        for event in audited(cluster)
        if event["userAgent"].startswith("ssa-operator/") and event.get("objectRef", {}).get("namespace") == namespace
    ]
