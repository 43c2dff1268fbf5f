"""Objects that are ready without a controller."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from ssa_operator.objects.identity import GroupKind, join_api_version
from ssa_operator.objects.readiness import RULES, ReadinessState, readiness
from ssa_operator.tools.checks.ready_objects import ready_object

SPECS: dict[str, dict[str, Any]] = {
    "Deployment": {"replicas": 3},
    "StatefulSet": {"replicas": 0},
    "Service": {"type": "LoadBalancer"},
}


@pytest.mark.parametrize("kind", [*RULES, GroupKind("example.com", "Echo")], ids=str)
def test_every_kind_with_a_rule_is_ready(kind: GroupKind) -> None:
    body = {
        "apiVersion": join_api_version(kind.group, "v1"),
        "kind": kind.kind,
        "metadata": {"name": "a"},
        "spec": SPECS.get(kind.kind, {}),
    }
    found = readiness(ready_object(body), 0)
    assert found.state is ReadinessState.CURRENT, found.message


def test_a_secret_has_its_texts_encoded() -> None:
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"x": "eA=="}}
    live = ready_object({**body, "stringData": {"y": "p"}})
    assert live["data"] == {"x": "eA==", "y": base64.b64encode(b"p").decode()}
    assert "stringData" not in live
