"""The roles, bindings and service account that grant an operator exactly the permissions that it needs.

Promises:
- Permissions in all namespaces and on cluster-scoped resources are in one ClusterRole, those in one namespace in a Role
  there.
- Two rules never grant the same permission, and every rule knows the needs that it serves.
- The same needs give the same roles, whatever their order.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.objects.kinds import Permission
from ssa_operator.operator.permissions.operator_needs import PermissionNeed
from ssa_operator.operator.permissions.template_needs import RBAC

_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete")


class Account(Struct, frozen=True, kw_only=True):
    """The service account of an operator."""

    name: str
    namespace: str


class PolicyRule(Struct, frozen=True, kw_only=True):
    """One rule of a role."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()
    """The names that it is restricted to, none for all."""
    needs: tuple[PermissionNeed, ...] = ()
    """The needs that it serves."""

    @property
    def body(self) -> dict[str, Any]:
        names = {"resourceNames": list(self.names)} if self.names else {}
        return {"apiGroups": [self.group], "resources": [self.resource], **names, "verbs": list(self.verbs)}


class Role(Struct, frozen=True, kw_only=True):
    """A ClusterRole, or a Role in a namespace."""

    name: str
    namespace: str = ""
    """'' for a ClusterRole."""
    rules: tuple[PolicyRule, ...]

    @property
    def kind(self) -> str:
        return "Role" if self.namespace else "ClusterRole"


def roles(needs: Iterable[PermissionNeed], account: Account) -> tuple[Role, ...]:
    """The ClusterRole and the Roles, all of them with the name of the account."""
    needs = sorted(set(needs), key=lambda need: (need.permission, need.purpose, need.folder, need.origin))
    by_namespace: dict[str, list[Permission]] = {}
    for permission in without_covered(need.permission for need in needs):
        by_namespace.setdefault(permission.namespace, []).append(permission)
    return tuple(
        Role(name=account.name, namespace=namespace, rules=tuple(_rules(by_namespace[namespace], needs)))
        for namespace in sorted(by_namespace)
    )


def _rules(permissions: Iterable[Permission], needs: Sequence[PermissionNeed]) -> Iterable[PolicyRule]:
    by_object: dict[tuple[str, str, str], list[Permission]] = {}
    for each in permissions:
        by_object.setdefault((each.group, each.resource, each.name), []).append(each)
    by_verbs: dict[tuple[str, str, bool, tuple[str, ...]], list[Permission]] = {}
    for (group, resource, name), found in by_object.items():
        verbs = tuple(sorted((each.verb for each in found), key=verb_order))
        by_verbs.setdefault((group, resource, bool(name), verbs), []).extend(found)
    for (group, resource, _, verbs), granted in sorted(by_verbs.items()):
        names = tuple(sorted({each.name for each in granted} - {""}))
        served = tuple(need for need in needs if any(each.covers(need.permission) for each in granted))
        yield PolicyRule(group=group, resource=resource, verbs=verbs, names=names, needs=served)


def verb_order(verb: str) -> tuple[int, str]:
    """The usual order of verbs in a rule: those that read first."""
    return _VERBS.index(verb) if verb in _VERBS else len(_VERBS), verb


def service_account(account: Account, labels: dict[str, str]) -> dict[str, Any]:
    """The ServiceAccount. Only the operator's own pod mounts its token."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": account.name, "namespace": account.namespace, "labels": labels},
        "automountServiceAccountToken": False,
    }


def role_body(role: Role, labels: dict[str, str]) -> dict[str, Any]:
    """The ClusterRole or Role."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": role.kind,
        "metadata": _metadata(role, labels),
        "rules": [rule.body for rule in role.rules],
    }


def binding_body(role: Role, account: Account, labels: dict[str, str]) -> dict[str, Any]:
    """The binding that grants a role to the account."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": f"{role.kind}Binding",
        "metadata": _metadata(role, labels),
        "roleRef": {"apiGroup": RBAC, "kind": role.kind, "name": role.name},
        "subjects": [{"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace}],
    }


def _metadata(role: Role, labels: dict[str, str]) -> dict[str, Any]:
    namespace = {"namespace": role.namespace} if role.namespace else {}
    return {"name": role.name, **namespace, "labels": labels}


def without_covered(permissions: Iterable[Permission]) -> list[Permission]:
    """The permissions, sorted, without those that another one covers."""
    distinct = sorted(set(permissions))
    found = []
    for permission in distinct:
        candidates = {
            replace(permission, namespace=namespace, name=name)
            for namespace, name in itertools.product(("", permission.namespace), ("", permission.name))
        } - {permission}
        if not candidates & set(distinct):
            found.append(permission)
    return found
