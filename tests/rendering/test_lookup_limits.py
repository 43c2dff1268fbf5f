"""What the templates of one parent look up is bounded, because each looked-up object may be a watch of its own."""

from __future__ import annotations

import pytest

from tests.rendering.template_files import HEAD, FakeClusterView, render_with

EACH = "data:\n{% for name in spec.names %}  {{ name }}: {{ LOOKUP is defined }}\n{% endfor %}"


@pytest.mark.more_cases
@pytest.mark.parametrize(
    "lookup",
    [
        "lookup('v1', 'Secret', name, optional=true)",
        "lookup('v1', 'Secret', 'x', namespace=name, optional=true)",
        "lookup_all('v1', 'Secret', labels={'a': name})",
    ],
)
def test_the_templates_of_a_parent_look_up_a_bounded_number_of_objects(lookup: str) -> None:
    files = {"a.yaml.j2": HEAD + EACH.replace("LOOKUP", lookup), "b.yaml": HEAD.replace("name: c", "name: b")}
    allowed = render_with(files, FakeClusterView(), {"names": [f"n{number}" for number in range(1000)]})
    assert "look up" not in str(allowed.problems)
    refused = render_with(files, FakeClusterView(), {"names": [f"n{number}" for number in range(1001)]})
    assert "may look up 1000 objects" in str(refused.problems)
    assert [each.identity.name for each in refused.documents] == ["b"]
    assert len(refused.queries) == 1000


def test_a_name_that_no_object_can_have_is_not_looked_up() -> None:
    text = HEAD + "v: {{ lookup('v1', 'Secret', spec.name, optional=true) is defined }}\n"
    found = render_with({"a.yaml.j2": text}, FakeClusterView(), {"name": "x" * 254})
    assert "no object has a name of 254 characters" in str(found.problems)
    assert not found.queries
