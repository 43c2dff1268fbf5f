"""The first objects of every cluster: fake nodes, and a default StorageClass whose claims kwok binds."""

from __future__ import annotations

from typing import Any

STORAGE_CLASS = "standard"


def initial(nodes: int) -> tuple[tuple[str, dict[str, Any]], ...]:
    """The API path and the body of each object to create, in order."""
    return (
        *(("/api/v1/nodes", _node(index)) for index in range(nodes)),
        ("/apis/storage.k8s.io/v1/storageclasses", _storage_class()),
    )


def count_ready(nodes: dict[str, Any]) -> int:
    """How many nodes of a NodeList are Ready and have no taint."""
    return sum(1 for node in nodes["items"] if _is_ready(node))


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions", [])
    ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    return ready and not node["spec"].get("taints")


def _node(index: int) -> dict[str, Any]:
    name = f"node-{index + 1}"
    capacity = {"cpu": "1000", "memory": "1Ti", "pods": "10000", "ephemeral-storage": "1Ti"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"},
        },
        "status": {"allocatable": capacity, "capacity": capacity},
    }


def _storage_class() -> dict[str, Any]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": STORAGE_CLASS, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "kwok.x-k8s.io/volume",
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    }
