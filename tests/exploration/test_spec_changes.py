"""Changes of a parent's spec, drawn from its CRD's schema."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from ssa_operator.schema.crd_schema import object_schema
from ssa_operator.schema.new_object import new_object
from tests.exploration.risky_values import risky_values
from tests.exploration.spec_changes import (
    REMOVED,
    SMALL,
    PatchError,
    SpecChange,
    changeable_fields,
    changed,
    draw_change,
    simpler,
)
from tests.packaging.checkout import ROOT

CRDS = [*sorted(ROOT.glob("crds/*.yaml")), *sorted(ROOT.glob("examples/*/crds/*.yaml"))]
EXAMPLES = {
    body["kind"]: body
    for path in (*ROOT.glob("examples/*.yaml"), *ROOT.glob("examples/*/examples/*.yaml"))
    for body in yaml.safe_load_all(path.read_text())
}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)

# A JSON pointer doesn't tell a position from a name of digits.
KEYS = st.text(max_size=4).filter(lambda text: re.fullmatch("0|[1-9][0-9]*", text, re.ASCII) is None)


def draw(definition: dict[str, Any], seed: int, steps: int) -> list[tuple[SpecChange, dict[str, Any]]]:
    """The changes of one sequence, each with the parent that it gives; only valid ones are kept, as by the explorer."""
    version = definition["spec"]["versions"][0]["name"]
    schema = object_schema(definition, version) or {}
    chance, body, found = random.Random(seed), EXAMPLES[definition["spec"]["names"]["kind"]], []
    for _ in range(steps):
        change = draw_change(body, schema, chance)
        assert change is not None
        after = changed(body, change)
        found.append((change, after))
        if not new_object(after, definition, version).errors:
            body = after
    return found


@pytest.mark.more_cases
@pytest.mark.parametrize("path", CRDS, ids=lambda path: path.stem)
def test_most_changes_of_the_project_s_crds_are_valid_and_some_are_refused(path: Path) -> None:
    definition = yaml.safe_load(path.read_text())
    version = definition["spec"]["versions"][0]["name"]
    found = [each for seed in range(10) for each in draw(definition, seed, 6)]
    created = [new_object(body, definition, version) for _, body in found]
    valid = sum(not each.errors and not each.pruned for each in created)
    assert len(found) / 2 < valid < len(found)


@pytest.mark.more_cases
@pytest.mark.parametrize("path", CRDS, ids=lambda path: path.stem)
def test_the_same_seed_gives_the_same_changes(path: Path) -> None:
    definition = yaml.safe_load(path.read_text())
    assert draw(definition, 7, 3) == draw(definition, 7, 3)


def test_drawn_numbers_are_small() -> None:
    schema = {"properties": {"spec": {"type": "object", "properties": {"replicas": {"type": "integer"}}}}}
    body: dict[str, Any] = {"spec": {"replicas": 3}}
    chance = random.Random(1)
    for _ in range(300):
        change = draw_change(body, schema, chance)
        assert change is not None
        if isinstance(change.value, int):
            # A negative number is one that the API server refuses in a Deployment.
            assert -1 <= change.value <= SMALL
            body = changed(body, change) if change.value >= 0 else body


def test_a_spec_without_fields_has_no_change() -> None:
    assert draw_change({"spec": {}}, {"properties": {"spec": {"type": "object"}}}, random.Random(1)) is None
    assert draw_change({"data": {}}, {"properties": {"data": {"type": "object"}}}, random.Random(1)) is None


def test_labels_and_annotations_change_where_the_schema_declares_them_and_no_other_metadata() -> None:
    labels = {"type": "object", "properties": {"tier": {"type": "string", "default": "gold"}}}
    metadata = {"type": "object", "properties": {"labels": labels, "name": {"type": "string"}}}
    body = {"metadata": {"name": "a", "labels": {}}, "data": {"a": "b"}}
    data = {"type": "object", "additionalProperties": {"type": "string"}}
    schema = {"properties": {"metadata": metadata, "data": data, "status": {"type": "string"}}}
    chance = random.Random(1)
    found = [draw_change(body, schema, chance) for _ in range(200)]
    assert {each.path for each in found if each} == {("metadata", "labels", "tier"), ("data",), ("data", "a")}
    assert "gold" in [each.value for each in found if each and each.path == ("metadata", "labels", "tier")]


@pytest.mark.more_cases
@pytest.mark.parametrize("path", CRDS, ids=lambda path: path.stem)
def test_some_changes_pass_the_crd_and_may_break_a_child(path: Path) -> None:
    definition = yaml.safe_load(path.read_text())
    version = definition["spec"]["versions"][0]["name"]
    body = EXAMPLES[definition["spec"]["names"]["kind"]]
    risky = [
        value
        for field, inner, before, _ in changeable_fields(body, object_schema(definition, version) or {})
        for value in risky_values(str(field[-1]), inner, before)
    ]
    # An Echo has nothing but replicas of 0 and more.
    assert risky or path.stem in ("echoes.example.com", "tempnamespaces.example.roperator.com")


def test_a_map_s_entries_and_list_items_change() -> None:
    spec = {
        "type": "object",
        "properties": {
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "users": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
            },
        },
    }
    body = {"spec": {"labels": {"a": "b"}, "users": [{"name": "sample"}]}}
    chance = random.Random(1)
    found = [draw_change(body, {"properties": {"spec": spec}}, chance) for _ in range(400)]
    assert {each.path for each in found if each is not None} >= {
        ("spec", "labels", "a"),
        ("spec", "users"),
        ("spec", "users", 0, "name"),
    }
    # An added item has a key of its own.
    added = [each.value for each in found if each and each.path == ("spec", "users") and isinstance(each.value, list)]
    longer = [value for value in added if len(value) == 2]
    assert longer
    assert all(value[0]["name"] != value[1]["name"] for value in longer)


@given(st.lists(KEYS | st.integers(0, 9), min_size=1, max_size=4), JSON | st.just(REMOVED))
@example(["²", "01"], 1)
def test_a_change_is_an_operation_of_a_json_patch(parts: list[str | int], value: Any) -> None:
    change = SpecChange(path=("spec", *parts), value=value)
    data = json.loads(json.dumps(change.data()))
    assert SpecChange.of(data) == change
    assert data["path"].startswith("/spec/")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"op": "add", "path": "/spec/a"}, "the step add /spec/a needs a value"),
        ({"op": "test", "path": "/spec/a", "value": 1}, "a step needs op"),
        ({"op": "remove", "path": "spec.a"}, "a step needs op"),
        ("text", "a step needs op"),
    ],
)
def test_a_faulty_step_is_named(data: Any, message: str) -> None:
    with pytest.raises(PatchError, match=message):
        SpecChange.of(data)


def test_a_change_leaves_the_parent_as_it_is() -> None:
    body: dict[str, Any] = {"spec": {"a": {"b": 1}, "c": [1, 2]}}
    before = json.dumps(body)
    assert changed(body, SpecChange(path=("spec", "a", "b"), value=2))["spec"]["a"] == {"b": 2}
    assert changed(body, SpecChange(path=("spec", "c", 1), value=3))["spec"]["c"] == [1, 3]
    assert changed(body, SpecChange(path=("spec", "a")))["spec"] == {"c": [1, 2]}
    assert json.dumps(body) == before
    with pytest.raises(PatchError, match=r"there is no spec.x.y to change"):
        changed(body, SpecChange(path=("spec", "x", "y"), value=1))


@given(JSON)
def test_what_is_simpler_has_the_same_type(value: Any) -> None:
    for each in simpler(value):
        assert type(each) is type(value)
        assert each != value


def test_simpler_values_come_to_an_end() -> None:
    value: Any = {"name": "a long name", "items": [70, "text", {"x": -5}]}
    seen = 0
    while (each := next(iter(simpler(value)), None)) is not None:
        value, seen = each, seen + 1
        assert seen < 50
    assert value == {}


def test_a_change_reads_as_a_sentence_of_a_list() -> None:
    assert str(SpecChange(path=("spec", "replicas"), value=3)) == "spec.replicas: 3"
    assert str(SpecChange(path=("spec", "image"))) == "spec.image left out"
    assert str(SpecChange(path=("spec", "image"), value="x" * 80)) == f"spec.image: '{'x' * 56}..."
