"""Validates manifests of built-in kinds beyond their schemas, as the API server does: the table of the kinds.

Promises:
- The name, by the rule of the kind; labels and annotations, also those of pod templates and selectors.
- The names, images and ports of containers, the ports of Services, and the restart policy of Jobs.
- Only the rules of the kinds that are asked for are used; a kind without rules has no errors.
- Each error has the path of its field. What it refuses, the API server refuses, too; the API server checks more.
- A value of a wrong type is no error here: the schema says so.

The rules are those of k8s.io/kubernetes (pkg/apis/core/validation, pkg/apis/batch/validation), for CRDs those of
`crd_validation.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.source_location import value_at
from ssa_operator.schema.built_in_rules import (
    access,
    admission,
    autoscaling,
    networking,
    objects_of_data,
    pod_spec,
    resources,
    services,
    volumes,
    workloads,
)
from ssa_operator.schema.built_in_rules.constraints import Constraint, below, every, fields, item_texts, unique
from ssa_operator.schema.crd_validation import validate_crd_manifest
from ssa_operator.schema.field_errors import FieldError, error_at
from ssa_operator.schema.metadata_validation import (
    label_faults,
    segment_faults,
    subdomain_faults,
    validate_metadata_values,
)

_CRD = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")
_SERVICE = GroupKind("", "Service")
_LABEL_NAMES = frozenset({GroupKind("", "Namespace"), _SERVICE})
_OTHER_NAMES = frozenset(
    {
        GroupKind("apiregistration.k8s.io", "APIService"),
        GroupKind("certificates.k8s.io", "ClusterTrustBundle"),
        GroupKind("networking.k8s.io", "IPAddress"),
        GroupKind("policy", "PodDisruptionBudget"),
        GroupKind("storage.k8s.io", "CSIDriver"),
    }
)
"""Kinds whose names follow rules of their own."""


def validate_manifest(group_kind: GroupKind, body: Mapping[str, Any]) -> list[FieldError]:
    """The errors of a manifest."""
    own = validate_crd_manifest(body) if group_kind == _CRD else _of_kind(group_kind, body)
    return [*_of_name(group_kind, body), *validate_metadata_values(body.get("metadata"), ("metadata",)), *own]


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


_ADMISSION = "admissionregistration.k8s.io"
_NETWORKING = "networking.k8s.io"
_RBAC = "rbac.authorization.k8s.io"

KINDS: Mapping[GroupKind, Constraint] = {
    GroupKind("", "ConfigMap"): objects_of_data.CONFIG_MAP,
    GroupKind("", "LimitRange"): resources.LIMIT_RANGE,
    GroupKind("", "Namespace"): objects_of_data.NAMESPACE,
    GroupKind("", "PersistentVolume"): volumes.PERSISTENT_VOLUME,
    GroupKind("", "PersistentVolumeClaim"): volumes.PERSISTENT_VOLUME_CLAIM,
    GroupKind("", "Pod"): pod_spec.POD,
    GroupKind("", "PodTemplate"): fields({"template": pod_spec.TEMPLATE}),
    GroupKind("", "ReplicationController"): fields({"spec": fields({"template": pod_spec.TEMPLATE})}),
    GroupKind("", "ResourceQuota"): resources.QUOTA,
    GroupKind("", "Secret"): objects_of_data.SECRET,
    GroupKind("", "Service"): services.SERVICE,
    GroupKind(_ADMISSION, "MutatingWebhookConfiguration"): admission.MUTATING,
    GroupKind(_ADMISSION, "ValidatingWebhookConfiguration"): admission.VALIDATING,
    GroupKind("apiregistration.k8s.io", "APIService"): admission.API_SERVICE,
    GroupKind("apps", "DaemonSet"): workloads.DAEMON_SET,
    GroupKind("apps", "Deployment"): workloads.DEPLOYMENT,
    GroupKind("apps", "ReplicaSet"): workloads.REPLICA_SET,
    GroupKind("apps", "StatefulSet"): workloads.STATEFUL_SET,
    GroupKind("autoscaling", "HorizontalPodAutoscaler"): autoscaling.AUTOSCALER,
    GroupKind("batch", "CronJob"): workloads.CRON_JOB,
    GroupKind("batch", "Job"): workloads.JOB,
    GroupKind("coordination.k8s.io", "Lease"): objects_of_data.LEASE,
    GroupKind("discovery.k8s.io", "EndpointSlice"): services.ENDPOINT_SLICE,
    GroupKind(_NETWORKING, "Ingress"): networking.INGRESS,
    GroupKind(_NETWORKING, "IngressClass"): networking.INGRESS_CLASS,
    GroupKind(_NETWORKING, "NetworkPolicy"): networking.NETWORK_POLICY,
    GroupKind("node.k8s.io", "RuntimeClass"): objects_of_data.RUNTIME_CLASS,
    GroupKind("policy", "PodDisruptionBudget"): autoscaling.DISRUPTION_BUDGET,
    GroupKind(_RBAC, "ClusterRole"): access.CLUSTER_ROLE,
    GroupKind(_RBAC, "ClusterRoleBinding"): access.CLUSTER_ROLE_BINDING,
    GroupKind(_RBAC, "Role"): access.ROLE,
    GroupKind(_RBAC, "RoleBinding"): access.ROLE_BINDING,
    GroupKind("scheduling.k8s.io", "PriorityClass"): objects_of_data.PRIORITY_CLASS,
    GroupKind("storage.k8s.io", "StorageClass"): volumes.STORAGE_CLASS,
}


_OWN_FINALIZERS = ("", "apps", "autoscaling", "batch", _NETWORKING, "policy", "storage.k8s.io")
"""The groups in which a finalizer without a domain must be one of Kubernetes' own."""

_METADATA = below(("metadata",), fields({"finalizers": every(item_texts(objects_of_data.finalizer_faults), unique())}))


def _of_kind(group_kind: GroupKind, body: Mapping[str, Any]) -> Iterator[FieldError]:
    """The errors of an object by the rules of its kind."""
    constraint = KINDS.get(group_kind)
    if constraint is not None:
        yield from constraint(body, ())
        if group_kind.group in _OWN_FINALIZERS:
            yield from _METADATA(body, ())
