"""Templates instruct the operator: no value of a parent does, however it gets into a manifest."""

from __future__ import annotations

import pytest

from ssa_operator.objects.annotations import PREFIX
from tests.rendering.template_files import FakeClusterView, document, manifest, problem, render_with

GIVEN = {f"{PREFIX}prune": "false"}

METADATA = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n"

BLOCKS = {
    "a block": "  annotations: {{ spec.given }}\n",
    "a block among others": "  annotations:\n    a: b\n    <<: {{ spec.given }}\n",
    "to_yaml": "  annotations:\n    {{ spec.given | to_yaml | indent(4) }}\n",
    "tojson": "  annotations: {{ spec.given | tojson }}\n",
    "merge": "  annotations: {{ {'a': 'b'} | merge(spec.given) }}\n",
    "keys": "  annotations:\n{% for key, value in spec.given.items() %}    {{ key }}: '{{ value }}'\n{% endfor %}",
    "a part of a key": '  annotations:\n{% for key in spec.given %}    "{{ key[:-1] }}e": "false"\n{% endfor %}',
    "a macro": "{% macro m(a) %}{{ a }}{% endmacro %}  annotations: {{ m(spec.given) }}\n",
    "the parent's own annotations": "  annotations: {{ metadata.annotations }}\n",
}


@pytest.mark.parametrize("block", BLOCKS)
def test_an_annotation_of_the_operator_in_a_value_is_refused_with_its_line(block: str) -> None:
    spec = {"given": GIVEN}
    files = {"a.yaml.j2": METADATA + BLOCKS[block], "b.yaml": manifest("ConfigMap", "b")}
    view = FakeClusterView()
    meta = {"name": "e", "namespace": "n", "uid": "u", "annotations": GIVEN}
    found = render_with(files, view, spec, metadata=meta)
    (refused,) = found.problems
    assert f"the annotation {PREFIX}prune comes with a value of the parent" in refused.message
    assert str(refused).startswith("echoes.example.com/a.yaml.j2:")
    assert [each.identity.name for each in found.documents] == ["b"]


def test_a_whole_manifest_in_a_value_may_instruct_the_operator() -> None:
    """Its author lets the parent write everything; `check` warns of that."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "annotations": GIVEN}}
    for text in ("{{ spec.body }}\n", "{{ spec.body | to_yaml }}\n", "{{ spec.body | tojson }}\n"):
        assert document(text, {"body": body}).body == body
    listed = "apiVersion: v1\nkind: List\nitems: {{ spec.bodies }}\n"
    assert document(listed, {"bodies": [body]}).body == body


@pytest.mark.parametrize("metadata", ["{{ spec.metadata }}", "\n  {{ spec.metadata | to_yaml | indent(2) }}"])
def test_metadata_in_a_value_instruct_nothing(metadata: str) -> None:
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {metadata}\n"
    assert "comes with a value" in problem(text, {"metadata": {"name": "c", "annotations": GIVEN}})


LITERALS = {
    "a mapping": "  annotations: {{ {'ssa-operator.dev/prune': 'false'} }}\n",
    "merge": "  annotations: {{ {'ssa-operator.dev/prune': 'false'} | merge(spec.more) }}\n",
    "to_yaml": "  annotations:\n    {{ {'ssa-operator.dev/prune': 'false'} | to_yaml | indent(4) }}\n",
    "keys": "  annotations:\n{% for key, value in {'ssa-operator.dev/prune': 'false'}.items() %}"
    "    {{ key }}: '{{ value }}'\n{% endfor %}",
}


@pytest.mark.parametrize("block", LITERALS)
def test_a_mapping_of_the_template_instructs_the_operator(block: str) -> None:
    metadata = {"name": "e", "namespace": "n", "uid": "u", "annotations": {f"{PREFIX}suspend": "true"}}
    found = render_with(
        {"a.yaml.j2": METADATA + LITERALS[block]}, FakeClusterView(), {"more": {"c": "d"}}, metadata=metadata
    )
    assert found.problems == ()
    assert found.documents[0].body["metadata"]["annotations"][f"{PREFIX}prune"] == "false"


def test_a_manifest_that_waits_takes_no_instruction_of_a_value() -> None:
    given = {f"{PREFIX}on": "finalize"}
    text = METADATA + "  annotations: {{ spec.given }}\ndata: {a: \"{{ lookup('v1', 'ConfigMap', 'x').data.a }}\"}\n"
    found = render_with({"a.yaml.j2": text}, FakeClusterView(), {"given": given})
    assert not found.has_hooks
    assert len(found.waits) == 1


@pytest.mark.parametrize(
    "annotations",
    [
        '  annotations:\n    ssa-operator.dev/prune: "{{ spec.keep }}"\n',
        '  annotations: {ssa-operator.dev/prune: "{{ spec.keep }}", a: b}\n',
        '  annotations:\n    "ssa-operator.dev/prune": {{ spec.keep | tojson }}\n    <<: {{ spec.more }}\n',
        '{% macro m() %}annotations: {ssa-operator.dev/prune: "false"}{% endmacro %}  {{ m() }}\n',
        '{% set m %}ssa-operator.dev/prune: "false"{% endset %}  annotations:\n    {{ m }}\n',
        '  annotations:\n    <<: {ssa-operator.dev/prune: "false"}\n',
    ],
)
def test_the_text_of_a_template_instructs_the_operator_and_may_take_the_value_from_the_parent(annotations: str) -> None:
    found = document(METADATA + annotations, {"keep": "false", "more": {"c": "d"}})
    assert found.body["metadata"]["annotations"][f"{PREFIX}prune"] == "false"
