"""The risky values of a field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.schema.schema_validation import validate, validate_lists
from tests.exploration.risky_values import risky_values

TEXT = {"type": "string"}
LABELS = {"type": "object", "additionalProperties": TEXT}
PORTS = {"type": "array", "items": {"type": "object", "properties": {"name": TEXT, "port": {"type": "integer"}}}}


@pytest.mark.parametrize(
    ("name", "schema", "before", "value"),
    [
        ("clusterName", TEXT, "a", "x" * 64),
        ("clusterName", TEXT, "a", "Not A Name"),
        ("image", TEXT, "nginx", ""),
        ("port", {"type": "integer"}, 80, 70_000),
        ("containerPorts", {"type": "integer"}, 80, 70_000),
        ("target_port", {"x-kubernetes-int-or-string": True}, 80, -1),
        ("replicas", {"type": "integer"}, 1, -1),
        ("memoryLimit", TEXT, "1Gi", "1x"),
        ("storage", TEXT, "1Gi", "-1Gi"),
        ("storage", TEXT, "2Gi", "1Gi"),
        ("labels", LABELS, {"b": "c"}, {"b": "c", "a": "x" * 64}),
        ("schedule", TEXT, "* * * * *", "61 * * * *"),
        ("ports", PORTS, [{"name": "http", "port": 80}], [{"name": "http", "port": 80}, {"name": "http", "port": 80}]),
    ],
)
def test_a_child_that_breaks_a_rule_of_kubernetes_is_drawn(name: str, schema: Any, before: Any, value: Any) -> None:
    assert value in list(risky_values(name, schema, before))


@pytest.mark.parametrize(
    ("schema", "excluded"),
    [
        ({"type": "string", "maxLength": 63}, "x" * 64),
        ({"type": "string", "pattern": "^[a-z]+$"}, "Not A Name"),
        ({"type": "string", "minLength": 1}, ""),
        ({"type": "integer", "minimum": 0}, -1),
        ({"type": "string", "format": "ipv4"}, "-a"),
    ],
)
def test_what_the_crd_refuses_is_not_drawn(schema: Any, excluded: Any) -> None:
    assert excluded not in list(risky_values("name", schema, None))


def test_a_list_map_gets_no_key_twice() -> None:
    keyed = {**PORTS, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    assert list(risky_values("ports", keyed, [{"name": "http"}])) == []


SCHEMAS = st.sampled_from(
    [TEXT, LABELS, PORTS, {"type": "integer", "maximum": 9}, {"type": "string", "enum": ["a", "b"]}, {}]
)


@given(st.text(max_size=12), SCHEMAS, st.sampled_from([None, "a", 1, {"b": "c"}, [{"name": "a", "port": 1}]]))
def test_every_risky_value_fits_the_schema_and_is_new(name: str, schema: Any, before: Any) -> None:
    for value in risky_values(name, schema, before):
        assert not validate(schema, value).errors
        assert not validate_lists(schema, value)
        assert json.dumps(value) != json.dumps(before)
