"""The permissions that the operator needs, those that follow from what a folder can render, and their roles."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.kinds import Permission, ServedKind
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.objects.template_contents import (
    PossibleLookup,
    PossibleManifest,
    RoleReference,
    TemplateContents,
)
from ssa_operator.operator.permissions.operator_needs import (
    PermissionNeed,
    impersonation_needs,
    lease_needs,
    operator_needs,
)
from ssa_operator.operator.permissions.rbac_roles import Account, binding_body, role_body, roles, without_covered
from ssa_operator.operator.permissions.template_needs import RBAC, ParentKind, folder_needs

HERE = SourceLocation("echoes.example.com/a.yaml.j2", 2)
PARENT = ParentKind(
    folder="echoes.example.com", group="example.com", resource="echoes", namespaced=True, writes_status=True
)
CLUSTER_PARENT = ParentKind(
    folder="teams.example.com", group="example.com", resource="teams", namespaced=False, writes_status=True
)
KINDS = {
    GroupKind("", "ConfigMap"): ServedKind("configmaps", namespaced=True),
    GroupKind("", "Secret"): ServedKind("secrets", namespaced=True),
    GroupKind("", "Node"): ServedKind("nodes", namespaced=False),
    GroupKind("", "Namespace"): ServedKind("namespaces", namespaced=False),
    GroupKind("apps", "StatefulSet"): ServedKind("statefulsets", namespaced=True),
    GroupKind(RBAC, "Role"): ServedKind("roles", namespaced=True),
    GroupKind(RBAC, "RoleBinding"): ServedKind("rolebindings", namespaced=True),
}
READ, APPLY = {"list", "watch"}, {"get", "create", "patch"}


def manifest(kind: str, group: str = "", **fields: Any) -> TemplateContents:
    found = PossibleManifest(group_kind=GroupKind(group, kind), location=HERE, **fields)
    return TemplateContents(manifests=(found,))


def lookup(kind: str, **fields: Any) -> TemplateContents:
    return TemplateContents(lookups=(PossibleLookup(group_kind=GroupKind("", kind), location=HERE, **fields),))


def verbs(
    contents: TemplateContents, resource: str, *namespaces: str, parent: ParentKind = PARENT
) -> dict[tuple[str, str], set[str]]:
    """The verbs on a resource, by namespace and name."""
    needs, _ = folder_needs(parent, contents, KINDS, namespaces)
    found: dict[tuple[str, str], set[str]] = {}
    for need in needs:
        permission = need.permission
        if permission.resource_name == resource:
            found.setdefault((permission.namespace, permission.name), set()).add(permission.verb)
    return found


def warnings(contents: TemplateContents, *namespaces: str, parent: ParentKind = PARENT) -> list[str]:
    return [str(each) for each in folder_needs(parent, contents, KINDS, namespaces)[1]]


def test_a_folder_reads_its_parents_and_reports_on_them() -> None:
    contents = TemplateContents()
    assert verbs(contents, "echoes.example.com") == {("", ""): {"get", "list", "watch", "patch"}}
    assert verbs(contents, "echoes.example.com/status") == {("", ""): {"patch"}}
    assert verbs(contents, "events.events.k8s.io") == {("", ""): {"create", "patch"}}


def test_a_folder_that_warns_writes_events_where_the_objects_that_it_reads_are() -> None:
    events = {"create", "patch"}
    warning = replace(lookup("ConfigMap", name="site", namespace="shared"), warns=True)
    nodes = replace(lookup("Node", name="a"), warns=True)
    assert verbs(warning, "events.events.k8s.io", "team") == {("team", ""): events, ("shared", ""): events}
    assert verbs(nodes, "events.events.k8s.io", "team") == {("team", ""): events, ("default", ""): events}
    assert verbs(replace(warning, warns=False), "events.events.k8s.io", "team") == {("team", ""): events}


def test_a_folder_whose_parents_have_no_status_writes_none() -> None:
    parent = ParentKind(folder="namespaces", group="", resource="namespaces", namespaced=False, writes_status=False)
    assert verbs(TemplateContents(), "namespaces/status", parent=parent) == {}


def test_events_on_cluster_scoped_parents_are_in_the_namespace_default() -> None:
    found = verbs(TemplateContents(), "events.events.k8s.io", "team-a", parent=CLUSTER_PARENT)
    assert found == {("default", ""): {"create", "patch"}}


def test_children_are_watched_applied_and_pruned() -> None:
    assert verbs(manifest("ConfigMap"), "configmaps") == {("", ""): READ | APPLY | {"delete"}}
    assert verbs(manifest("ConfigMap"), "echoes.example.com/finalizers") == {("", ""): {"update"}}


def test_an_operator_that_is_limited_to_namespaces_needs_nothing_elsewhere() -> None:
    needs, _ = folder_needs(PARENT, manifest("ConfigMap"), KINDS, ("team-a", "team-b"))
    assert {need.permission.namespace for need in needs} == {"team-a", "team-b"}


@pytest.mark.parametrize(
    ("fields", "deleted"),
    [
        ({"pruned": False}, False),
        ({"pruned": False, "recreated": True}, True),
        ({"pruned": False, "finalize_hook": True}, True),
        ({}, True),
    ],
)
def test_only_what_the_operator_may_delete_needs_delete(fields: dict[str, Any], deleted: bool) -> None:
    assert ("delete" in verbs(manifest("ConfigMap", **fields), "configmaps")["", ""]) is deleted


def test_a_child_that_is_kept_has_no_owner_reference() -> None:
    assert verbs(manifest("ConfigMap", pruned=False), "echoes.example.com/finalizers") == {}


PARENT_VERBS = {"get", "list", "watch", "patch"}


@pytest.mark.parametrize(
    ("contents", "cluster_scope", "finalized"),
    [
        (manifest("ConfigMap", finalize_hook=True), False, True),
        (manifest("ConfigMap", finalize_hook=True, pruned=False), False, True),
        (manifest("Node"), True, True),
        (manifest("ConfigMap", namespace="elsewhere"), True, True),
        (manifest("ConfigMap", namespace=None), True, True),
        (manifest("Node", pruned=False), True, False),
        (manifest("Node"), False, False),
        (manifest("ConfigMap"), True, False),
    ],
)
def test_parents_that_may_get_the_finalizer_can_lose_it_when_the_roles_in_their_namespace_are_gone(
    contents: TemplateContents, cluster_scope: bool, finalized: bool
) -> None:
    parent = replace(PARENT, cluster_scope=cluster_scope)
    where = ("", "") if finalized else ("team-a", "")
    assert verbs(contents, "echoes.example.com", "team-a", parent=parent) == {where: PARENT_VERBS}
    assert verbs(contents, "echoes.example.com/status", "team-a", parent=parent) == {where: {"patch"}}
    assert ("", "") not in verbs(contents, "events.events.k8s.io", "team-a", parent=parent)
    namespaces = {("", ""): {"get"}} if finalized else {}
    assert verbs(contents, "namespaces", "team-a", parent=parent) == namespaces


def test_a_finalize_hook_of_a_cluster_scoped_parent_reads_its_namespace() -> None:
    hook = manifest("ConfigMap", finalize_hook=True, namespace="team-a")
    assert verbs(hook, "namespaces", parent=CLUSTER_PARENT) == {("", ""): {"get"}}
    assert verbs(manifest("ConfigMap"), "namespaces", parent=CLUSTER_PARENT) == {}


def acting(
    contents: TemplateContents, *namespaces: str, parent: ParentKind = PARENT
) -> tuple[set[Permission], set[Permission]]:
    """The permissions of an operator that impersonates `deployer`, and those of that account."""
    needs, _ = folder_needs(parent, contents, KINDS, namespaces, "deployer")
    own = {need.permission for need in needs if not need.by_account}
    return own, {need.permission for need in needs if need.by_account}


def permissions(resource: str, *verbs: str, namespace: str = "", name: str = "") -> set[Permission]:
    return {Permission(group="", resource=resource, namespace=namespace, name=name, verb=verb) for verb in verbs}


def test_with_impersonation_the_account_writes_children_and_the_operator_watches_them() -> None:
    own, account = acting(manifest("ConfigMap"))
    assert {each for each in own if each.resource == "configmaps"} == permissions("configmaps", *READ)
    finalizers = Permission(group="example.com", resource="echoes/finalizers", verb="update")
    assert account == {*permissions("configmaps", *APPLY, "delete"), finalizers}
    # A role of the account is bound in its namespace, whatever namespaces the operator is limited to.
    own, limited = acting(manifest("ConfigMap"), "team-a")
    assert limited == account
    assert {each.namespace for each in own} == {"team-a"}


def test_with_impersonation_the_account_needs_get_for_a_lookup_and_list_for_a_selection() -> None:
    own, account = acting(lookup("Secret", name="pull", namespace="registry"))
    assert account == permissions("secrets", "get", namespace="registry", name="pull")
    assert {each for each in own if each.resource == "secrets"} == permissions(
        "secrets", *READ, namespace="registry", name="pull"
    )
    assert acting(lookup("Secret"))[1] == permissions("secrets", "get")
    assert acting(lookup("Secret", selects=True))[1] == permissions("secrets", "list")


def test_what_no_role_binding_can_grant_to_the_account_is_a_warning() -> None:
    for contents in (lookup("Node", name="n"), lookup("Secret", selects=True, namespace="")):
        assert acting(contents)[1] == set()
        (warning,) = folder_needs(PARENT, contents, KINDS, (), "deployer")[1]
        assert "which a RoleBinding can't grant" in str(warning)


def test_cluster_scoped_parents_are_not_impersonated() -> None:
    contents = manifest("ConfigMap", namespace="team-a")
    assert not any(each.resource == "configmaps" for each in acting(contents, parent=CLUSTER_PARENT)[0])
    own, account = acting(contents, parent=replace(CLUSTER_PARENT, cluster_scope=True))
    assert permissions("configmaps", *READ, *APPLY, "delete") <= own
    assert account == set()


def test_an_operator_impersonates_one_name_only() -> None:
    found = {each.permission for each in impersonation_needs("deployer", ("team-a",))}
    assert permissions("serviceaccounts", "impersonate", namespace="team-a", name="deployer") <= found


def test_a_stateful_set_that_is_recreated_grows_its_volumes() -> None:
    assert verbs(manifest("StatefulSet", "apps", recreated=True), "persistentvolumeclaims") == {
        ("", ""): {"list", "patch"}
    }
    assert verbs(manifest("StatefulSet", "apps"), "persistentvolumeclaims") == {}
    assert verbs(manifest("StatefulSet", "apps"), "pods") == {("", ""): {"list"}}


def test_generated_values_of_an_object_that_is_recreated_are_kept_in_a_secret() -> None:
    both = manifest("ConfigMap", recreated=True, generated_values=True)
    assert verbs(both, "secrets", "team-a") == {("team-a", ""): {"get", "create", "patch", "delete"}}
    assert verbs(manifest("ConfigMap", recreated=True), "secrets") == {}
    assert verbs(manifest("ConfigMap", generated_values=True), "secrets") == {}


def test_a_child_in_another_namespace_is_allowed_only_there() -> None:
    found = verbs(manifest("ConfigMap", namespace="shared"), "configmaps", "team-a")
    # Before a deletion, what `live` found absent is read again in the parent's namespace.
    assert found == {("team-a", ""): READ | {"get"}, ("shared", ""): READ | APPLY | {"delete"}}


def test_a_cluster_scoped_child_needs_the_setting_cluster_scope() -> None:
    assert verbs(manifest("Namespace"), "namespaces") == {}
    (warning,) = warnings(manifest("Namespace"))
    assert warning.startswith(f"{HERE}: Namespace is cluster-scoped, and the operator refuses it; set `clusterScope")


def test_a_computed_namespace_is_a_warning_if_the_operator_is_limited_to_namespaces() -> None:
    computed = manifest("ConfigMap", namespace=None)
    assert warnings(computed) == []
    assert warnings(computed, "team-a") == [
        f"{HERE}: the namespace of this configmaps object is computed; the roles allow it only in team-a"
    ]
    assert set(verbs(computed, "configmaps", "team-a")) == {("team-a", "")}


# The lookup, and the permissions of an operator for all namespaces, and of one for team-a.
LOOKUPS: list[tuple[TemplateContents, str, tuple[str, str], tuple[str, str]]] = [
    (lookup("Secret", name="pull"), "secrets", ("", "pull"), ("team-a", "pull")),
    (lookup("Secret", name="pull", namespace="registry"), "secrets", ("registry", "pull"), ("registry", "pull")),
    (lookup("Secret"), "secrets", ("", ""), ("team-a", "")),
    (lookup("Secret", namespace=""), "secrets", ("", ""), ("", "")),
    (lookup("Node", name="n1"), "nodes", ("", "n1"), ("", "n1")),
]


@pytest.mark.parametrize(("contents", "resource", "everywhere", "limited"), LOOKUPS)
def test_a_lookup_needs_list_and_watch_of_what_it_names(
    contents: TemplateContents, resource: str, everywhere: tuple[str, str], limited: tuple[str, str]
) -> None:
    assert verbs(contents, resource) == {everywhere: READ}
    assert verbs(contents, resource, "team-a") == {limited: READ}


def test_a_binding_of_a_constant_role_needs_bind_of_that_role() -> None:
    contents = manifest("RoleBinding", RBAC, role=RoleReference("ClusterRole", "view"))
    assert verbs(contents, f"clusterroles.{RBAC}", "team-a") == {("team-a", "view"): {"bind"}}
    (warning,) = warnings(manifest("RoleBinding", RBAC))
    assert warning.startswith(f"{HERE}: this RoleBinding grants a role that only a render knows")


def test_a_binding_of_a_role_of_the_same_folder_needs_only_the_permissions_of_that_role() -> None:
    (role,) = manifest("Role", RBAC, rules=(), name="Role/a").manifests
    (binding,) = manifest("RoleBinding", RBAC, role_name="Role/a").manifests
    assert warnings(TemplateContents(manifests=(role, binding))) == []
    (warning,) = warnings(TemplateContents(manifests=(dataclasses.replace(role, rules=None), binding)))[1:]
    assert "grants a role that only a render knows" in warning


def test_a_role_with_constant_rules_needs_their_permissions() -> None:
    rule = {"apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"], "verbs": ["get", "list"]}
    assert verbs(manifest("Role", RBAC, rules=(rule,)), "pods") == {("", "a"): {"get", "list"}}
    assert warnings(manifest("Role", RBAC, rules=())) == []
    (warning,) = warnings(manifest("Role", RBAC))
    assert "rules that only a render knows" in warning
    assert "escalate" in warning


def test_a_kind_that_is_not_served_needs_nothing_yet() -> None:
    assert folder_needs(PARENT, manifest("Thing", "a.b"), KINDS, ()) == folder_needs(
        PARENT, TemplateContents(), KINDS, ()
    )


def test_a_need_names_its_template_line() -> None:
    needs, _ = folder_needs(PARENT, manifest("ConfigMap"), KINDS, ())
    origins = {need.origin for need in needs if need.permission.resource == "configmaps"}
    assert origins == {"echoes.example.com/a.yaml.j2:2"}
    assert str(needs[0].permission) == "get echoes.example.com"


def test_the_operator_itself_watches_crds_and_holds_a_lease() -> None:
    assert {str(each.permission) for each in operator_needs()} == {
        "list customresourcedefinitions.apiextensions.k8s.io",
        "watch customresourcedefinitions.apiextensions.k8s.io",
    }
    assert [str(each.permission) for each in lease_needs("system")] == [
        "create leases.coordination.k8s.io in system",
        "get leases.coordination.k8s.io ssa-operator in system",
        "watch leases.coordination.k8s.io ssa-operator in system",
        "update leases.coordination.k8s.io ssa-operator in system",
    ]


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
