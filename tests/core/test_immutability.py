"""Which refusals say that a field can't change."""

from __future__ import annotations

import pytest

from ssa_operator.core.identity import GroupKind
from ssa_operator.core.immutability import Refusal, immutable_field

STATEFUL_SET = "Forbidden: updates to statefulset spec for fields other than 'replicas' are forbidden"


@pytest.mark.parametrize(
    ("group", "kind", "field", "message"),
    [
        ("apps", "Deployment", "spec.selector", "Invalid value: ...: field is immutable"),
        ("apps", "StatefulSet", "spec", STATEFUL_SET),
        ("batch", "Job", "spec.template", "Invalid value: ...: field is immutable"),
        ("", "PersistentVolumeClaim", "spec", "Forbidden: spec is immutable after creation except resources.requests"),
        ("", "Service", "spec.clusterIPs[0]", 'Invalid value: ["10.0.0.9"]: may not change once set'),
        ("", "Secret", "type", "Invalid value: ...: field is immutable"),
        ("", "ConfigMap", "data", "Forbidden: field is immutable when `immutable` is set"),
        ("rbac.authorization.k8s.io", "RoleBinding", "roleRef", "Invalid value: ...: cannot change roleRef"),
        ("", "Pod", "spec", "Forbidden: pod updates may not change fields other than `spec.containers[*].image`"),
        ("storage.k8s.io", "StorageClass", "provisioner", "Forbidden: updates to provisioner are forbidden."),
        ("a.example.com", "Thing", "spec.version", "Invalid value: version is immutable"),
        ("a.example.com", "Thing", "spec", "Invalid value: Immutable once it is set"),
    ],
)
def test_a_field_that_cannot_change_is_named(group: str, kind: str, field: str, message: str) -> None:
    assert immutable_field(GroupKind(group, kind), [Refusal("", ""), Refusal(field, message)]) == field


@pytest.mark.parametrize(
    ("group", "kind", "field", "message"),
    [
        ("apps", "Deployment", "spec.replicas", "Invalid value: -1: must be greater than or equal to 0"),
        ("apps", "Deployment", "metadata.uid", 'Invalid value: "x": field is immutable'),
        (
            "",
            "PersistentVolumeClaim",
            "spec.resources.requests.storage",
            "Forbidden: field can not be less than status.capacity",
        ),
        ("", "Service", "spec.ports[0].port", "Invalid value: 0: must be between 1 and 65535"),
        ("", "Secret", "data[immutable]", "Invalid value: field is immutable"),
        ("networking.k8s.io", "Ingress", "spec.rules", "Invalid value: immutable"),
        ("a.example.com", "Thing", "spec.size", "Invalid value: 3: should be less than or equal to 2"),
        ("a.example.com", "Thing", "metadata.name", "Invalid value: immutable"),
    ],
)
def test_any_other_refusal_is_not_taken_for_one(group: str, kind: str, field: str, message: str) -> None:
    assert immutable_field(GroupKind(group, kind), [Refusal(field, message)]) == ""
