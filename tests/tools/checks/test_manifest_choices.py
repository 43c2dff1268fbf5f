"""Manifests whose kind or namespace the parent decides."""

from __future__ import annotations

import pytest

from ssa_operator.tools.checks.name_rules import parse_files
from ssa_operator.tools.checks.parent_choices import check_manifest_choices
from ssa_operator.tools.findings import Severity

NAMED = "metadata:\n  name: a\n"


def messages(text: str, *, elsewhere: bool = False, **more: str) -> list[str]:
    named = {f"a.example.com/_{name}.yaml.j2": each for name, each in more.items()}
    trees = parse_files({"a.example.com/a.yaml.j2": text, **named}).trees
    found = check_manifest_choices(trees, lambda _: elsewhere)
    assert all(each.severity is Severity.WARNING for each in found)
    return [f"{each.location} {each.message}" for each in found]


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("apiVersion: v1\nkind: {{ spec.kind }}\n" + NAMED, 2, "the kind of this manifest"),
        ("apiVersion: {{ spec.version }}\nkind: A\n" + NAMED, 1, "the apiVersion of this manifest"),
        ('apiVersion: v1\nkind: "{{ spec.kind }}Set"\n' + NAMED, 2, "the kind of this manifest"),
        ("{% for k in spec.kinds %}\n---\nkind: {{ k }}\n{% endfor %}", 3, "the kind of this manifest"),
        ("{{ spec.manifest | to_yaml }}\n", 1, "this manifest"),
        ("{% for each in spec.extra %}\n---\n{{ each }}\n{% endfor %}", 3, "this manifest"),
    ],
)
def test_a_kind_or_a_whole_manifest_of_the_parent_is_found(text: str, line: int, what: str) -> None:
    assert messages(text) == [f"a.example.com/a.yaml.j2:{line} the parent decides {what}"]


@pytest.mark.parametrize(
    "metadata",
    [
        "metadata:\n  name: a\n  namespace: {{ spec.namespace }}\n",
        'metadata:\n  labels:\n    a: b\n  namespace: "{{ spec.team }}-apps"\n',
        "metadata: {name: a, namespace: {{ spec.namespace }}}\n",
    ],
)
def test_a_namespace_of_the_parent_is_found_where_it_may_be_another_one(metadata: str) -> None:
    (found,) = messages("apiVersion: v1\nkind: ConfigMap\n" + metadata, elsewhere=True)
    assert found.endswith("the parent decides the namespace of this manifest")
    assert messages("apiVersion: v1\nkind: ConfigMap\n" + metadata) == []


@pytest.mark.parametrize(
    "text",
    [
        "kind: {{ 'Deployment' if spec.a else 'StatefulSet' }}\n",
        "kind: {{ values.kind }}\n",
        "metadata:\n  name: {{ spec.name }}\n  namespace: {{ namespace }}\n",
        "metadata: {name: {{ spec.name }}}\n",
        "spec:\n  issuerRef:\n    kind: {{ spec.kind }}\n",
        "subjects:\n  - kind: ServiceAccount\n    namespace: {{ spec.namespace }}\n",
        "spec:\n  template:\n    metadata:\n      namespace: {{ spec.namespace }}\n",
        "{{ macros.deployment(spec) }}\n",
        "data:\n  a: |\n    {{ spec.a }}\n",
    ],
)
def test_what_the_template_decides_and_other_fields_are_none(text: str) -> None:
    assert messages(text, elsewhere=True) == []


def test_a_kind_that_is_a_macros_argument_is_found_in_the_macro() -> None:
    macro = "{% macro any(kind) %}apiVersion: v1\nkind: {{ kind }}\n{% endmacro %}"
    (found,) = messages("{% from '_m.yaml.j2' import any %}{{ any(spec.kind) }}\n", m=macro)
    assert found.startswith("a.example.com/_m.yaml.j2:2 ")
