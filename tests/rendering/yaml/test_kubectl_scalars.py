"""Files written for kubectl are read as kubectl reads them."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import pytest

from ssa_operator.rendering.folder.object_files import FileError, objects
from ssa_operator.rendering.values.line_marks import StaticText
from ssa_operator.rendering.yaml.documents import parse
from ssa_operator.rendering.yaml.nodes import SlotValues
from tests.conftest import Kubectl

WORDS = ("y", "Y", "yes", "Yes", "YES", "yEs", "n", "N", "no", "No", "on", "On", "ON", "off", "Off", "OFF", "ye")
STARTS = ("", "-", "+")
BODIES = (
    "0", "00", "07", "0644", "08", "089", "0o17", "0O17", "0o8", "0b101", "0B11", "0b2", "0x1F", "0X1f", "0xg", "1_000",
    "1_", "0_7", "0x_f", "1__0", "1_0.5", "1_0e1", "1e3", "08.5", "0.5", ".5", "1.", "1:30", "2024-01-31", "12-3", "1a",
    "0_", "0b_1", "0777_", "9223372036854775807", "9223372036854775808", "9223372036854775809", "18446744073709551615",
    "18446744073709551616", f"1{'0' * 30}", "0x7FFFFFFFFFFFFFFF", "0xFFFFFFFFFFFFFFFF",
)  # fmt: skip
SCALARS = (*WORDS, *map("".join, itertools.product(STARTS, BODIES)))
HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"


def read(text: str) -> Any:
    """The value of a plain scalar in a file for kubectl."""
    (found,) = objects(f"{HEAD}v: {text}\n", "in.yaml")
    return found.body["v"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0644", 0o644),
        ("yes", True),
        ("Off", False),
        ("1_000", 1000),
        ("0b101", 5),
        ('"0644"', "0644"),
        ("!!str 0644", "0644"),
        ("1:30", "1:30"),
        ("2024-01-31", "2024-01-31"),
        ("9223372036854775807", 9223372036854775807),
        ("18446744073709551615", 18446744073709551616.0),
    ],
)
def test_a_scalar_is_what_kubectl_sends(text: str, value: Any) -> None:
    assert read(text) == value
    assert type(read(text)) is type(value)


def test_keys_that_are_no_texts_are_written_as_kubectl_writes_them() -> None:
    (found,) = objects(HEAD + "data: {80: a, on: b, 0x10: c}\n", "in.yaml")
    assert found.body["data"] == {"80": "a", "true": "b", "16": "c"}


def test_templates_and_text_of_other_sources_keep_yaml_1_2() -> None:
    (node,) = parse(StaticText("[yes, 0644, 1_000]", "x"))
    assert node.build(SlotValues()) == ["yes", "0644", "1_000"]


@pytest.mark.cluster
def test_every_scalar_is_read_as_kubectl_reads_it(kubectl: Kubectl) -> None:
    fields = "".join(f"  k{at}: {text}\n" for at, text in enumerate(SCALARS))
    document = f"{HEAD}data:\n{fields}"
    arguments = ("create", "--dry-run=client", "--validate=false", "--output=json", "--filename=-")
    sent = json.loads(kubectl(*arguments, input=document))
    (found,) = objects(document, "in.yaml")
    for at, text in enumerate(SCALARS):
        ours, theirs = found.body["data"][f"k{at}"], sent["data"][f"k{at}"]
        same = math.isclose(ours, theirs) if float in (type(ours), type(theirs)) else ours == theirs
        assert same, (text, ours, theirs)
        assert [isinstance(ours, each) for each in (str, bool)] == [isinstance(theirs, each) for each in (str, bool)]


def test_a_list_of_any_kind_is_its_items() -> None:
    head = "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleList\nmetadata: {}\nitems:\n"
    found = objects(
        f"{head}- metadata: {{name: a}}\n- {{kind: Other, apiVersion: v1, metadata: {{name: b}}}}\n", "in.yaml"
    )
    assert [(each.body["apiVersion"], each.body["kind"], each.body["metadata"]["name"]) for each in found] == [
        ("rbac.authorization.k8s.io/v1", "Role", "a"),
        ("v1", "Other", "b"),
    ]
    assert [each.location.line for each in found] == [5, 6]


def test_an_object_with_a_name_and_items_is_no_list() -> None:
    (found,) = objects("apiVersion: a.b/v1\nkind: Menu\nmetadata: {name: a}\nitems: [{name: x}]\n", "in.yaml")
    assert found.body["items"] == [{"name": "x"}]


def test_metadata_without_a_value_is_what_the_api_server_stores() -> None:
    metadata = "metadata:\n  name: a\n  labels:\n  finalizers: null\n  annotations: {b: null, c: d}\n"
    (found,) = objects(f"apiVersion: v1\nkind: ConfigMap\n{metadata}", "in.yaml")
    assert found.body["metadata"] == {"name": "a", "annotations": {"b": "", "c": "d"}}


def test_the_limit_of_nodes_is_that_of_a_document() -> None:
    many = f"{HEAD}data: [{'a, ' * 120_000}]\n"
    assert len(objects(f"{many}---\n{many.replace('name: c', 'name: d')}", "in.yaml")) == 2
    with pytest.raises(FileError) as caught:
        objects(f"{HEAD}data: [{'a, ' * 220_000}]\n", "in.yaml")
    assert "the document has more than 200000 nodes" in str(caught.value)
    assert "aliases" not in str(caught.value)
