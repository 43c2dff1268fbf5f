"""Validates manifests of built-in kinds beyond their schemas, as the API server does.

Promises:
- The name, by the rule of the kind; labels and annotations, also those of pod templates and selectors.
- The names, images and ports of containers, the ports of Services, and the restart policy of Jobs.
- Each error has the path of its field. What it refuses, the API server refuses, too; the API server checks more.
- A value of a wrong type is no error here: the schema says so.

The rules are those of k8s.io/kubernetes (pkg/apis/core/validation, pkg/apis/batch/validation).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.manifest import POD_SPECS
from ssa_operator.objects.source_location import FieldPath, value_at
from ssa_operator.schema.field_errors import ErrorType, FieldError, error_at, error_field
from ssa_operator.schema.metadata_validation import (
    key_faults,
    label_faults,
    label_value_faults,
    segment_faults,
    subdomain_faults,
    validate_metadata_values,
)

_JOBS = (GroupKind("batch", "Job"), GroupKind("batch", "CronJob"))
_SERVICE = GroupKind("", "Service")
_SELECTORS: Mapping[GroupKind, FieldPath] = {
    **{
        GroupKind("apps", kind): ("spec", "selector", "matchLabels")
        for kind in ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")
    },
    _SERVICE: ("spec", "selector"),
}
_LABEL_NAMES = frozenset({GroupKind("", "Namespace"), _SERVICE})
_OTHER_NAMES = frozenset(
    {
        GroupKind("apiregistration.k8s.io", "APIService"),
        GroupKind("certificates.k8s.io", "ClusterTrustBundle"),
        GroupKind("networking.k8s.io", "IPAddress"),
        GroupKind("storage.k8s.io", "CSIDriver"),
    }
)
"""Kinds whose names follow rules of their own."""

_PORT_NAME = re.compile(r"(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*", re.ASCII)


def validate_manifest(group_kind: GroupKind, body: Mapping[str, Any]) -> list[FieldError]:
    """The errors of a manifest."""
    errors = [*_of_name(group_kind, body), *validate_metadata_values(body.get("metadata"), ("metadata",))]
    errors += _of_selector(group_kind, body)
    if group_kind in POD_SPECS:
        errors += _of_pod(group_kind, body, POD_SPECS[group_kind])
    if group_kind == _SERVICE:
        errors += _of_service_ports(body)
    return errors


def name_faults(group_kind: GroupKind) -> Callable[[str], list[str]]:
    """The rule for the names of a kind."""
    if group_kind.group == "rbac.authorization.k8s.io":
        return segment_faults
    if group_kind in _OTHER_NAMES:
        return lambda _: []
    return label_faults if group_kind in _LABEL_NAMES else subdomain_faults


def _of_name(group_kind: GroupKind, body: Mapping[str, Any]) -> Iterator[FieldError]:
    name = value_at(body, ("metadata", "name"))
    if isinstance(name, str) and name:
        for words in name_faults(group_kind)(name):
            yield error_at(("metadata", "name"), name, words)


def _of_selector(group_kind: GroupKind, body: Mapping[str, Any]) -> Iterator[FieldError]:
    path = _SELECTORS.get(group_kind, ())
    found = value_at(body, path) if path else None
    for key, value in found.items() if isinstance(found, Mapping) else ():
        if isinstance(value, str):
            faults = [*key_faults(key), *label_value_faults(value)]
            errors = (error_at((*path, key), value, words) for words in faults)
            yield from (replace(error, field=error_field(path)) for error in errors)


def _of_pod(group_kind: GroupKind, body: Mapping[str, Any], path: FieldPath) -> Iterator[FieldError]:
    if template := path[:-1]:
        yield from validate_metadata_values(value_at(body, (*template, "metadata")), (*template, "metadata"))
    spec = value_at(body, path)
    if not isinstance(spec, Mapping):
        return
    if group_kind in _JOBS:
        at, policy = (*path, "restartPolicy"), spec.get("restartPolicy")
        words = 'valid values: "OnFailure", "Never"'
        if policy is None:
            yield error_at(at, detail=words, kind=ErrorType.REQUIRED)
        elif policy == "Always":
            yield error_at(at, policy, f"supported {words.removeprefix('valid ')}", ErrorType.NOT_SUPPORTED)
    for key in ("initContainers", "containers"):
        for at, container in mapping_items(spec.get(key), (*path, key)):
            yield from _of_container(container, at)


def _of_container(container: Mapping[str, Any], path: FieldPath) -> Iterator[FieldError]:
    if not container.get("image"):
        yield error_at((*path, "image"), kind=ErrorType.REQUIRED)
    name = container.get("name")
    if isinstance(name, str) and name:
        yield from (error_at((*path, "name"), name, words) for words in label_faults(name))
    for at, port in mapping_items(container.get("ports"), (*path, "ports")):
        yield from _of_number(port, (*at, "containerPort"))
        if isinstance(named := port.get("name"), str) and named:
            yield from (error_at((*at, "name"), named, words) for words in port_name_faults(named))


def _of_service_ports(body: Mapping[str, Any]) -> Iterator[FieldError]:
    ports = list(mapping_items(value_at(body, ("spec", "ports")), ("spec", "ports")))
    for at, port in ports:
        yield from _of_number(port, (*at, "port"))
        name, target = port.get("name"), port.get("targetPort")
        if len(ports) > 1 and not name:
            yield error_at((*at, "name"), kind=ErrorType.REQUIRED)
        elif isinstance(name, str) and name:
            yield from (error_at((*at, "name"), name, words) for words in label_faults(name))
        if isinstance(target, int):
            yield from _of_number(port, (*at, "targetPort"))


def _of_number(port: Mapping[str, Any], path: FieldPath) -> Iterator[FieldError]:
    number = port.get(str(path[-1]))
    if isinstance(number, int) and not isinstance(number, bool) and not 1 <= number <= 65535:
        yield error_at(path, number, "must be between 1 and 65535, inclusive")


def port_name_faults(name: str) -> list[str]:
    """What is wrong with the name of a container's port."""
    faults = ["must be no more than 15 characters"] if len(name) > 15 else []
    if _PORT_NAME.fullmatch(name):
        return faults
    words = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-), and at least one letter (a-z)"
    return [*faults, words]


def mapping_items(value: Any, path: FieldPath) -> Iterator[tuple[FieldPath, Mapping[str, Any]]]:
    """The items of a list at a path that are mappings, each with its own path; none of another value."""
    for at, item in enumerate(value if isinstance(value, list) else ()):
        if isinstance(item, Mapping):
            yield (*path, at), item
