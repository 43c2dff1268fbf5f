"""Lookups whose names the parent decides."""

from __future__ import annotations

import pytest

from ssa_operator.checks.findings import Severity
from ssa_operator.checks.lookup_rules import check_lookups
from ssa_operator.checks.name_rules import parse_files


def messages(text: str) -> list[str]:
    found = check_lookups(parse_files({"a.example.com/a.yaml.j2": text}).trees)
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
        "{{ lookup_all('v1', 'Pod', labels=spec.labels) }}",
        "{{ child('Secret', spec.name) }}",
    ],
)
def test_a_name_that_the_template_decides_is_none(text: str) -> None:
    assert messages(text) == []


def test_a_namespace_of_the_parent_is_found() -> None:
    assert messages("{{ lookup_all('v1', 'Pod', namespace=spec.where) }}") == [
        "the parent decides the namespace of the Pod that lookup_all reads"
    ]
    assert len(messages("{{ lookup('v1', 'Secret', spec.a, spec.b) }}")) == 2
