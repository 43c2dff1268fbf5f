"""The short form of a CRD stands for the same CRD."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.schema.short_schema.expanded_crd import short_schema
from ssa_operator.schema.short_schema.short_form import short_form

FOLDER = "sites.example.com"

WHOLE: dict[str, Any] = {
    "kind": "Site",
    "version": "v1beta1",
    "scope": "Cluster",
    "shortNames": ["st"],
    "categories": ["all"],
    "types": {
        "Port": {"number": "integer | required minimum=1", "name": "string | default=http"},
        "Host": {"name": "string | required", "aliases": "[]string | uniqueItems maxItems=8"},
    },
    "spec": {
        "image": 'string | required description="Image \\"of\\" the web server."',
        "size": "string | enum=small,large default=small",
        "path": 'string | pattern="^/[a-z \\d]*$" default="/a b"',
        "storage": "quantity | default=1Gi",
        "cpu": "quantity | required",
        "timeout": "duration | default=30s",
        "limits": "map[string]quantity",
        "zone": "string | immutable",
        "ports": "[]Port | minItems=1",
        "host": "Host | required",
        "tls": {"enabled": "boolean | default=false", "issuer": "string"},
        "labels": 'map[string]string | default={"a": "b c"}',
        "rows": "[][]number | maximum=1.5",
        "extra": "object",
        "empty": 'string | default=""',
    },
    "status": {"address": "string", "ready": "integer"},
    "validation": [{"rule": "self.size == 'small'", "message": "no"}],
    "columns": [{"name": "Size", "path": ".spec.size", "type": "string"}],
    "scale": {"replicas": ".spec.rows", "statusReplicas": ".status.ready"},
}


def crd_of(given: dict[str, Any]) -> dict[str, Any]:
    found = short_schema(FOLDER, given)
    assert found.mistakes == ()
    return dict(found.crd)


def test_the_short_form_of_a_crd_stands_for_the_same_crd() -> None:
    crd = crd_of(WHOLE)
    found = short_form(crd)
    assert found is not None
    assert short_schema(FOLDER, found).crd == crd
    assert found["spec"]["storage"] == "quantity | default=1Gi"
    assert found["spec"]["timeout"] == "duration | default=30s"
    assert found["spec"]["tls"] == {"enabled": "boolean | default=false", "issuer": "string"}
    assert found["types"]["Port"] == WHOLE["types"]["Port"]


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("metadata", "labels"), {"a": "b"}),
        (("spec", "conversion"), {"strategy": "Webhook"}),
        (("spec", "names", "singular"), "other"),
        (("spec", "versions", 0, "additionalPrinterColumns"), []),
        (("spec", "versions", 0, "subresources"), {}),
        (("spec", "versions", 0, "schema", "openAPIV3Schema", "properties", "spec", "maxProperties"), 3),
        (("spec", "versions", 0, "schema", "openAPIV3Schema", "properties", "spec", "nullable"), True),
        (("spec", "versions", 0, "schema", "openAPIV3Schema", "properties", "status"), {"type": "object"}),
        (("spec", "versions"), []),
    ],
)
def test_a_crd_that_a_short_schema_can_not_express_has_no_short_form(place: tuple[str | int, ...], value: Any) -> None:
    crd = copy.deepcopy(crd_of({"kind": "Site", "spec": {"size": "integer | default=1"}}))
    assert short_form(crd) is not None
    at: Any = crd
    for part in place[:-1]:
        at = at[part]
    at[place[-1]] = value
    assert short_form(crd) is None


_TEXTS = st.text(st.sampled_from("ab \"'\\=|,[{#:\n\té"), max_size=8)


@given(_TEXTS, _TEXTS, st.lists(_TEXTS.filter(bool), min_size=1, max_size=3, unique=True))
def test_any_text_in_a_marker_has_a_short_form(default: str, description: str, options: list[str]) -> None:
    crd = copy.deepcopy(crd_of({"kind": "Site", "spec": {"a": "string | default=x", "b": "string", "c": "[]string"}}))
    fields = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    fields["a"] |= {"default": default, "description": description}
    fields["b"]["enum"] = options
    fields["c"]["default"] = options
    found = short_form(crd)
    assert found is not None
    assert short_schema(FOLDER, found).crd == crd
