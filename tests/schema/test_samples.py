"""Samples of the objects of CRDs, and the variants of a parent that its CRD allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssa_operator.schema.crd_validation import validate_crd
from ssa_operator.schema.field_errors import error_field
from ssa_operator.schema.new_object import new_object
from ssa_operator.schema.pattern_text import matching_texts
from ssa_operator.schema.samples import Sampler, UnknownValueError, sample_object
from ssa_operator.schema.string_formats import go_pattern
from ssa_operator.schema.variants import SPECIAL, variants
from tests.schema.crd_shapes import OPEN_SHAPES, SHAPES, fields, items, shape, version


def served(definition: Mapping[str, Any]) -> list[str]:
    return [each["name"] for each in definition["spec"]["versions"] if each["served"]]


def sample(spec: Mapping[str, Any], **options: Any) -> Any:
    return sample_object(shape("Thing", spec), "v1", **options).body["spec"]


def test_each_shape_of_public_crds_has_a_valid_sample_with_and_without_optional_fields() -> None:
    for definition in SHAPES:
        assert validate_crd(definition) == [], definition["metadata"]["name"]
        for name in served(definition):
            for whole in (False, True):
                found = sample_object(definition, name, whole=whole)
                assert found.errors == (), (definition["metadata"]["name"], name, whole)
                created = new_object(found.body, definition, name)
                assert (created.errors, created.pruned) == ((), ()), definition["metadata"]["name"]


@pytest.mark.parametrize("at", range(len(OPEN_SHAPES)))
def test_a_field_without_a_known_value_is_named_with_what_the_api_server_wants(at: int) -> None:
    definition, places = OPEN_SHAPES[at]
    found = sample_object(definition, "v1", whole=False)
    assert tuple(error_field(error.path) for error in found.errors) == places
    assert all(error.message and "Required" not in error.message for error in found.errors)


def test_a_sample_has_a_value_of_the_type_of_each_field() -> None:
    found = sample(
        fields(
            text={"type": "string"},
            size={"type": "string", "enum": ["small", "large"]},
            count={"type": "integer", "minimum": 3},
            kept={"type": "integer", "default": 7},
            flag={"type": "boolean"},
            port={"x-kubernetes-int-or-string": True},
            many=items(fields(a={"type": "number"})),
            named={"type": "object", "additionalProperties": {"type": "string"}},
            anything={"x-kubernetes-preserve-unknown-fields": True},
        )
    )
    assert found == {
        "text": "example",
        "size": "small",
        "count": 3,
        "kept": 7,
        "flag": True,
        "port": 1,
        "many": [{"a": 1}],
        "named": {"example": "example"},
        "anything": {},
    }


def test_a_field_has_the_value_that_its_name_suggests_where_the_schema_allows_it() -> None:
    spec = fields("port", "host", port={"type": "integer", "maximum": 10}, host={"type": "string"})
    assert sample(spec, words={"port": 8080, "host": "www.example.com"}) == {"port": 1, "host": "www.example.com"}


def test_a_crd_without_a_schema_gives_an_empty_spec() -> None:
    bare = shape("Thing", None, version("v1", None))
    del bare["spec"]["versions"][0]["schema"]
    assert sample_object(bare, "v1").body["spec"] == {}


@pytest.mark.parametrize(
    "pattern",
    [
        r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        r"^([0-9]{1,3}\.){3}[0-9]{1,3}/\d+$",
        r"^(?:foo|bar)-[[:alpha:]]+$",
        r"^(?P<a>a|b)\s[^\n\]]{2,}?$",
        r"^[]a]x{3}\$$",
        r"^(https?|ftp)://[^\s/$.?#].[^\s]*$",
        "^projects/[^/]+/zones/[a-c]{0}z$",
    ],
)
def test_a_text_is_made_from_a_pattern(pattern: str) -> None:
    assert matching_texts(pattern)


@settings(max_examples=60, deadline=None)
@given(st.text("ab^$.|()[]{}*+?-\\d1,:", max_size=20))
def test_a_text_that_is_made_from_any_pattern_matches_it(pattern: str) -> None:
    for text in matching_texts(pattern):
        assert go_pattern(pattern).search(text) is not None
    try:
        value = Sampler().value({"type": "string", "pattern": pattern})
    except UnknownValueError:
        return
    assert go_pattern(pattern).search(value) is not None


REPLICAS = {"type": "integer", "minimum": 1, "maximum": 9}


def schema(*required: str, **spec: Any) -> dict[str, Any]:
    inner = {"type": "object", "required": list(required), "properties": spec}
    return {"type": "object", "properties": {"spec": inner}}


def parent(**spec: Any) -> dict[str, Any]:
    return {"kind": "Thing", "metadata": {"name": "a"}, "spec": spec}


def found(parent: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    return {str(each): each.body["spec"] for each in variants(parent, schema)}


def test_optional_fields_are_left_out_one_at_a_time_and_required_ones_stay() -> None:
    text = {"type": "string", "enum": ["x"]}
    variants = found(parent(a="x", b="x", c="x"), schema("c", a=text, b=text, c=text))
    assert variants == {"spec.a left out": {"b": "x", "c": "x"}, "spec.b left out": {"a": "x", "c": "x"}}


def test_a_number_has_its_smallest_and_largest_value() -> None:
    assert found(parent(replicas=3), schema("replicas", replicas=REPLICAS)) == {
        "spec.replicas 1": {"replicas": 1},
        "spec.replicas 9": {"replicas": 9},
    }
    exclusive = {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "maximum": 5, "exclusiveMaximum": True}
    assert list(found(parent(n=3), schema("n", n=exclusive))) == ["spec.n 1", "spec.n 4"]


def test_a_field_has_each_value_that_is_listed() -> None:
    size = {"type": "string", "enum": ["small", "large", ""]}
    assert list(found(parent(size="small"), schema("size", size=size))) == ["spec.size large", "spec.size ''"]


def test_a_string_has_special_characters_where_its_schema_allows_them() -> None:
    assert found(parent(text="a"), schema("text", text={"type": "string"})) == {
        "spec.text a string of special characters": {"text": SPECIAL},
        "spec.text an empty string": {"text": ""},
    }
    for keyword in ({"pattern": "^[a-z]+$"}, {"maxLength": 5, "minLength": 1}, {"format": "date"}):
        assert found(parent(text="a"), schema("text", text={"type": "string", **keyword})) == {}
    assert all(each in SPECIAL for each in ("'", '"', ":", "\n", "{{", "&", "*", "é"))


def test_what_is_around_a_field_is_made_of_the_least_that_the_schema_allows() -> None:
    item: dict[str, Any] = {
        "type": "object",
        "required": ["name", "port"],
        "properties": {
            "name": {"type": "string", "pattern": "^[0-9]+Gi$"},
            "port": REPLICAS,
            "on": {"type": "boolean"},
        },
    }
    nested = {"type": "object", "properties": {"list": {"type": "array", "items": item}}}
    variants = found(parent(), schema(nested=nested))
    assert variants["spec.nested.list[0].on true"] == {"nested": {"list": [{"name": "1Gi", "port": 1, "on": True}]}}
    # No string is known for this pattern, so nothing is guessed.
    item["properties"]["name"] = {"type": "string", "pattern": r"^\pL-[0-9]{30}$"}
    assert not any("on" in each for each in found(parent(), schema(nested=nested)))


def test_a_variant_that_is_not_allowed_takes_no_place() -> None:
    fields = {"a": REPLICAS, "b": REPLICAS}
    given, declared = parent(a=5, b=5), schema("a", "b", **fields)
    limited = variants(given, declared, lambda body: body["spec"]["a"] == 5, limit=2)
    assert [str(each) for each in limited] == ["spec.b 1", "spec.b 9"]


def test_there_are_never_more_than_the_limit_and_each_field_has_one_before_any_has_two() -> None:
    fields: dict[str, Any] = {f"n{number}": REPLICAS for number in range(10)}
    given = parent(**dict.fromkeys(fields, 5))
    limited = variants(given, schema(*fields, **fields), limit=12)
    assert len(limited) == 12
    assert len({each.field for each in limited[:10]}) == 10
    assert limited == variants(given, schema(*fields, **fields), limit=12)


def test_the_parent_itself_is_not_changed() -> None:
    given = parent(list=[{"a": 1}])
    inner = {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer"}}}}
    assert found(given, schema(list=inner))
    assert given == parent(list=[{"a": 1}])


def test_a_schema_without_a_spec_has_no_variants() -> None:
    assert variants(parent(), {"type": "object"}) == []
    assert variants({"kind": "Thing", "metadata": {"name": "a"}}, schema(a=REPLICAS)) != []


def test_what_a_crd_has_copied_of_kubernetes_is_left_out_at_most() -> None:
    text = {"type": "string"}
    requirement = {"key": text, "operator": text, "values": {"type": "array", "items": text}}
    selector = {
        "matchLabels": {"type": "object", "additionalProperties": text},
        "matchExpressions": {"type": "array", "items": {"type": "object", "properties": requirement}},
    }
    tolerations = {"type": "array", "items": {"type": "object", "properties": {**TOLERATION, "operator": text}}}
    spec = schema(selector={"type": "object", "properties": selector}, tolerations=tolerations)
    given = parent(selector={"matchLabels": {"a": "b"}}, tolerations=[{"operator": "Exists"}])
    assert list(found(given, spec)) == [
        "spec.selector left out",
        "spec.tolerations left out",
        "spec.tolerations an empty list",
    ]
    own = schema(selector={"type": "object", "properties": {**selector, "mine": text}})
    assert "spec.selector.mine an empty string" in found(given, own)


TOLERATION = {name: {"type": "string"} for name in ("effect", "key", "value")} | {
    "tolerationSeconds": {"type": "integer"}
}
