"""The parts of a CRD that the operator needs: the fields of the status that it writes, and the columns that show them.

Promises:
- The operator can report everything: `conditions` is a list map, and `resources` has every field of a child's state.
- `kubectl get` shows the status and reason of the condition Ready, with `--output wide` its message, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
APPLIED_FIELD = "appliedTemplates"
"""The field of the status with the digest of the templates that were applied, and the kinds of the children."""
RESERVED = ("observedGeneration", "conditions", "resources", APPLIED_FIELD)
"""The fields of the status that the operator writes."""
COLUMNS: Sequence[Mapping[str, Any]] = (
    {"name": "Ready", "type": "string", "jsonPath": f"{_READY}.status"},
    {"name": "Reason", "type": "string", "jsonPath": f"{_READY}.reason"},
    {"name": "Message", "type": "string", "priority": 1, "jsonPath": f"{_READY}.message"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
)
"""The columns of the operator's fields, and of the age."""


def status_fields(own: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a status with the author's own fields and those of the operator."""
    return {
        "type": "object",
        "properties": {
            "observedGeneration": {"type": "integer", "format": "int64"},
            **own,
            "conditions": _CONDITIONS,
            "resources": _RESOURCES,
            APPLIED_FIELD: _STRING,
        },
    }


def spec_fields(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of the spec. Without required fields it has a default, so that its own defaults apply."""
    if not spec.get("properties"):
        return {"type": "object"}
    return {**spec} if spec.get("required") else {**spec, "default": {}}
