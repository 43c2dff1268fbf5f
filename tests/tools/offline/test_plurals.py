"""The plural of a kind without a CRD."""

from __future__ import annotations

from ssa_operator.tools.offline.project import possible_plurals


def test_a_plural_is_as_kubernetes_derives_it() -> None:
    assert possible_plurals("CustomResourceDefinition") == ["customresourcedefinitions"]
    assert possible_plurals("Policy") == ["policies"]
    assert possible_plurals("Gateway") == ["gateways"]
    assert possible_plurals("Ingress") == ["ingresses", "ingress"]
    assert possible_plurals("Echo") == ["echos", "echoes"]
