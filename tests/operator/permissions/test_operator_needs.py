"""The permissions that the operator itself needs."""

from __future__ import annotations

from ssa_operator.operator.permissions.operator_needs import (
    lease_needs,
    operator_needs,
)


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
