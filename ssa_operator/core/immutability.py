"""Whether the API server refused a change because a field can't change.

Promises:
- The classifier is narrow: a kind, a field and the API server's words have to fit. Calling every invalid change an
  immutable one has cost users of other tools their data (fluxcd/flux2#3627).
- `metadata` never counts: a uid that doesn't fit is a precondition that failed, not a reason to make anything anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ssa_operator.core.identity import GroupKind


@dataclass(frozen=True, slots=True)
class Refusal:
    """One cause of an Invalid answer: the field as the API server spells it, and its words."""

    field: str
    message: str


_WORKLOAD_SELECTOR = (("spec.selector", "field is immutable"),)
_FROZEN_DATA = (
    ("data", "field is immutable when `immutable` is set"),
    ("binaryData", "field is immutable when `immutable` is set"),
    ("immutable", "field is immutable when `immutable` is set"),
)
_ROLE = (("roleRef", "cannot change roleRef"),)

# Field and words by kind, as the validation of Kubernetes 1.36 (pkg/apis/*/validation) has them.
_RULES: Mapping[GroupKind, Sequence[tuple[str, str]]] = {
    GroupKind("", "ConfigMap"): _FROZEN_DATA,
    GroupKind("", "PersistentVolumeClaim"): (("spec", "immutable after creation"),),
    GroupKind("", "Pod"): (("spec", "pod updates may not change fields other than"),),
    GroupKind("", "Secret"): (("type", "field is immutable"), *_FROZEN_DATA),
    GroupKind("", "Service"): (
        ("spec.clusterIPs", "may not change once set"),
        ("spec.clusterIP", "field is immutable"),
    ),
    GroupKind("apps", "DaemonSet"): _WORKLOAD_SELECTOR,
    GroupKind("apps", "Deployment"): _WORKLOAD_SELECTOR,
    GroupKind("apps", "ReplicaSet"): _WORKLOAD_SELECTOR,
    GroupKind("apps", "StatefulSet"): (("spec", "updates to statefulset spec for fields other than"),),
    GroupKind("batch", "Job"): (("spec", "field is immutable"),),
    GroupKind("rbac.authorization.k8s.io", "ClusterRoleBinding"): _ROLE,
    GroupKind("rbac.authorization.k8s.io", "RoleBinding"): _ROLE,
    GroupKind("storage.k8s.io", "StorageClass"): (
        ("provisioner", "updates to provisioner are forbidden"),
        ("parameters", "updates to parameters are forbidden"),
        ("reclaimPolicy", "field is immutable"),
        ("volumeBindingMode", "field is immutable"),
    ),
}


def immutable_field(kind: GroupKind, refusals: Sequence[Refusal]) -> str:
    """The first field that the API server calls immutable, '' where the refusal has another reason.

    `refusals` are the causes of an Invalid (422) answer. A custom resource says so in the message of a CEL rule
    (`x-kubernetes-validations`), whose words are its author's: they must contain "immutable".
    """
    for refusal in refusals:
        field = refusal.field
        if not field or field.startswith(("metadata", "<")):
            continue
        if kind in _RULES:
            if any(_within(field, place) and words in refusal.message for place, words in _RULES[kind]):
                return field
        elif _is_custom(kind) and "immutable" in refusal.message.lower():
            return field
    return ""


def _within(field: str, place: str) -> bool:
    return field == place or field.startswith((f"{place}.", f"{place}["))


def _is_custom(kind: GroupKind) -> bool:
    """Whether a kind is defined by a CRD; the built-in groups have no dot or end in k8s.io."""
    return "." in kind.group and not kind.group.endswith(".k8s.io")
