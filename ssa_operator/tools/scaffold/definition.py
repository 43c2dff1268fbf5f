"""The CRD of a new resource, and an example of its objects.

Promises:
- The operator can report everything: the CRD has the status subresource, `conditions` as a list map, and `resources`.
- `kubectl get` shows the status and reason of the condition Ready, with `--output wide` its message, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssa_operator.tools.scaffold.fields import sample
from ssa_operator.tools.scaffold.names import ResourceNames

_READY = '.status.conditions[?(@.type=="Ready")]'
_STRING: Mapping[str, Any] = {"type": "string"}
_CONDITIONS: Mapping[str, Any] = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
    "items": {
        "type": "object",
        "required": ["type", "status"],
        "properties": {
            "type": _STRING,
            "status": _STRING,
            "observedGeneration": {"type": "integer", "format": "int64"},
            "lastTransitionTime": {"type": "string", "format": "date-time"},
            "reason": _STRING,
            "message": _STRING,
        },
    },
}
_RESOURCES: Mapping[str, Any] = {
    "type": "array",
    "x-kubernetes-list-type": "atomic",
    "items": {
        "type": "object",
        "required": ["group", "kind", "name"],
        "properties": dict.fromkeys(("group", "kind", "namespace", "name", "uid", "state", "message"), _STRING),
    },
}
_READY_REPLICAS: Mapping[str, Any] = {
    "type": "integer",
    "format": "int32",
    "description": "Number of ready pods.",
}
_COLUMNS = (
    {"name": "Ready", "type": "string", "jsonPath": f"{_READY}.status"},
    {"name": "Reason", "type": "string", "jsonPath": f"{_READY}.reason"},
    {"name": "Message", "type": "string", "priority": 1, "jsonPath": f"{_READY}.message"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
)


def definition(names: ResourceNames, spec: Mapping[str, Any], *, ready_replicas: bool) -> dict[str, Any]:
    """The CRD. `spec` is the schema of the field; with `ready_replicas` the status has a field of that name."""
    own = {"readyReplicas": _READY_REPLICAS} if ready_replicas else {}
    status = {
        "type": "object",
        "properties": {
            "observedGeneration": {"type": "integer", "format": "int64"},
            **own,
            "conditions": _CONDITIONS,
            "resources": _RESOURCES,
        },
    }
    required = {"required": ["spec"]} if spec.get("required") else {}
    version = {
        "name": names.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": list(_COLUMNS),
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                **required,
                "properties": {"spec": _spec(spec), "status": status},
            }
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": names.folder},
        "spec": {
            "group": names.group,
            "scope": "Namespaced",
            "names": {
                "kind": names.kind,
                "listKind": f"{names.kind}List",
                "plural": names.plural,
                "singular": names.singular,
            },
            "versions": [version],
        },
    }


def _spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of the spec. Without required fields it has a default, so that its own defaults apply."""
    if not spec.get("properties"):
        return {"type": "object"}
    return {**spec} if spec.get("required") else {**spec, "default": {}}


def example(names: ResourceNames, spec: Mapping[str, Any], name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """An object with every field of the spec. `values` are samples of fields by name."""
    return {
        "apiVersion": names.api_version,
        "kind": names.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": sample({**spec, "default": None}, "spec", values),
    }
