"""Turns manifests into objects whose controllers have finished, to render the documents that depend on them.

Promises:
- The built-in readiness rules regard every object as ready.
- A Secret's `stringData` is in its `data`, as the API server stores it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

from ssa_operator.objects.cluster_view import Body
from ssa_operator.objects.identity import GroupKind

_TRUE = "True"


def ready_object(manifest: Body) -> dict[str, Any]:
    """A manifest as a live object that is ready."""
    body = dict(manifest)
    kind = GroupKind.of(body["apiVersion"], body["kind"])
    body["metadata"] = {"generation": 1, **body["metadata"]}
    if kind == GroupKind("", "Secret") and isinstance(body.get("stringData"), Mapping):
        texts = body.pop("stringData")
        encoded = {key: base64.b64encode(str(text).encode()).decode() for key, text in texts.items()}
        body["data"] = {**(body.get("data") or {}), **encoded}
    status = _STATUSES.get(kind)
    if status is not None:
        spec = body.get("spec")
        body["status"] = {**status(spec if isinstance(spec, Mapping) else {}), **(body.get("status") or {})}
    return body


def _conditions(kind: str) -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": _TRUE, "reason": kind, "message": ""}]}


def _replicas(spec: Mapping[str, Any]) -> dict[str, Any]:
    counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "currentReplicas")
    return {"observedGeneration": 1, **dict.fromkeys(counts, spec.get("replicas", 1))}


def _stateful_set(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {**_replicas(spec), "currentRevision": "1", "updateRevision": "1"}


def _daemon_set(_: Mapping[str, Any]) -> dict[str, Any]:
    counts = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberReady",
    )
    return {"observedGeneration": 1, **dict.fromkeys(counts, 1)}


def _service(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}} if spec.get("type") == "LoadBalancer" else {}


_STATUSES: Mapping[GroupKind, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    GroupKind("", "PersistentVolume"): lambda _: {"phase": "Available"},
    GroupKind("", "PersistentVolumeClaim"): lambda _: {"phase": "Bound"},
    GroupKind("", "Pod"): lambda _: {"phase": "Running", **_conditions("Ready")},
    GroupKind("", "Service"): _service,
    GroupKind("", "Namespace"): lambda _: {"phase": "Active"},
    GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"): lambda _: _conditions("Established"),
    GroupKind("apiregistration.k8s.io", "APIService"): lambda _: _conditions("Available"),
    GroupKind("apps", "DaemonSet"): _daemon_set,
    GroupKind("apps", "Deployment"): _replicas,
    GroupKind("apps", "ReplicaSet"): _replicas,
    GroupKind("apps", "StatefulSet"): _stateful_set,
    GroupKind("batch", "Job"): lambda _: {"succeeded": 1, **_conditions("Complete")},
    GroupKind("policy", "PodDisruptionBudget"): lambda _: {"observedGeneration": 1, **_conditions("DisruptionAllowed")},
}
