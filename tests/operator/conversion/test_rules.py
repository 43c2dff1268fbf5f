"""An object in another version, and back: what changes, what comes back, and what no annotation can set."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ssa_operator.objects.annotations import NOT_CONVERTED, UNCONVERTED, not_converted
from ssa_operator.objects.render_result import ConversionError
from ssa_operator.operator.conversion.rules import Converter
from ssa_operator.rendering.folder.loaded_folders import load
from ssa_operator.rendering.render import render
from ssa_operator.schema.crd_schema import object_schema
from ssa_operator.schema.new_object import defaulted, new_object
from tests.instruction_counts import is_linear
from tests.operator.conversion.sites import SCHEMA, SITES, TO_V1, kept, site, sites, write

NAMES = st.sampled_from(["a", "b", "c"])
TEXTS = st.sampled_from(["", "x", "y", "'\"{{"])
SMALL = st.integers(0, 9)


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


def ports(*more: str) -> st.SearchStrategy[list[Any]]:
    item = st.fixed_dictionaries(
        {"name": NAMES}, optional={"number": st.integers(0, 2), **dict.fromkeys(more, st.sampled_from(["TCP", "UDP"]))}
    )
    return st.lists(item, max_size=4)


NOTES = st.dictionaries(NAMES, TEXTS, max_size=2)
LABELS = st.dictionaries(NAMES, st.sampled_from(["", "x"]), max_size=2)
V1 = st.builds(
    lambda spec, status, labels: site("v1", spec, status, labels=labels) if labels else site("v1", spec, status),
    st.fixed_dictionaries(
        {"image": TEXTS, "replicas": st.fixed_dictionaries({"min": SMALL}, optional={"max": SMALL})},
        optional={"zone": TEXTS, "ports": ports("protocol"), "notes": NOTES},
    ),
    st.none() | some(address=TEXTS, pods=SMALL, observedGeneration=SMALL),
    LABELS,
)
V1ALPHA1 = st.builds(
    lambda spec, status: site("v1alpha1", spec, status),
    st.fixed_dictionaries(
        {"image": TEXTS, "count": SMALL},
        optional={"size": st.sampled_from(["small", "large"]), "ports": ports(), "notes": NOTES},
    ),
    st.none() | some(address=TEXTS, observedGeneration=SMALL),
)


@pytest.fixture(scope="module")
def converter(tmp_path_factory: pytest.TempPathFactory) -> Converter:
    return sites(write(tmp_path_factory.mktemp("sites")))


def other(version: str) -> str:
    return "v1" if version == "v1alpha1" else "v1alpha1"


def version_of(body: dict[str, Any]) -> str:
    return str(body["apiVersion"]).rpartition("/")[2]


@settings(max_examples=40)
@given(body=V1 | V1ALPHA1)
def test_there_and_back_gives_the_same_object(converter: Converter, body: dict[str, Any]) -> None:
    version = version_of(body)
    there = converter.convert(body, other(version))
    assert there == converter.convert(body, other(version))
    assert there["metadata"] | {"annotations": 0} == body["metadata"] | {"annotations": 0}
    back = converter.convert(there, version)
    assert back == body
    assert converter.convert(back, other(version)) == there


def test_a_field_that_a_user_changed_in_the_other_version_stays_as_the_user_wrote_it(converter: Converter) -> None:
    stored = site("v1", {"image": "a", "replicas": {"min": 1, "max": 5}, "zone": "z", "notes": {}}, {"pods": 3})
    read = converter.convert(stored, "v1alpha1")
    assert read["spec"] == {"image": "a", "count": 1, "notes": {}}
    assert [each["path"] for each in kept(read)["v1"]["fields"]] == [
        ["spec", "replicas", "max"],
        ["spec", "zone"],
        ["status", "pods"],
    ]
    read["spec"] |= {"count": 2, "size": "large"}
    written = converter.convert(read, "v1")
    assert written["spec"] == stored["spec"] | {"replicas": {"min": 2, "max": 5}}
    assert written["status"] == {"pods": 3}
    assert [each["path"] for each in kept(written)["v1alpha1"]["fields"]] == [["spec", "size"]]
    assert converter.convert(written, "v1alpha1")["spec"]["size"] == "large"


def test_an_item_of_a_list_gets_its_field_back_wherever_it_is(converter: Converter) -> None:
    one, two = {"name": "a", "number": 1, "protocol": "UDP"}, {"name": "b", "number": 2, "protocol": "TCP"}
    read = converter.convert(site("v1", {"image": "a", "replicas": {"min": 1}, "ports": [one, two]}), "v1alpha1")
    first, second = read["spec"]["ports"]
    read["spec"]["ports"] = [{"name": "c"}, second, first | {"number": 8}]
    assert converter.convert(read, "v1")["spec"]["ports"] == [{"name": "c"}, two, one | {"number": 8}]
    read["spec"]["ports"] = []
    assert converter.convert(read, "v1")["spec"]["ports"] == []


FORGED = st.sampled_from(
    [
        ["status", "pods"],
        ["status"],
        ["spec", "zone"],
        ["spec", "unknown"],
        ["spec", "replicas", "max"],
        ["spec", "replicas", "min"],
        ["spec"],
        ["metadata", "name"],
        ["metadata", "uid"],
        ["metadata", "finalizers"],
        ["metadata", "labels", "a"],
        ["metadata", "labels"],
        ["metadata", "annotations", "ssa-operator.dev/inventory"],
        ["apiVersion"],
        ["kind"],
        [],
        [{"name": "a"}],
        ["spec", {"name": "a"}],
        ["spec", "ports", {"name": "a"}],
    ]
)
VALUES = st.sampled_from([-1, 5, 99, "x", "!!", "", None, [], {}, {"a": "b"}, {"a": 1}, ["x"], True, 1.5])


@settings(max_examples=100)
@given(
    body=V1ALPHA1,
    fields=st.lists(st.fixed_dictionaries({"path": FORGED}, optional={"value": VALUES}), min_size=1, max_size=4),
    seal=st.sampled_from(["", "0" * 32, "ä"]),
)
def test_a_forged_annotation_sets_nothing_that_a_user_could_not(
    converter: Converter, body: dict[str, Any], fields: list[Any], seal: str
) -> None:
    plain = converter.convert(body, "v1")
    forged = json.dumps({"v1": {"fields": fields, "seal": seal}})
    body = body | {"metadata": body["metadata"] | {"annotations": {UNCONVERTED: forged}}}
    found = converter.convert(body, "v1")
    free = ("labels", "annotations")
    assert [{key: each["metadata"][key] for key in each["metadata"] if key not in free} for each in (found, plain)] == [
        {key: each for key, each in body["metadata"].items() if key not in free}
    ] * 2
    assert (found["apiVersion"], found["kind"]) == ("example.com/v1", "Site")
    assert found.get("status") == plain.get("status")
    assert found["spec"].get("zone") == plain["spec"].get("zone")
    assert not [each for each in found["metadata"].get("annotations", ()) if each.endswith("inventory")]
    before = {error.path for error in new_object(plain, converter.definition, "v1").errors}
    assert {error.path for error in new_object(found, converter.definition, "v1").errors} <= before
    assert not new_object(found, converter.definition, "v1").pruned


@pytest.mark.parametrize("text", ["", "{", "[]", '{"v1": 1}', "[" * 5000, '{"v1":{"fields":[{"path":[]}]}}'])
def test_an_annotation_that_is_not_the_operators_is_ignored(converter: Converter, text: str) -> None:
    body = site("v1alpha1", {"image": "a", "count": 2}, annotations={UNCONVERTED: text})
    assert converter.convert(body, "v1")["spec"] == {"image": "a", "replicas": {"min": 2}}


def test_a_seal_counts_only_for_its_own_object(converter: Converter) -> None:
    stored = site("v1", {"image": "a", "replicas": {"min": 1, "max": 5}, "zone": "z"}, {"pods": 3})
    read = converter.convert(stored, "v1alpha1")
    copy = converter.convert(read | {"metadata": read["metadata"] | {"uid": "u2"}}, "v1")
    assert (copy.get("status"), copy["spec"]) == ({}, {"image": "a", "replicas": {"min": 1, "max": 5}})


def test_an_annotation_that_was_not_sealed_is_no_record(converter: Converter, tmp_path: Path) -> None:
    stored = site("v1", {"image": "a", "replicas": {"min": 1, "max": 5}}, {"pods": 3})
    read = converter.convert(stored, "v1alpha1")
    found = sites(write(tmp_path), b"other").convert(read, "v1")
    assert (found.get("status"), found["spec"]["replicas"]) == ({}, {"min": 1})
    forged = json.dumps({"v1": {"fields": [{"path": ["spec", "replicas", "max"], "value": 5}]}})
    body = site("v1alpha1", {"image": "a", "count": 1}, annotations={UNCONVERTED: forged})
    assert converter.convert(body, "v1")["spec"]["replicas"] == {"min": 1}


def fields_of_a_user(converter: Converter, size: int) -> dict[str, Any]:
    fields: list[dict[str, Any]] = [{"path": ["spec", "notes", f"n{at}"], "value": "x"} for at in range(size)]
    fields.append({"path": ["spec", "replicas", "max"], "value": -1})
    annotations = {UNCONVERTED: json.dumps({"v1": {"fields": fields}})}
    return site("v1alpha1", {"image": "a", "count": 1, "notes": {"a": "x" * size}}, annotations=annotations)


def fields_of_a_copy(converter: Converter, size: int) -> dict[str, Any]:
    notes = {f"n{at}": "x" for at in range(size)}
    stored = site("v1", {"image": "a", "replicas": {"min": 1, "max": 5}, "notes": notes})
    read = converter.convert(stored, "v1alpha1")
    return read | {"metadata": read["metadata"] | {"uid": "u2"}}


def a_field_of_each_port(converter: Converter, size: int) -> dict[str, Any]:
    ports = [{"name": f"p{at}", "protocol": "UDP"} for at in range(size)]
    return converter.convert(site("v1", {"image": "a", "replicas": {"min": 1}, "ports": ports}), "v1alpha1")


def the_same_record_again_and_again(converter: Converter, size: int) -> dict[str, Any]:
    body = a_field_of_each_port(converter, size)
    annotations = body["metadata"]["annotations"]
    record = json.loads(annotations[UNCONVERTED])
    record["v1"]["fields"] = [{"path": ["spec", "ports"], "value": []}]
    return body | {
        "metadata": body["metadata"]
        | {"annotations": annotations | {f"{UNCONVERTED}-{at}": json.dumps(record) for at in range(size)}}
    }


@pytest.mark.parametrize(
    ("prepare", "size"),
    [
        (fields_of_a_user, 40),
        (fields_of_a_copy, 40),
        (a_field_of_each_port, 200),
        (the_same_record_again_and_again, 40),
    ],
)
def test_a_conversion_takes_as_long_as_the_object_is(
    converter: Converter, prepare: Callable[[Converter, int], dict[str, Any]], size: int
) -> None:
    def converting(size: int) -> Callable[[], object]:
        body = prepare(converter, size)
        return lambda: converter.convert(body, "v1")

    assert is_linear(converting, small=size)


def stored_before(converter: Converter) -> Converter:
    """The same, in a cluster where objects may still be stored in v1alpha1."""
    return replace(converter, definition={**converter.definition, "status": {"storedVersions": ["v1alpha1", "v1"]}})


NO_WAY = "spec: {image: \"{{ 'x' if spec.image != 'bad' else fail('not this one') }}\"}\n"


def test_an_object_that_can_not_be_converted_is_refused_when_it_is_written(tmp_path: Path) -> None:
    converter = sites(write(tmp_path, to_v1=NO_WAY))
    with pytest.raises(ConversionError, match="not this one"):
        converter.convert_or_mark(site("v1alpha1", {"image": "bad", "count": 1}), "v1")


def test_a_stored_object_that_can_not_be_converted_is_marked_and_keeps_its_content(tmp_path: Path) -> None:
    converter = stored_before(sites(write(tmp_path, to_v1=NO_WAY)))
    body = site("v1alpha1", {"image": "bad", "count": 3}, {"address": "a", "observedGeneration": 1})
    marked = converter.convert_or_mark(body, "v1")
    mark = not_converted(marked)
    assert mark is not None
    assert "not this one" in mark.message
    assert (marked["apiVersion"], marked.get("spec"), marked["status"]) == (
        "example.com/v1",
        None,
        {"observedGeneration": 1},
    )
    # The operator neither renders what it can't see, nor takes it for empty.
    folder = load(tmp_path / "templates").folders[SITES]
    rendered = render(folder, marked)
    assert rendered.documents == ()
    assert "can't be converted from v1alpha1" in str(rendered.problems[0])
    assert len(render(folder, site("v1", {"image": "a"})).documents) == 1
    # The API server adds defaults, and the operator its status.
    served = defaulted(marked, object_schema(converter.definition, "v1")) | {"status": {"observedGeneration": 2}}
    assert converter.convert_or_mark(served, "v1alpha1") == body | {"status": {"address": "a", "observedGeneration": 2}}
    better = sites(write(tmp_path, to_v1=TO_V1))
    assert better.convert(served, "v1alpha1")["spec"] == body["spec"]
    # Nobody but the operator can mark an object.
    forged = json.dumps({"version": "v1", "message": "x", "content": mark.content, "seal": mark.seal})
    served = site("v1", {"image": "a", "replicas": {"min": 1}}, annotations={NOT_CONVERTED: forged})
    assert converter.convert(served, "v1alpha1")["spec"] == {"image": "a", "count": 1}


def test_an_object_that_is_only_read_in_the_other_version_is_marked_however_large_it_is(converter: Converter) -> None:
    zone = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=500_000))
    body = site("v1", {"image": "a", "replicas": {"min": 1}, "zone": zone})
    marked = converter.convert_or_mark(body, "v1alpha1")
    mark = not_converted(marked)
    assert mark is not None
    assert "of at most 262144" in mark.message
    with pytest.raises(ConversionError, match="write it in v1"):
        converter.convert_or_mark(marked, "v1")
    with pytest.raises(ConversionError, match="write it in v1"):
        converter.convert_or_mark(marked | {"spec": {"image": "b", "count": 1}}, "v1")
    # One that fits, such as a text that can be compressed, comes back.
    body["spec"]["zone"] = "z" * 500_000
    marked = converter.convert_or_mark(body, "v1alpha1")
    assert converter.convert_or_mark(marked, "v1") == body
    # In the stored version it would lose its content with the next write.
    old = site("v1alpha1", {"image": "a", "count": 1, "size": zone})
    with pytest.raises(ConversionError, match="of at most 262144"):
        stored_before(converter).convert_or_mark(old, "v1")


def test_two_other_versions_go_by_way_of_the_stored_one(tmp_path: Path) -> None:
    templates = write(
        tmp_path, SCHEMA.replace("versions:\n", "versions:\n  v1beta1: {spec: {image: string, color: string}}\n")
    )
    convert = templates / "sites.example.com" / "_convert"
    (convert / "v1beta1-to-v1.yaml.j2").write_text("spec: {image: '{{ spec.image }}'}\n")
    (convert / "v1-to-v1beta1.yaml.j2").write_text("spec: {image: '{{ spec.image }}'}\n")
    converter = sites(templates)
    body = site("v1alpha1", {"image": "a", "count": 3, "size": "large"})
    there = converter.convert(body, "v1beta1")
    assert there["spec"] == {"image": "a"}
    assert sorted(kept(there)) == ["v1", "v1alpha1"]
    there["spec"]["color"] = "red"
    back = converter.convert(there, "v1alpha1")
    assert back["spec"] == body["spec"]
    assert converter.convert(back, "v1beta1")["spec"] == there["spec"]


def test_versions_with_the_same_fields_need_no_template(tmp_path: Path) -> None:
    templates = write(tmp_path, SCHEMA.replace("versions:\n", "versions:\n  v1beta1:\n"))
    body = site("v1", {"image": "a", "replicas": {"min": 1, "max": 5}})
    assert sites(templates).convert(body, "v1beta1") == body | {"apiVersion": "example.com/v1beta1"}


def test_labels_and_annotations_can_change(tmp_path: Path) -> None:
    metadata = "metadata: {labels: {size: '{{ spec.size }}', old: null}, annotations: {a: b}}\n"
    converter = sites(write(tmp_path, to_v1=TO_V1 + metadata))
    body = site("v1alpha1", {"image": "a", "count": 1, "size": "large"}, labels={"old": "x", "b": "c"})
    found = converter.convert(body, "v1")
    assert found["metadata"]["labels"] == {"size": "large", "b": "c"}
    assert found["metadata"]["annotations"]["a"] == "b"
    assert converter.convert(found, "v1alpha1") == body


@pytest.mark.parametrize(
    "spec", [{}, {"count": 3}, {"image": "a"}, {"image": "a", "size": "large"}, {"notes": {"a": "b", "c": "d"}}]
)
def test_a_part_of_an_object_comes_back_field_by_field(converter: Converter, spec: dict[str, Any]) -> None:
    """The API server converts an object without the fields of a manager, and removes what is missing there."""
    part = site("v1alpha1", spec, {"address": "x"})
    there = converter.convert(part, "v1")
    assert "replicas" not in there.get("spec", {}) or "image" in spec
    back = converter.convert(there, "v1alpha1")
    assert {**back, "spec": back.get("spec", {})} == part
    without = {name: each for name, each in there["metadata"].get("annotations", {}).items() if '"c"' not in each}
    there["metadata"]["annotations"] = without
    left = {key: {"a": "b"} if key == "notes" else each for key, each in spec.items()}
    assert converter.convert(there, "v1alpha1").get("spec", {}) == left


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("spec: {image: '{{ spec.imgae }}'}\n", ":1: spec.imgae"),
        ("\n\nspec: {{ fail('no') }}\n", ":3: no"),
        ("- a\n", ":1: a conversion renders a mapping of spec and status"),
        ("spec: {}\n---\nspec: {}\n", ":3: a conversion renders one mapping; remove this document"),
        ("apiVersion: example.com/v2\n", ":1: apiVersion is example.com/v2, and the result is example.com/v1"),
        ("spec: {}\nmetadata: {name: x}\n", ":2: a conversion can't change metadata.name"),
        ("metadata:\n  labels: {a: 1}\n", ":2: metadata.labels.a must be a text"),
        (
            "metadata:\n  annotations:\n    ssa-operator.dev/suspend: x\n",
            ":3: ssa-operator.dev/suspend is the operator",
        ),
        ("metadata: x\n", ":1: metadata must be a mapping"),
        ("metadata: {labels: x}\n", ":1: metadata.labels must be a mapping"),
    ],
)
def test_a_conversion_that_fails_names_its_line(tmp_path: Path, template: str, words: str) -> None:
    converter = sites(write(tmp_path, to_v1=template))
    with pytest.raises(ConversionError) as failed:
        converter.convert(site("v1alpha1", {"image": "a", "count": 1}), "v1")
    assert f"sites.example.com/_convert/v1alpha1-to-v1.yaml.j2{words}" in str(failed.value)


def test_what_the_annotation_can_not_hold_is_an_error(converter: Converter) -> None:
    notes = {f"n{at}": "x" * 1000 for at in range(300)}
    body = site("v1", {"image": "a", "replicas": {"min": 1}, "zone": "z" * 300_000, "notes": notes})
    with pytest.raises(ConversionError, match="of at most 262144"):
        converter.convert(body, "v1alpha1")


def test_an_unknown_version_is_an_error(converter: Converter) -> None:
    with pytest.raises(ConversionError, match="has no version v9; it has v1, v1alpha1"):
        converter.convert(site("v1", {"image": "a"}), "v9")
