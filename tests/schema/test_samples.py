"""A sample of a CRD has every declared field."""

from __future__ import annotations

from typing import Any

from ssa_operator.schema.samples import sample_object


def definition(**spec: Any) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": spec}, "status": {"type": "object"}},
    }
    version = {"name": "v1", "served": True, "schema": {"openAPIV3Schema": schema}}
    return {"spec": {"group": "example.com", "names": {"kind": "Thing"}, "versions": [version]}}


def test_a_sample_has_a_value_of_the_type_of_each_field() -> None:
    found = sample_object(
        definition(
            text={"type": "string"},
            size={"type": "string", "enum": ["small", "large"]},
            count={"type": "integer", "minimum": 3},
            kept={"type": "integer", "default": 7},
            flag={"type": "boolean"},
            port={"x-kubernetes-int-or-string": True},
            many={"type": "array", "items": {"type": "object", "properties": {"a": {"type": "number"}}}},
            named={"type": "object", "additionalProperties": {"type": "string"}},
            anything={"x-kubernetes-preserve-unknown-fields": True},
        ),
        "v1",
    )
    assert found == {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "sample"},
        "spec": {
            "text": "sample",
            "size": "small",
            "count": 3,
            "kept": 7,
            "flag": True,
            "port": 1,
            "many": [{"a": 1}],
            "named": {"sample": "sample"},
            "anything": {},
        },
    }


def test_a_crd_without_a_schema_gives_an_empty_spec() -> None:
    bare = definition()
    del bare["spec"]["versions"][0]["schema"]
    assert sample_object(bare, "v1")["spec"] == {}
