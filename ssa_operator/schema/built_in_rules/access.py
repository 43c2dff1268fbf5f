"""What the API server requires of roles and of their bindings.

The rules are those of k8s.io/kubernetes (pkg/apis/rbac/validation).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ssa_operator.objects.source_location import FieldPath
from ssa_operator.schema.built_in_rules.constraints import (
    Constraint,
    every,
    fields,
    is_missing,
    items,
    not_supported,
    required,
)
from ssa_operator.schema.built_in_rules.text_rules import SEGMENT, SELECTOR
from ssa_operator.schema.field_errors import ErrorType, FieldError, error_at
from ssa_operator.schema.metadata_validation import subdomain_faults

_GROUP = "rbac.authorization.k8s.io"


def _rule(*, cluster: bool) -> Constraint:
    def check(value: Any, path: FieldPath) -> Iterator[FieldError]:
        if not isinstance(value, Mapping):
            return
        if is_missing(value.get("verbs")):
            yield error_at((*path, "verbs"), detail="verbs must contain at least one value", kind=ErrorType.REQUIRED)
        if value.get("nonResourceURLs"):
            at = (*path, "nonResourceURLs")
            if not cluster:
                words = "namespaced rules cannot apply to non-resource URLs"
                yield error_at(at, value["nonResourceURLs"], words)
            if any(value.get(name) for name in ("apiGroups", "resources", "resourceNames")):
                words = "rules cannot apply to both regular resources and non-resource URLs"
                yield error_at(at, value["nonResourceURLs"], words)
            return
        for name in ("apiGroups", "resources"):
            if is_missing(value.get(name)):
                words = f"resource rules must supply at least one {'api group' if name == 'apiGroups' else 'resource'}"
                yield error_at((*path, name), detail=words, kind=ErrorType.REQUIRED)

    return check


ROLE = fields({"rules": items(_rule(cluster=False))})
CLUSTER_ROLE = fields(
    {
        "rules": items(_rule(cluster=True)),
        "aggregationRule": fields(
            {"clusterRoleSelectors": items(SELECTOR)},
            required(
                "clusterRoleSelectors", detail="at least one clusterRoleSelector required if aggregationRule is non-nil"
            ),
        ),
    }
)


def _subject(*, cluster: bool) -> Constraint:
    def check(value: Any, path: FieldPath) -> Iterator[FieldError]:
        if not isinstance(value, Mapping):
            return
        kind, group, name = value.get("kind"), value.get("apiGroup"), value.get("name")
        if is_missing(name):
            yield error_at((*path, "name"), kind=ErrorType.REQUIRED)
        if kind == "ServiceAccount":
            if isinstance(name, str) and name:
                yield from (error_at((*path, "name"), name, words) for words in subdomain_faults(name))
            if group:
                yield not_supported((*path, "apiGroup"), group, ("",))
            # In a RoleBinding, the API server fills in its namespace.
            if cluster and is_missing(value.get("namespace")):
                yield error_at((*path, "namespace"), kind=ErrorType.REQUIRED)
        elif kind in ("User", "Group"):
            if group not in (None, "", _GROUP):
                yield not_supported((*path, "apiGroup"), group, (_GROUP,))
        elif isinstance(kind, str):
            yield not_supported((*path, "kind"), kind, ("ServiceAccount", "User", "Group"))

    return check


def _binding(*kinds: str, cluster: bool) -> Constraint:
    def role(value: Any, path: FieldPath) -> Iterator[FieldError]:
        if not isinstance(value, Mapping):
            return
        # The API server fills in an apiGroup that is missing.
        if value.get("apiGroup") not in (None, "", _GROUP):
            yield not_supported((*path, "apiGroup"), value["apiGroup"], (_GROUP,))
        if value.get("kind") not in kinds and isinstance(value.get("kind") or "", str):
            yield not_supported((*path, "kind"), value.get("kind") or "", kinds)

    return fields(
        {
            "roleRef": every(fields({"name": SEGMENT}, required("name")), role),
            "subjects": items(_subject(cluster=cluster)),
        },
        required("roleRef"),
    )


ROLE_BINDING = _binding("Role", "ClusterRole", cluster=False)
CLUSTER_ROLE_BINDING = _binding("ClusterRole", cluster=True)
