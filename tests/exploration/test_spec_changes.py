"""Changes of a parent's spec that its CRD's schema suggests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.schema.crd_schema import object_schema
from ssa_operator.schema.new_object import new_object
from ssa_operator.schema.schema_validation import validate, validate_lists
from tests.exploration.spec_changes import (
    REMOVED,
    SMALL,
    ChangeKind,
    Field,
    SpecChange,
    changes,
    risky_values,
)
from tests.packaging.checkout import ROOT

CRDS = [*sorted(ROOT.glob("crds/*.yaml")), *sorted(ROOT.glob("examples/*/crds/*.yaml"))]
EXAMPLES = {
    body["kind"]: body
    for path in (*ROOT.glob("examples/*.yaml"), *ROOT.glob("examples/*/examples/*.yaml"))
    for body in yaml.safe_load_all(path.read_text())
}
VALID, RISKY, INVALID = ChangeKind.VALID, ChangeKind.RISKY, ChangeKind.INVALID


def field(schema: Any, before: Any = None) -> Field:
    return Field(("spec", "field"), schema, before, required=False)


@pytest.mark.more_cases
@pytest.mark.parametrize("path", CRDS, ids=lambda path: path.stem)
def test_most_changes_of_the_project_s_crds_are_as_intended(path: Path) -> None:
    definition = yaml.safe_load(path.read_text())
    version, body = definition["spec"]["versions"][0]["name"], EXAMPLES[definition["spec"]["names"]["kind"]]
    schema = object_schema(definition, version) or {}
    refused = {}
    for kind in ChangeKind:
        created = [new_object(each.applied_to(body), definition, version) for each in changes(body, schema, kind)]
        # No field of a temporary namespace is one that Kubernetes checks.
        assert created or path.stem == "tempnamespaces.example.roperator.com"
        refused[kind] = sum(bool(each.errors or each.pruned) for each in created) / max(len(created), 1)
    assert (refused[VALID] < 0.1, refused[RISKY] < 0.5, refused[INVALID] > 0.5) == (True, True, True)


def test_numbers_of_valid_changes_are_small() -> None:
    schema = {"properties": {"spec": {"type": "object", "properties": {"replicas": {"type": "integer"}}}}}
    for before in range(SMALL + 1):
        found = [each.value for each in changes({"spec": {"replicas": before}}, schema, VALID)]
        assert found
        assert all(value is REMOVED or 0 <= value <= SMALL for value in found)


@pytest.mark.parametrize("name", ["spec", "data"])
def test_a_spec_without_fields_has_no_change(name: str) -> None:
    schema = {"properties": {"spec": {"type": "object"}}}
    assert [changes({name: {}}, schema, kind) for kind in (VALID, RISKY)] == [[], []]


def test_labels_and_annotations_change_where_the_schema_declares_them_and_no_other_metadata() -> None:
    labels = {"type": "object", "properties": {"tier": {"type": "string", "default": "gold"}}}
    metadata = {"type": "object", "properties": {"labels": labels, "name": {"type": "string"}}}
    body = {"metadata": {"name": "a", "labels": {}}, "data": {"a": "b"}}
    data = {"type": "object", "additionalProperties": {"type": "string"}}
    schema = {"properties": {"metadata": metadata, "data": data, "status": {"type": "string"}}}
    found = changes(body, schema, VALID)
    assert {each.path for each in found} == {("metadata", "labels", "tier"), ("data",), ("data", "a")}
    assert SpecChange(("metadata", "labels", "tier"), "gold") in found


def test_a_map_s_entries_and_list_items_change() -> None:
    users = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
    }
    labels = {"type": "object", "additionalProperties": {"type": "string"}}
    spec = {"type": "object", "properties": {"labels": labels, "users": users}}
    body = {"spec": {"labels": {"a": "b"}, "users": [{"name": "sample"}]}}
    found = changes(body, {"properties": {"spec": spec}}, VALID)
    assert {each.path for each in found} >= {("spec", "labels", "a"), ("spec", "users"), ("spec", "users", 0, "name")}
    # An added item has a key of its own.
    values = [each.value for each in found if each.path == ("spec", "users") and each.value is not REMOVED]
    added = [value for value in values if len(value) == 2]
    assert added
    assert all(value[0]["name"] != value[1]["name"] for value in added)


def test_a_change_leaves_the_parent_as_it_is() -> None:
    body: dict[str, Any] = {"spec": {"a": {"b": 1}, "c": [1, 2]}}
    before = json.dumps(body)
    assert SpecChange(("spec", "a", "b"), 2).applied_to(body)["spec"]["a"] == {"b": 2}
    assert SpecChange(("spec", "c", 1), 3).applied_to(body)["spec"]["c"] == [1, 3]
    assert SpecChange(("spec", "a")).applied_to(body)["spec"] == {"c": [1, 2]}
    assert json.dumps(body) == before


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
def test_a_child_that_breaks_a_rule_of_kubernetes_is_risked(name: str, schema: Any, before: Any, value: Any) -> None:
    assert value in list(risky_values(name, field(schema, before)))


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
def test_what_the_crd_refuses_is_not_risked(schema: Any, excluded: Any) -> None:
    assert excluded not in list(risky_values("name", field(schema)))


def test_a_list_map_gets_no_key_twice() -> None:
    keyed = {**PORTS, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    assert list(risky_values("ports", field(keyed, [{"name": "http"}]))) == []


SCHEMAS = st.sampled_from(
    [TEXT, LABELS, PORTS, {"type": "integer", "maximum": 9}, {"type": "string", "enum": ["a", "b"]}, {}]
)


@given(st.text(max_size=12), SCHEMAS, st.sampled_from([None, "a", 1, {"b": "c"}, [{"name": "a", "port": 1}]]))
def test_every_risky_change_fits_the_schema_and_changes_the_field(name: str, schema: Any, before: Any) -> None:
    body = {"spec": {} if before is None else {name: before}}
    spec = {"type": "object", "properties": {name: schema}}
    for each in changes(body, {"properties": {"spec": spec}}, RISKY):
        assert not validate(spec, each.applied_to(body)["spec"]).errors
        assert not validate_lists(spec, each.applied_to(body)["spec"])
        assert json.dumps(each.applied_to(body)) != json.dumps(body)
