"""A value that can't be converted is refused with the line that converts it, wherever that is."""

from __future__ import annotations

import pytest

from ssa_operator.rendering.render import render
from tests.rendering.template_files import parent, templates

HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n"


@pytest.mark.parametrize(
    "expression",
    [
        "spec.number",
        "'x' ~ spec.number",
        "spec.number + 1",
        "spec.number // 7",
        "spec.number * 1.0",
        "-spec.number",
        "spec.number / 3",
        "'a' * spec.number",
        "range(spec.number) | list",
        "'%d' % spec.number",
        "'{}'.format(spec.number)",
        "'a' if spec.number ~ '' == 'x' else 'b'",
        "spec.deep",
        "'x' ~ spec.deep",
        "spec.deep == [spec.deep]",
        "'%s' % spec.deep",
        "'a' if spec.deep ~ '' == 'x' else 'b'",
        "10 ** 5000",
        "1e308 * 10",
    ],
)
def test_a_refused_conversion_names_its_line(expression: str) -> None:
    deep: list[object] = []
    for _ in range(2000):
        deep = [deep]
    body = parent()
    body["spec"] = {"number": 10**4400, "deep": deep}
    rendered = render(templates({"a.yaml.j2": f"{HEAD}  a: {{{{ {expression} }}}}\n"}), body)
    (problem,) = rendered.problems
    assert problem.location is not None
    assert (problem.location.file.rpartition("/")[2], problem.location.line) == ("a.yaml.j2", 5), problem
