"""The job that every contender has: an Echo's Deployment, Service and status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.json_codec import encode

FOLDER = Path(__file__).parent
DEFINITION = FOLDER / "crd.yaml"
API_VERSION = "bench.example.com/v1"
ECHO = GroupKind("bench.example.com", "Echo")
DEPLOYMENT = GroupKind("apps", "Deployment")
SERVICE = GroupKind("", "Service")
KINDS = (ECHO, DEPLOYMENT, SERVICE)
NAMESPACE = "bench"


def echo(name: str, replicas: int = 1) -> bytes:
    """A parent as a user writes it."""
    metadata = {"name": name, "namespace": NAMESPACE}
    return encode({"apiVersion": API_VERSION, "kind": "Echo", "metadata": metadata, "spec": {"replicas": replicas}})


def children(name: str, replicas: int, owner_uid: str = "", namespace: str = NAMESPACE) -> dict[GroupKind, bytes]:
    """What has to be applied for an Echo; without the uid of an owner, for nobody."""
    labels = {"app": name}
    metadata: dict[str, Any] = {"name": name, "namespace": namespace, "labels": labels}
    if owner_uid:
        owner = {"apiVersion": API_VERSION, "kind": "Echo", "name": name, "uid": owner_uid}
        metadata["ownerReferences"] = [{**owner, "controller": True, "blockOwnerDeletion": True}]
    return {DEPLOYMENT: encode(_deployment(metadata, replicas)), SERVICE: encode(_service(metadata))}


def status(name: str, generation: int, replicas: int) -> bytes:
    """What has to be applied to the status of an Echo."""
    return encode(
        {
            "apiVersion": API_VERSION,
            "kind": "Echo",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "status": {"observedGeneration": generation, "replicas": replicas},
        }
    )


def _deployment(metadata: dict[str, Any], replicas: int) -> dict[str, Any]:
    labels = metadata["labels"]
    container = {
        "name": "echo",
        "image": "inanimate/echo-server:latest",
        "env": [{"name": "PORT", "value": "8080"}],
        "ports": [{"name": "http", "containerPort": 8080}],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
    }
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def _service(metadata: dict[str, Any]) -> dict[str, Any]:
    spec = {"selector": metadata["labels"], "ports": [{"name": "http", "port": 80, "targetPort": "http"}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def decoded(body: bytes) -> dict[str, Any]:
    """An encoded object."""
    found: dict[str, Any] = json.loads(body)
    return found
