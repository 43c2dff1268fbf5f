"""Fields of other objects that no object of their kind has."""

from __future__ import annotations

from typing import Any

import pytest

from ssa_operator.schema.data import built_in_schemas
from ssa_operator.tools.checks.child_rules import check_child_fields
from tests.rendering.template_files import FOLDER, templates

TEXT = {"type": "string"}
ENDPOINT = {"type": "object", "properties": {"port": TEXT, "interval": TEXT}}
SPEC = {
    "endpoints": {"type": "array", "items": ENDPOINT},
    "labels": {"type": "object", "additionalProperties": TEXT},
}
SCHEMA = {"type": "object", "properties": {"spec": {"type": "object", "properties": SPEC}}}
CRD: dict[str, Any] = {
    "spec": {
        "group": "m.example.com",
        "names": {"kind": "Monitor"},
        "versions": [{"name": "v1", "served": True, "schema": {"openAPIV3Schema": SCHEMA}}],
    }
}
SCHEMAS = built_in_schemas().with_crds([CRD])
ALL = "lookup_all('m.example.com/v1', 'Monitor')"


def found(text: str) -> list[str]:
    tree = templates({"a.yaml.j2": text.replace("ALL", ALL)}).syntax_tree(f"{FOLDER}/a.yaml.j2")
    return [f"{each.message}; {each.fix}" for each in check_child_fields({"a": tree}, SCHEMAS, [])]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "{% for m in ALL %}{{ m.spec.endpoints[0].intervall }}{% endfor %}",
            "no Monitor has a field spec.endpoints[0].intervall; did you mean spec.endpoints[0].interval?",
        ),
        (
            "{% for m in ALL | sort %}{% for e in m.spec.endpoints %}{{ e.prot }}{% endfor %}{% endfor %}",
            "no Monitor has a field spec.endpoints[0].prot; did you mean spec.endpoints[0].port?",
        ),
        (
            "{% set all = ALL %}{% for m in all if m.spek %}{% endfor %}{% for m in all %}{{ m.spec }}{% endfor %}",
            "no Monitor has a field spek; did you mean spec?",
        ),
        ("{{ (ALL | selectattr('a') | first).spec.nope }}", "no Monitor has a field spec.nope; "),
        (
            "{{ lookup('v1', 'Service', 's').spec.ports[0].prot }}",
            "no Service has a field spec.ports[0].prot; did you mean spec.ports[0].port?",
        ),
    ],
)  # fmt: skip
def test_a_field_that_no_schema_declares_is_found(text: str, message: str) -> None:
    assert found(text) == [message]


@pytest.mark.parametrize(
    "text",
    [
        "{% for m in ALL %}{{ m.spec.labels.any }}{{ m.metadata.name }}{{ m.status.x }}{% endfor %}",
        "{% for m in ALL %}{% endfor %}{% for m in spec.items %}{{ m.spec.nope }}{% endfor %}",
        "{% macro f(m) %}{{ m.nope }}{% endmacro %}{% for m in ALL %}{{ f(m) }}{% endfor %}",
        "{{ ALL | length }}{{ ALL | map(attribute='spec.nope') | list }}",
        "{% for m in ALL %}{{ m.spec[spec.key].nope }}{% endfor %}",
        "{% for m in lookup_all('other.example.com/v1', 'Thing') %}{{ m.spec.nope }}{% endfor %}",
    ],
)
def test_what_an_object_may_have_is_no_finding(text: str) -> None:
    assert found(text) == []
