"""Samples of the objects of CRDs."""

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
