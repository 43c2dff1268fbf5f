"""The table of the kinds, each with what the API server requires of its objects.

Promises:
- Only the rules of the kinds that are asked for are used; a kind without rules has no errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ssa_operator.objects.identity import GroupKind
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
from ssa_operator.schema.field_errors import FieldError

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


def kind_errors(group_kind: GroupKind, body: Mapping[str, Any]) -> Iterator[FieldError]:
    """The errors of an object by the rules of its kind."""
    constraint = KINDS.get(group_kind)
    if constraint is not None:
        yield from constraint(body, ())
        if group_kind.group in _OWN_FINALIZERS:
            yield from _METADATA(body, ())
