"""Small copies of manifests that charts have."""

from __future__ import annotations

from typing import Any

LABELS = {"app.kubernetes.io/instance": "rel", "app.kubernetes.io/name": "shop"}


def manifest(kind: str, name: str, **fields: Any) -> dict[str, Any]:
    api_version = {
        "Deployment": "apps/v1",
        "StatefulSet": "apps/v1",
        "Job": "batch/v1",
        "Ingress": "networking.k8s.io/v1",
    }
    metadata = {"name": name, "labels": dict(LABELS), **fields.pop("metadata", {})}
    return {"apiVersion": api_version.get(kind, "v1"), "kind": kind, "metadata": metadata, **fields}


def workload(name: str = "rel-web", kind: str = "Deployment", *, replicas: int = 2, **container: Any) -> dict[str, Any]:
    pod = {"containers": [{"name": "web", "image": "shop:1", **container}]}
    template = {"metadata": {"labels": {**LABELS, "part": name}}, "spec": pod}
    selector = {"matchLabels": {**LABELS, "part": name}}
    return manifest(kind, name, spec={"replicas": replicas, "selector": selector, "template": template})


def of(api_version: str, kind: str, name: str, **fields: Any) -> dict[str, Any]:
    """A manifest without labels of its own."""
    metadata = {"name": name, **fields.pop("metadata", {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def pods(labels: dict[str, str], name: str = "rel-web", **pod: Any) -> dict[str, Any]:
    """A Deployment that selects all labels of its pods."""
    containers = {"containers": [{"name": "web", "image": "shop:1"}], **pod}
    template = {"metadata": {"labels": dict(labels)}, "spec": containers}
    spec = {"selector": {"matchLabels": dict(labels)}, "template": template}
    return of("apps/v1", "Deployment", name, spec=spec, metadata={"labels": dict(labels)})


WIDGETS = of(
    "apiextensions.k8s.io/v1",
    "CustomResourceDefinition",
    "widgets.example.org",
    metadata={"uid": "u", "annotations": {"own": "x"}},
    spec={
        "group": "example.org",
        "scope": "Cluster",
        "names": {"kind": "Widget", "plural": "widgets"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}},
            }
        ],
    },
    status={"storedVersions": ["v1"]},
)
