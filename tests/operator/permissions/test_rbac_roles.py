"""Roles of permissions, and their bindings."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.objects.kinds import Permission
from ssa_operator.operator.permissions.operator_needs import (
    PermissionNeed,
)
from ssa_operator.operator.permissions.rbac_roles import Account, binding_body, role_body, roles, without_covered

PERMISSIONS = st.builds(
    Permission,
    group=st.sampled_from(["", "apps"]),
    resource=st.sampled_from(["pods", "pods/log"]),
    namespace=st.sampled_from(["", "a", "b"]),
    name=st.sampled_from(["", "x", "y"]),
    verb=st.sampled_from(["get", "list", "bind"]),
)
ACCOUNT = Account(name="op", namespace="system")


@given(st.sets(PERMISSIONS))
def test_what_is_left_covers_everything_and_nothing_in_it_covers_another(permissions: set[Permission]) -> None:
    left = without_covered(permissions)
    assert set(left) <= permissions
    assert all(any(each.covers(permission) for each in left) for permission in permissions)
    assert not any(one.covers(other) for one in left for other in left if one != other)


@given(st.lists(PERMISSIONS))
def test_roles_grant_exactly_the_needed_permissions(permissions: list[Permission]) -> None:
    needs = [PermissionNeed(permission=each, purpose="a test") for each in permissions]
    granted = [
        Permission(group=rule.group, resource=rule.resource, namespace=role.namespace, name=name, verb=verb)
        for role in roles(needs, ACCOUNT)
        for rule in role.rules
        for name in rule.names or ("",)
        for verb in rule.verbs
    ]
    assert sorted(granted) == without_covered(permissions)
    served = {need.permission for role in roles(needs, ACCOUNT) for rule in role.rules for need in rule.needs}
    assert served == set(permissions)
    assert roles(needs, ACCOUNT) == roles(needs[::-1], ACCOUNT)


def test_a_role_and_its_binding_are_manifests() -> None:
    needs = [
        PermissionNeed(permission=each, purpose="a test")
        for each in (
            Permission(group="", resource="pods", verb="watch"),
            Permission(group="", resource="pods", verb="get"),
            Permission(group="", resource="secrets", namespace="a", name="x", verb="list"),
        )
    ]
    cluster_role, role = roles(needs, ACCOUNT)
    assert role_body(cluster_role, {"l": "v"}) == {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "op", "labels": {"l": "v"}},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "watch"]}],
    }
    assert role_body(role, {})["rules"] == [
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["x"], "verbs": ["list"]}
    ]
    assert binding_body(role, ACCOUNT, {}) == {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "op", "namespace": "a", "labels": {}},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "op"},
        "subjects": [{"kind": "ServiceAccount", "name": "op", "namespace": "system"}],
    }
