"""A field that a schema calls optional is false where an object lacks it, and nothing waits for it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ssa_operator.objects.render_result import Rendered
from ssa_operator.schema.data import is_optional
from tests.rendering.template_files import FakeClusterView, live, manifest, render_with

HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n"
SERVICE = live("Service", "s", spec={"clusterIP": "10.0.0.1", "selector": {"a": "b"}}, metadata={"labels": {"x": "y"}})
MAP = live("ConfigMap", "x", data={"url": "http://x"})
CLUSTER = FakeClusterView(children=(SERVICE,), others=(MAP,))
LOOKUP, CHILD = "lookup('v1', 'Service', 's')", "child('Service', 's')"
ALL = "(lookup_all('v1', 'Service', labels={'x': 'y'}) | first)"


def rendered(text: str, cluster: FakeClusterView = CLUSTER) -> Rendered:
    """The render of a template beside that of the Service."""
    return render_with({"a.yaml.j2": text, "b.yaml": manifest("Service", "s")}, cluster)


@pytest.mark.parametrize("service", [LOOKUP, CHILD, ALL])
@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("SERVICE.spec.externalName | default('none')", "none"),
        ("'yes' if SERVICE.spec.externalName is defined else 'no'", "no"),
        ("'yes' if SERVICE.spec.externalName else 'no'", "no"),
        ("SERVICE.spec.externalName or 'none'", "none"),
        ("'yes' if not SERVICE.spec.externalName else 'no'", "yes"),
        ("'yes' if 'a' in SERVICE.spec.externalIPs else 'no'", "no"),
        ("'yes' if SERVICE.spec.sessionAffinityConfig.clientIP else 'no'", "no"),
        ("'yes' if SERVICE.metadata.annotations else 'no'", "no"),
        ("'yes' if SERVICE.spec.clusterIP else 'no'", "yes"),
    ],
)
def test_an_optional_field_that_an_object_lacks_is_false(service: str, expression: str, expected: str) -> None:
    text = f"{HEAD}  v: {{{{ {expression.replace('SERVICE', service)} }}}}\n"
    found, _ = rendered(text).documents
    assert found.body["data"] == {"v": expected}
    assert [each.query.kind for each in found.dependencies] == ["Service"]


@pytest.mark.parametrize(
    ("expression", "field"),
    [
        ("'yes' if lookup('v1', 'ConfigMap', 'x').data.absent else 'no'", ".data.absent"),
        ("'yes' if child('Service', 's').spec.selector.absent else 'no'", ".spec.selector.absent"),
        ("'yes' if child('Service', 's').spec.misspelt else 'no'", ".spec.misspelt"),
        ("'yes' if child('Service', 's').status.loadBalancer else 'no'", ".status.loadBalancer"),
        ("child('Service', 's').spec.externalName", ".spec.externalName"),
        ("'yes' if lookup('v1', 'Service', 'none').spec.externalName else 'no'", "Service n/none"),
    ],
)
def test_the_other_fields_are_waited_for(expression: str, field: str) -> None:
    (wait,) = rendered(f"{HEAD}  v: {{{{ {expression} }}}}\n").waits
    assert field in str(wait)


def test_a_child_that_is_not_ready_is_waited_for() -> None:
    starting = {**SERVICE, "spec": {**SERVICE["spec"], "type": "LoadBalancer"}}
    cluster = dataclasses.replace(CLUSTER, children=(starting,))
    (wait,) = rendered(f"{HEAD}  v: {{{{ 1 if {CHILD}.spec.externalName else 2 }}}}\n", cluster).waits
    assert "ready" in str(wait)


def test_a_schema_says_which_fields_are_optional() -> None:
    fields: dict[str, Any] = {"size": {}, "zone": {}, "items": {"items": {"properties": {"a": {}}}}}
    crd = {"properties": {"spec": {"required": ["size"], "properties": fields}}}
    for path, optional in (
        (("spec",), True),
        (("spec", "size"), False),
        (("spec", "zone"), True),
        (("spec", "items", 0, "a"), True),
        (("spec", "items", 0), False),
        (("spec", "other"), False),
        (("metadata", "labels"), True),
        (("status", "phase"), False),
        ((), False),
    ):
        assert is_optional("example.com/v1", "Thing", path, crd) is optional, path
    assert is_optional("apps/v1", "Deployment", ("spec", "template", "spec", "containers", 0, "image"))
    assert not is_optional("apps/v1", "Deployment", ("spec", "template", "spec", "containers", 0, "name"))
    assert not is_optional("example.com/v1", "Thing", ("spec", "zone"))
