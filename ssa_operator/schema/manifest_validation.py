"""Validates manifests of built-in kinds beyond their schemas: the frequent mistakes, without an API server.

Promises:
- Names by the rule of the kind, labels and annotations, those of pod templates, too; and the table of `field_rules.py`.
- What several fields say together: requests and limits, ports, strategies, and what a type of object needs.
- Each error has the path of its field. What it refuses, the API server refuses, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from ssa_operator.objects.identity import GroupKind, is_built_in
from ssa_operator.objects.json_schema import Schema
from ssa_operator.objects.source_location import FieldPath, value_at
from ssa_operator.schema.crd_validation import validate_crd_manifest
from ssa_operator.schema.field_errors import ErrorType, FieldError, error_at, mapping_items
from ssa_operator.schema.field_rules import TABLE, Rule, is_missing, quantity_amount, rule_of_type
from ssa_operator.schema.kubernetes_schemas import METADATA, KubernetesSchemas
from ssa_operator.schema.metadata_validation import label_faults, segment_faults, subdomain_faults
from ssa_operator.schema.metadata_validation import validate_metadata_values as metadata_errors

_CRD = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")
_CRON_JOB = GroupKind("batch", "CronJob")
_LABEL_NAMES = frozenset({GroupKind("", "Namespace"), GroupKind("", "Service")})
_OTHER_NAMES = frozenset({"APIService", "ClusterTrustBundle", "IPAddress", "PodDisruptionBudget", "CSIDriver"})
"""Kinds whose names follow rules of their own."""
_SPEC_NEEDED = ("Deployment", "DaemonSet", "ReplicaSet", "StatefulSet", "Job", "CronJob", "Service", "Pod", "Ingress",
                "PersistentVolumeClaim", "HorizontalPodAutoscaler")  # fmt: skip
_EMPTY_ALLOWED = ("ForZone", "HTTPHeader", "LimitRangeSpec", "PodFailurePolicy", "ScaleIOVolumeSource", "Sysctl")
"""Types whose required fields may be empty."""


def validate_manifest(body: Mapping[str, Any], schemas: KubernetesSchemas) -> list[FieldError]:
    """The errors of a manifest. Of a custom resource, those of its name and metadata."""
    kind = GroupKind.of(body["apiVersion"], body["kind"])
    schema = schemas.schema(body["apiVersion"], body["kind"])
    errors = list(_of_name(kind, body))
    if kind == _CRD or schema is None or not is_built_in(kind.group):
        errors += metadata_errors(body.get("metadata"), ("metadata",))
        return [*errors, *(validate_crd_manifest(body) if kind == _CRD else ())]
    whole = {"spec": {}, **body} if kind.kind in _SPEC_NEEDED else body
    return [*errors, *_walk(whole, schema, (), kind.kind, schemas)]


def name_faults(group_kind: GroupKind) -> Callable[[str], list[str]]:
    """The rule for the names of a kind."""
    if group_kind.group == "rbac.authorization.k8s.io":
        return segment_faults
    if group_kind.kind in _OTHER_NAMES and is_built_in(group_kind.group):
        return lambda _: []
    return label_faults if group_kind in _LABEL_NAMES else subdomain_faults


def _of_name(kind: GroupKind, body: Mapping[str, Any]) -> Iterator[FieldError]:
    name, path = value_at(body, ("metadata", "name")), ("metadata", "name")
    if isinstance(name, str) and name:
        faults = name_faults(kind)(name)
        if kind == _CRON_JOB and len(name) > 52:
            faults = ["must be no more than 52 characters"]
        yield from (error_at(path, name, words) for words in faults)


def _walk(
    value: Any, schema: Schema, path: FieldPath, type_name: str, schemas: KubernetesSchemas
) -> Iterator[FieldError]:
    type_name, schema = schema.get("$ref", type_name), schemas.resolved(schema)
    if type_name == METADATA:
        checked = len(path) == 1 or path[-2:] == ("template", "metadata")
        yield from metadata_errors(value, path) if checked else ()
        return
    if isinstance(value, Mapping):
        yield from _of_type(value, path, type_name, schema)
    for part, inner, item in schemas.parts(schema, value) if type_name != "MetricIdentifier" else ():
        if item is not None or isinstance(value, list):
            yield from _walk({} if item is None else item, inner, (*path, part), "", schemas)


def _of_type(value: Mapping[str, Any], path: FieldPath, type_name: str, schema: Schema) -> Iterator[FieldError]:
    for name in schema.get("required") or () if type_name and type_name not in _EMPTY_ALLOWED else ():
        if name in value and is_missing(value[name]):
            yield error_at((*path, name), kind=ErrorType.REQUIRED)
    if type_name in TABLE:
        yield from _rule(type_name)(value, path)
    if type_name in _TOGETHER:
        yield from _TOGETHER[type_name](value, path)


@cache
def _rule(type_name: str) -> Rule:
    return rule_of_type(TABLE[type_name])


def _needed(path: FieldPath, detail: str = "") -> FieldError:
    return error_at(path, detail=detail, kind=ErrorType.REQUIRED)


def _forbidden(path: FieldPath, detail: str) -> FieldError:
    return error_at(path, detail=detail, kind=ErrorType.FORBIDDEN)


def _pod(value: Any, path: FieldPath) -> Iterator[FieldError]:
    names: set[Any] = set()
    for field in ("containers", "initContainers"):
        for at, container in mapping_items(value.get(field), (*path, field)):
            if (name := container.get("name")) and name in names:
                yield error_at((*at, "name"), name, kind=ErrorType.DUPLICATE)
            names.add(name)
    if value.get("dnsPolicy") == "None" and not value_at(value, ("dnsConfig", "nameservers")):
        yield _needed((*path, "dnsConfig"), "must provide at least one DNS nameserver when `dnsPolicy` is None")


def _resources(value: Any, path: FieldPath) -> Iterator[FieldError]:
    limits = value.get("limits") or {}
    for name, asked in (value.get("requests") or {}).items():
        found, limit = quantity_amount(asked), quantity_amount(limits.get(name))
        if found is not None and limit is not None and found > limit:
            words = f"must be less than or equal to {name} limit of {limits[name]}"
            yield error_at((*path, "requests", name), asked, words)
        elif limit is None and "/" in name and "kubernetes.io" not in name:
            yield _needed((*path, "limits"), "Limit must be set for non overcommitable resources")


def _expression(value: Any, path: FieldPath) -> Iterator[FieldError]:
    """An expression of a label selector or a node selector."""
    operator, values, at = value.get("operator"), value.get("values"), (*path, "values")
    if operator in ("In", "NotIn") and not values:
        yield _needed(at, "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist") and values:
        yield _forbidden(at, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")


def _workload(value: Any, path: FieldPath) -> Iterator[FieldError]:
    selector, at = value.get("selector"), (*path, "template", "spec", "restartPolicy")
    if selector is not None and not (selector.get("matchLabels") or selector.get("matchExpressions")):
        yield error_at((*path, "selector"), selector, "empty selector is invalid")
    if value_at(value, ("template", "spec", "restartPolicy")) not in (None, "", "Always"):
        policy = value["template"]["spec"]["restartPolicy"]
        yield error_at(at, policy, 'supported values: "Always"', ErrorType.NOT_SUPPORTED)
    deadline, ready = value.get("progressDeadlineSeconds"), value.get("minReadySeconds") or 0
    if deadline is not None and deadline <= ready:
        yield error_at((*path, "progressDeadlineSeconds"), deadline, "must be greater than minReadySeconds")


def _strategy(value: Any, path: FieldPath) -> Iterator[FieldError]:
    update, at = value.get("rollingUpdate"), (*path, "rollingUpdate")
    if update is not None and value.get("type") == "Recreate":
        yield _forbidden(at, "may not be specified when strategy `type` is 'Recreate'")
    elif update and {update.get("maxUnavailable"), update.get("maxSurge")} <= {0, "0%"}:
        yield error_at((*at, "maxUnavailable"), update["maxUnavailable"], "may not be 0 when `maxSurge` is 0")


def _job(value: Any, path: FieldPath) -> Iterator[FieldError]:
    policy, at = value_at(value, ("template", "spec", "restartPolicy")), (*path, "template", "spec", "restartPolicy")
    if is_missing(policy) and value_at(value, ("template", "spec")) is not None:
        yield _needed(at, 'valid values: "OnFailure", "Never"')
    elif policy == "Always":
        yield error_at(at, policy, 'supported values: "OnFailure", "Never"', ErrorType.NOT_SUPPORTED)


def _service(value: Any, path: FieldPath) -> Iterator[FieldError]:
    kind, address, ports = value.get("type") or "ClusterIP", value.get("clusterIP"), value.get("ports") or []
    if not ports and address != "None" and kind != "ExternalName":
        yield _needed((*path, "ports"))
    if kind == "ExternalName" and not value.get("externalName"):
        yield _needed((*path, "externalName"))
    if address == "None" and kind in ("LoadBalancer", "NodePort"):
        yield error_at((*path, "clusterIP"), address, f"may not be set to 'None' for {kind} services")
    seen: set[tuple[Any, ...]] = set()
    for at, port in mapping_items(ports, (*path, "ports")):
        key = (port.get("protocol") or "TCP", port.get("port"))
        if len(ports) > 1 and not port.get("name"):
            yield _needed((*at, "name"))
        if key in seen:
            yield error_at(at, {"port": key[1], "protocol": key[0]}, kind=ErrorType.DUPLICATE)
        if port.get("nodePort") and kind == "ClusterIP":
            yield _forbidden((*at, "nodePort"), "may not be used when `type` is 'ClusterIP'")
        seen.add(key)


def _ingress(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if not value.get("rules") and value.get("defaultBackend") is None:
        yield error_at(path, value, "either `defaultBackend` or `rules` must be specified")


def _autoscaler(value: Any, path: FieldPath) -> Iterator[FieldError]:
    low, high = value.get("minReplicas"), value.get("maxReplicas")
    if low is not None and high is not None and high < low:
        yield error_at((*path, "maxReplicas"), high, "must be greater than or equal to `minReplicas`")


def _claim(value: Any, path: FieldPath) -> Iterator[FieldError]:
    at, asked = (*path, "resources", "requests", "storage"), value_at(value, ("resources", "requests", "storage"))
    if is_missing(asked):
        yield _needed(at)
    elif (found := quantity_amount(asked)) is not None and found <= 0:
        yield error_at(at, asked, "must be greater than 0")


def _role(value: Any, path: FieldPath) -> Iterator[FieldError]:
    for name in ("apiGroups", "resources"):
        if is_missing(value.get(name)) and not value.get("nonResourceURLs"):
            yield _needed((*path, name), "resource rules must supply at least one")


_NEEDED = {
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


def _secret(value: Any, path: FieldPath) -> Iterator[FieldError]:
    found = {**(value.get("data") or {}), **(value.get("stringData") or {})}
    yield from (_needed((*path, "data", key)) for key in _NEEDED.get(value.get("type"), ()) if key not in found)


_TOGETHER: Mapping[str, Rule] = {
    **dict.fromkeys(("DeploymentSpec", "DaemonSetSpec", "StatefulSetSpec", "ReplicaSetSpec"), _workload),
    **dict.fromkeys(("LabelSelectorRequirement", "NodeSelectorRequirement"), _expression),
    "DeploymentStrategy": _strategy,
    "IngressSpec": _ingress,
    "JobSpec": _job,
    "PersistentVolumeClaimSpec": _claim,
    "PodSpec": _pod,
    "PolicyRule": _role,
    "ResourceRequirements": _resources,
    "Secret": _secret,
    "ServiceSpec": _service,
    "v2.HorizontalPodAutoscalerSpec": _autoscaler,
}
