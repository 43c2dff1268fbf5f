"""Templates that render many children: the work is linear, and a caller can interrupt it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from ssa_operator.objects.cluster_view import RecordedView
from ssa_operator.rendering.determinism import verified
from ssa_operator.rendering.render import render
from ssa_operator.rendering.values import limits
from ssa_operator.rendering.values.line_marks import StaticText
from ssa_operator.rendering.yaml.documents import parse
from tests.instruction_counts import is_linear
from tests.rendering.template_files import FakeClusterView, live, parent, templates

MAPS = """\
{% for number in range(spec.count) %}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: 'map-{{ number }}'}
data: {text: '{{ spec.text | default("") }}'}
{% endfor %}
"""
READERS = """\
{% for number in range(spec.count) %}
---
apiVersion: v1
kind: Secret
metadata: {name: 'reader-{{ number }}'}
stringData: {read: '{{ child("ConfigMap", "map-" ~ number).data.a }}'}
{% endfor %}
"""
MAP = "---\na: {b: c}\n"


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests count work; a busy machine takes longer for it than a template may."""
    monkeypatch.setattr(limits, "SECONDS_LIMIT", 60.0)


def test_references_to_children_that_no_template_renders_are_reported() -> None:
    files = templates({"b.yaml.j2": READERS})
    assert is_linear(lambda count: partial(render, files, parent({"count": count}), FakeClusterView()), small=30)


def test_a_caller_interrupts_the_parser_of_a_long_text() -> None:
    interrupt = limits.Interrupt()
    with limits.interruptible(interrupt), limits.enforced():
        interrupt.now()
        with pytest.raises(limits.Interrupted):
            parse(StaticText(MAP * 100, "a.yaml"))


@pytest.mark.parametrize(
    ("end", "line", "words"),
    [("\n---\na: [", 10, "did not find expected"), ("\n---\na: 1\na: 2\n", 11, "the key a is there twice")],
)
def test_a_fault_of_a_long_text_is_a_problem_with_its_line(end: str, line: int, words: str) -> None:
    problem = render(templates({"a.yaml.j2": MAPS + end}), parent({"count": 1000})).problems[0]
    assert (words in str(problem), problem.location and problem.location.line) == (True, line)


def test_two_renders_with_a_recorded_view_see_the_same_cluster() -> None:
    text = """\
{% for one in lookup_all("v1", "ConfigMap", namespace="n") %}
---
apiVersion: v1
kind: Secret
metadata: {name: 'of-{{ one.metadata.name }}'}
stringData: {a: '{{ lookup("v1", "ConfigMap", "a", namespace="n").data.a }}'}
{% endfor %}
"""
    files, objects = templates({"a.yaml.j2": text}), [live("ConfigMap", "a", data={"a": "1"})]
    view = _Changing(objects)
    moment = RecordedView(view)
    rendered = render(files, parent(), moment)
    objects[0] = live("ConfigMap", "a", data={"a": "2"})
    objects.append(live("ConfigMap", "b", data={"a": "2"}))
    again = verified(files, parent(), moment, rendered)
    assert ([document.body["stringData"]["a"] for document in again.documents], again.problems) == (["1"], ())


class _Changing:
    """A view of objects that change."""

    def __init__(self, objects: list[dict[str, Any]]) -> None:
        self._objects = objects

    def __getattr__(self, name: str) -> Any:
        others: tuple[Mapping[str, Any], ...] = tuple(self._objects)
        return getattr(FakeClusterView(others=others), name)
