"""What to do about a kind that a cluster doesn't serve."""

from __future__ import annotations

import pytest

from ssa_operator.objects.kinds import is_in_no_kubernetes, unknown_kind_hint


@pytest.mark.parametrize(
    ("group", "kind", "hint", "lasting"),
    [
        ("apps", "Deploymnet", "did you mean Deployment?", True),
        ("", "Deployment", "it is in apps/v1", True),
        ("extensions", "Deployment", "it is in apps/v1", False),
        ("apps", "Whatever", "correct apiVersion and kind", True),
        (
            "example.com",
            "Site",
            "install its CRD with `ssa-operator crds apply`, or correct apiVersion and kind",
            False,
        ),
        ("gateway.networking.k8s.io", "Gateway", "correct apiVersion and kind", False),
    ],
)
def test_a_kind_that_the_cluster_lacks_has_a_hint(group: str, kind: str, hint: str, lasting: bool) -> None:
    assert unknown_kind_hint(group, kind) == hint
    assert is_in_no_kubernetes(group, kind) == lasting


def test_a_kind_of_kubernetes_that_the_cluster_is_too_old_for_may_still_come() -> None:
    assert not is_in_no_kubernetes("apps", "Deployment")
