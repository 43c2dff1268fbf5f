"""The variants of a parent that its CRD allows."""

from __future__ import annotations

from typing import Any

from ssa_operator.schema.variants import SPECIAL, variants

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
