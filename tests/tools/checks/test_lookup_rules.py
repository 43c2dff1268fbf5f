"""Lookups whose names the parent decides."""

from __future__ import annotations

import pytest

from ssa_operator.tools.checks.name_rules import parse_files
from ssa_operator.tools.checks.parent_choices import check_lookups
from ssa_operator.tools.findings import Severity


def messages(text: str, **more: str) -> list[str]:
    named = {f"a.example.com/_{name}.yaml.j2": each for name, each in more.items()}
    found = check_lookups(parse_files({"a.example.com/a.yaml.j2": text, **named}).trees)
    assert all(each.severity is Severity.WARNING for each in found)
    return [each.message for each in found]


@pytest.mark.parametrize(
    "text",
    [
        "{{ lookup('v1', 'Secret', spec.secret.name).data.a }}",
        "{{ lookup('v1', 'Secret', object.spec.name).data.a }}",
        "{{ lookup('v1', 'Secret', 'a-' ~ labels.x) }}",
        "{{ lookup('v1', 'Secret', name=annotations['x'] | default('a')) }}",
        "{% set a = spec.a %}{% set b = a.b %}{{ lookup('v1', 'Secret', b) }}",
        "{% for role in spec.roles %}{{ lookup('v1', 'Secret', role.secret) }}{% endfor %}",
        "{{ lookup('v1', 'Secret', required(spec.name, 'name it')) }}",
        "{{ lookup('v1', 'Secret', spec.template.metadata.name) }}",
        "{{ lookup('v1', 'Secret', metadata.labels['x']) }}",
        "{{ lookup('v1', 'Secret', object.metadata.annotations.x) }}",
        "{{ lookup('v1', 'Secret', object['spec']['x'] | lower) }}",
        "{% set a %}x-{{ spec.a }}{% endset %}{{ lookup('v1', 'Secret', a) }}",
        "{% with a = spec.a %}{{ lookup('v1', 'Secret', a) }}{% endwith %}",
        "{% set n = namespace(a='') %}{% set n.a = spec.a %}{{ lookup('v1', 'Secret', n.a) }}",
        "{% macro m(a, b) %}{{ lookup('v1', 'Secret', b) }}{% endmacro %}{{ m('x', spec.b) }}",
        "{% macro m(a=spec.a) %}{{ lookup('v1', 'Secret', a) }}{% endmacro %}{{ m() }}",
        "{% macro m(a) %}{{ a }}-x{% endmacro %}{{ lookup('v1', 'Secret', m(spec.a)) }}",
        "{% macro m() %}{{ spec.a }}-x{% endmacro %}{{ lookup('v1', 'Secret', m()) }}",
    ],
)
def test_a_name_of_the_parent_is_found_also_through_variables_and_loops(text: str) -> None:
    assert messages(text) == ["the parent decides the name of the Secret that lookup reads"]


@pytest.mark.parametrize(
    "text",
    [
        "{{ lookup('v1', 'Secret', 'pull-secret') }}",
        "{{ lookup('v1', 'Secret', name) }}",
        "{{ lookup('v1', 'Secret', object.metadata.name ~ '-x', namespace=namespace) }}",
        "{{ lookup('v1', 'ConfigMap', lookup('v1', 'ConfigMap', 'a').data.next) }}",
        "{{ lookup('v1', 'ConfigMap', lookup('v1', 'ConfigMap', name).metadata.labels.next) }}",
        "{% macro m(a) %}{{ lookup('v1', 'Secret', a) }}{% endmacro %}{{ m('fixed') }}{{ other(spec.a) }}",
        "{{ lookup('v1', 'Secret', metadata.name ~ metadata.namespace) }}",
        "{{ lookup('v1', 'Secret', values.secret) }}",
        "{{ lookup_all('v1', 'Pod', labels=spec.labels) }}",
        "{{ child('Secret', spec.name) }}",
    ],
)
def test_a_name_that_the_template_decides_is_none(text: str) -> None:
    assert messages(text) == []


def test_a_namespace_of_the_parent_is_found() -> None:
    assert messages("{{ lookup_all('v1', 'Pod', namespaces=spec.selector) }}") == [
        "the parent decides the namespaces of the Pod that lookup_all reads"
    ]
    assert messages("{{ lookup_all('v1', 'Pod', namespace=spec.where) }}") == [
        "the parent decides the namespace of the Pod that lookup_all reads"
    ]
    assert len(messages("{{ lookup('v1', 'Secret', spec.a, spec.b) }}")) == 2


@pytest.mark.parametrize(
    ("text", "imported"),
    [
        (
            "{% import '_m.yaml.j2' as m %}{{ m.read(spec.a) }}",
            "{% macro read(a) %}{{ lookup('v1', 'Secret', a) }}{% endmacro %}",
        ),
        (
            "{% from '_m.yaml.j2' import read as r %}{{ r(a=spec.a) }}",
            "{% macro r(a) %}{{ lookup('v1', 'Secret', a) }}{% endmacro %}",
        ),
        ("{% import '_m.yaml.j2' as m %}{{ lookup('v1', 'Secret', m.named) }}", "{% set named = spec.a %}"),
        ("{% from '_m.yaml.j2' import named as n %}{{ lookup('v1', 'Secret', n) }}", "{% set named = spec.a %}"),
        (
            "{% import '_m.yaml.j2' as m %}{{ lookup('v1', 'Secret', m.named('x')) }}",
            "{% macro named(x) %}{{ spec.a }}{% endmacro %}",
        ),
        ("{% set a = spec.a %}{% include '_m.yaml.j2' %}", "{{ lookup('v1', 'Secret', a) }}"),
    ],
)
def test_a_name_of_the_parent_is_followed_into_other_files(text: str, imported: str) -> None:
    assert messages(text, m=imported) == ["the parent decides the name of the Secret that lookup reads"]


def test_files_that_import_each_other_are_followed_to_an_end() -> None:
    found = messages(
        "{% import '_m.yaml.j2' as m %}{% set a = spec.a %}", m="{% import 'a.yaml.j2' as a %}{% set b = a.a %}"
    )
    assert found == []


def test_a_kind_of_the_parent_is_found() -> None:
    assert messages("{{ lookup('v1', spec.kind, 'a') }}") == [
        "the parent decides the kind of the object that lookup reads"
    ]
