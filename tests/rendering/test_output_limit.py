"""A file renders at most 3 MiB, however the parent's content gets into it: that bounds what a parent takes of the
operator's memory and of etcd.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.rendering.template_files import FakeClusterView, live, problem, render_with, rendered

BLOCK = {"blob": "x" * 100_000}
"""A whole block of a parent's spec."""

USES = {
    "a value": "data: {blob: {{ spec.block.blob }}}\n",
    "a whole block": "data: {{ spec.block }}\n",
    "a block in a list": "v: {{ [spec.block] }}\n",
    "to_yaml": "data:\n  {{ spec.block | to_yaml | indent(2) }}\n",
    "tojson": "data: {{ spec.block | tojson }}\n",
    "merge": "data: {{ spec.block | merge({'a': 'b'}) }}\n",
    "a macro's block": "data: {{ m() }}\n",
}


def text(use: str) -> str:
    macro = "{% macro m() %}{{ spec.block | tojson }}{% endmacro %}\n"
    head = "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c-{{ i }}\n"
    return f"{macro}{{% for i in range(spec.count) %}}\n{head}{USES[use]}{{% endfor %}}\n"


@pytest.mark.more_cases
@pytest.mark.parametrize("use", USES)
def test_content_of_the_parent_counts_each_time_that_it_is_rendered(use: str) -> None:
    spec: dict[str, Any] = {"block": BLOCK}
    assert len(rendered({"a.yaml.j2": text(use)}, {**spec, "count": 20}).documents) == 20
    assert problem(text(use), {**spec, "count": 40}) == (
        "echoes.example.com/a.yaml.j2:1: the template renders more than 3 MiB, which is more than the API server takes"
    )


def test_content_of_looked_up_objects_counts_too() -> None:
    template = text("a whole block").replace("spec.block", "lookup('v1', 'ConfigMap', 'big').data")
    view = FakeClusterView(others=(live("ConfigMap", "big", data=BLOCK),))
    assert len(render_with({"a.yaml.j2": template}, view, {"count": 20}).documents) == 20
    (found,) = render_with({"a.yaml.j2": template}, view, {"count": 40}).problems
    assert "renders more than 3 MiB" in found.message
