"""Template lines, and fields as the API server spells them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.objects.source_location import FieldPath, SourceLocation, field_text, parse_field

POD = {"spec": {"containers": [{"name": "a"}, {"name": "web", "ports": [{"containerPort": 80, "protocol": "TCP"}]}]}}


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("spec.replicas", ("spec", "replicas")),
        (".spec.ports[0].port", ("spec", "ports", 0, "port")),
        ("metadata.labels[a.b/c]", ("metadata", "labels", "a.b/c")),
        ('.data["x.y"]', ("data", "x.y")),
        ('.spec.containers[name="web"].image', ("spec", "containers", 1, "image")),
        (
            '.spec.containers[name="web"].ports[containerPort=80,protocol="TCP"].x',
            ("spec", "containers", 1, "ports", 0, "x"),
        ),
        ('.spec.containers[name="gone"].image', ("spec", "containers")),
    ],
)
def test_a_field_in_a_message_is_parsed(text: str, path: FieldPath) -> None:
    assert parse_field(text, POD) == path


@pytest.mark.parametrize("key", ['"' * 65, '"' * 64, '["' * 40, "]", 'a="', "1"])
def test_a_key_that_is_made_of_quotation_marks_and_brackets_is_read_at_once(key: str) -> None:
    body = {"data": {key: "x"}}
    assert parse_field(f"data[{key}]", body)[0] == "data"
    assert "]" in key or parse_field(f"data[{key}]", body) == ("data", key)


names = st.text(st.characters(categories=["Ll", "Nd"], include_characters="./-_"), min_size=1).filter(
    lambda name: not name.isdigit()
)


@given(st.lists(names | st.integers(0, 99), max_size=5).filter(lambda path: not path or isinstance(path[0], str)))
def test_a_path_that_is_written_as_text_reads_back(path: list[str | int]) -> None:
    assert parse_field(field_text(tuple(path))) == tuple(path)


def test_a_location_names_its_includers_innermost_first() -> None:
    location = SourceLocation("a/_x.j2", 3, (SourceLocation("a/_y.j2", 2), SourceLocation("a/d.yaml.j2", 9)))
    assert str(location) == "a/_x.j2:3 (included from a/_y.j2:2) (included from a/d.yaml.j2:9)"
