"""The review of an account's permissions by the real API server."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssa_operator.kube.api.access_reviews import Subject
from ssa_operator.objects.kinds import Permission
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.operator.permissions.operator_needs import PermissionNeed
from ssa_operator.operator.permissions.requests import describe, missing_permissions
from tests.operator.harness import Desk
from tests.operator.limited_accounts import acting_as, allowed

HERE = SourceLocation("echoes.example.com/a.yaml.j2", 2)


def need(verb: str, resource: str = "secrets", namespace: str = "", name: str = "") -> PermissionNeed:
    permission = Permission(group="", resource=resource, namespace=namespace, name=name, verb=verb)
    return PermissionNeed(permission=permission, purpose="lookups", folder="echoes.example.com", location=HERE)


@pytest.mark.cluster
async def test_an_account_with_a_narrow_permission_lacks_only_the_wide_one(desk: Desk, tmp_path: Path) -> None:
    user = f"limited-{desk.namespace}"
    rules = [
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["pull"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
    ]
    await desk.apply(*allowed(user, rules, "narrow"))
    here = desk.namespace
    missing = [
        need("list"),
        need("list", namespace=here),
        need("get", "pods", here),
        need("get", "secrets", here, "pull"),
    ]
    needs = [*missing, need("list", namespace=here, name="pull"), need("get", "pods/log", here)]
    async with acting_as(user, desk, tmp_path) as client:
        assert await missing_permissions(client, needs) == tuple(missing)
    assert await missing_permissions(desk.client, needs) == ()


def test_a_service_account_has_the_groups_that_the_api_server_adds() -> None:
    groups = ("system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated")
    assert Subject.of("system:serviceaccount:a:b") == Subject(user="system:serviceaccount:a:b", groups=groups)
    assert Subject.of("ada") == Subject(user="ada", groups=("system:authenticated",))


def test_a_permission_is_described_once_with_all_that_needs_it() -> None:
    other = PermissionNeed(permission=need("list").permission, purpose="parents", folder="echoes.example.com")
    assert describe([need("list"), other, need("list")]) == [
        "list secrets (lookups: echoes.example.com/a.yaml.j2:2; parents: echoes.example.com)"
    ]
