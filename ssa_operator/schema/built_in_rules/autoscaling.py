"""What the API server requires of HorizontalPodAutoscalers and PodDisruptionBudgets.

The rules are those of k8s.io/kubernetes (pkg/apis/autoscaling/validation, pkg/apis/policy/validation).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ssa_operator.objects.source_location import FieldPath
from ssa_operator.schema.built_in_rules.constraints import (
    Constraint,
    above_zero,
    between,
    choice,
    count_or_percentage,
    every,
    fields,
    is_integer,
    is_missing,
    items,
    matches,
    quantity,
    required,
    set_choice,
    text,
)
from ssa_operator.schema.built_in_rules.resources import container_resource_faults
from ssa_operator.schema.built_in_rules.text_rules import LABEL, SEGMENT, SELECTOR
from ssa_operator.schema.field_errors import ErrorType, FieldError, error_at

_VERSION = matches(lambda value: value.count("/") <= 1, "unexpected GroupVersion string")
_OBJECT_REFERENCE = fields({"kind": SEGMENT, "name": SEGMENT, "apiVersion": _VERSION}, required("kind", "name"))


def _scale_group(value: Any, path: FieldPath) -> Iterator[FieldError]:
    """The apiVersion of what is scaled has a group; only the ReplicationController has none."""
    if not isinstance(value, Mapping) or value.get("kind") in (None, "", "ReplicationController"):
        return
    version = value.get("apiVersion") or ""
    group, slash, _ = version.partition("/") if isinstance(version, str) else ("a", "/", "")
    if not (group and slash):
        yield error_at((*path, "apiVersion"), version, "apiVersion must specify API group")


_TARGET_REFERENCE = every(_OBJECT_REFERENCE, _scale_group)
_METRIC = fields({"name": SEGMENT}, required("name"))
_POSITIVE = quantity(exclusive=True)


def _target(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if isinstance(value, Mapping):
        yield from _TARGET_FIELDS(value, path)
        kind = value.get("type")
        found = {"Utilization": "averageUtilization", "AverageValue": "averageValue", "Value": "value"}
        if not kind:
            yield error_at((*path, "type"), detail="must specify a metric target type", kind=ErrorType.REQUIRED)
        elif isinstance(kind, str) and kind not in found:
            words = "must be either Utilization, Value, or AverageValue"
            yield error_at((*path, "type"), kind, words)


_TARGET_FIELDS = fields({"averageUtilization": above_zero, "averageValue": _POSITIVE, "value": _POSITIVE})


def _of_target(*names: str, external: bool = False) -> Constraint:
    """A target with a field that its kind of metric takes, and no second one."""

    def check(value: Any, path: FieldPath) -> Iterator[FieldError]:
        target = value.get("target") if isinstance(value, Mapping) else None
        if not isinstance(target, Mapping):
            return
        found = [name for name in names if target.get(name) is not None]
        at = (*path, "target")
        if not found:
            words = f"must set {' or '.join(names)}"
            yield error_at((*at, names[0]), detail=words, kind=ErrorType.REQUIRED)
        elif set(found) == {"averageUtilization", "averageValue"}:
            words = "may not set both a target raw value and a target utilization"
            yield error_at((*at, "averageValue"), detail=words, kind=ErrorType.FORBIDDEN)
        elif set(found) == {"value", "averageValue"} and external:
            words = "may not set both a target value for metric and a per-pod target"
            yield error_at((*at, "value"), detail=words, kind=ErrorType.FORBIDDEN)

    return check


_RESOURCE = fields({"target": _target}, required("name", "target"), _of_target("averageUtilization", "averageValue"))
_METRICS: Mapping[str, tuple[str, Constraint]] = {
    "ContainerResource": (
        "containerResource",
        every(fields({"container": LABEL, "name": text(container_resource_faults)}, required("container")), _RESOURCE),
    ),
    "External": ("external", fields({"metric": _METRIC, "target": _target}, required("metric", "target"),
                                    _of_target("value", "averageValue", external=True))),
    "Object": ("object", fields({"metric": _METRIC, "target": _target, "describedObject": _OBJECT_REFERENCE},
                                required("metric", "target", "describedObject"), _of_target("value", "averageValue"))),
    "Pods": ("pods", fields({"metric": _METRIC, "target": _target}, required("metric", "target"),
                            _of_target("averageValue"))),
    "Resource": ("resource", _RESOURCE),
}  # fmt: skip


def _source(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if not isinstance(value, Mapping):
        return
    kind = value.get("type")
    if is_missing(kind):
        yield error_at((*path, "type"), detail="must specify a metric source type", kind=ErrorType.REQUIRED)
    elif isinstance(kind, str) and kind not in _METRICS:
        words = "supported values: " + ", ".join(f'"{each}"' for each in _METRICS)
        yield error_at((*path, "type"), kind, words, ErrorType.NOT_SUPPORTED)
    for name, (field, constraint) in _METRICS.items():
        if value.get(field) is not None:
            yield from constraint(value[field], (*path, field))
            if name != kind and isinstance(kind, str):
                words = f"must be specified only if `type` is {name}"
                yield error_at((*path, field), detail=words, kind=ErrorType.FORBIDDEN)
        elif name == kind:
            words = "must populate information for the given metric source"
            yield error_at((*path, field), detail=words, kind=ErrorType.REQUIRED)


def _replicas(value: Any, path: FieldPath) -> Iterator[FieldError]:
    low, high = (
        (value.get(name) for name in ("minReplicas", "maxReplicas")) if isinstance(value, Mapping) else (None, None)
    )
    if is_integer(low) and is_integer(high) and high < low:
        yield error_at((*path, "maxReplicas"), high, "must be greater than or equal to `minReplicas`")


def _scale_to_zero(value: Any, path: FieldPath) -> Iterator[FieldError]:
    """0 replicas need a feature gate that is off by default."""
    if is_integer(value) and value < 1:
        yield error_at(path, value, "must be greater than or equal to 1")


def _no_policies(value: Any, path: FieldPath) -> Iterator[FieldError]:
    """An empty list isn't a missing one, for which the API server fills in the default."""
    if isinstance(value, Mapping) and value.get("policies") == []:
        yield error_at((*path, "policies"), detail="must specify at least one Policy", kind=ErrorType.REQUIRED)


