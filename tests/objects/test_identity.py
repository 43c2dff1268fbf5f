"""Names of kinds that templates and users write, and kinds that a cluster doesn't serve."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from ssa_operator.objects.identity import GroupKind, Identity, split_api_version
from ssa_operator.objects.kinds import is_in_no_kubernetes, unknown_kind_hint


def test_long_texts_are_read_and_do_not_stay_in_memory() -> None:
    tracemalloc.start()
    try:
        for number in range(50):
            text = f"{number:0>100000}"
            assert split_api_version(f"{text}/v1") == (text, "v1")
            assert Identity(text, "Echo", "default", "web").group_kind == GroupKind(text, "Echo")
        del text
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()


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