_POLICIES = fields(
    {
        "stabilizationWindowSeconds": between(0, 3600),
        "selectPolicy": set_choice("Disabled", "Max", "Min"),
        "tolerance": quantity(),
        "policies": items(
            fields(
                {
                    "type": choice("Percent", "Pods"),
                    "value": above_zero,
                    "periodSeconds": between(1, 1800),
                },
                required("type"),
            )
        ),
    },
    _no_policies,
)

AUTOSCALER = fields(
    {
        "spec": fields(
            {
                "scaleTargetRef": _TARGET_REFERENCE,
                "minReplicas": _scale_to_zero,
                "maxReplicas": above_zero,
                "targetCPUUtilizationPercentage": above_zero,
                "metrics": items(_source),
                "behavior": fields({"scaleUp": _POLICIES, "scaleDown": _POLICIES}),
            },
            required("scaleTargetRef", "maxReplicas"),
            _replicas,
        )
    }
)


def _one_bound(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if isinstance(value, Mapping) and value.get("minAvailable") is not None and value.get("maxUnavailable") is not None:
        words = "minAvailable and maxUnavailable cannot be both set"
        yield error_at((*path, "maxUnavailable"), value["maxUnavailable"], words)


_SHARE = count_or_percentage(most=100)
DISRUPTION_BUDGET = fields(
    {
        "spec": fields(
            {
                "minAvailable": _SHARE,
                "maxUnavailable": _SHARE,
                "selector": SELECTOR,
                "unhealthyPodEvictionPolicy": set_choice("AlwaysAllow", "IfHealthyBudget"),
            },
            _one_bound,
        )
    }
)
