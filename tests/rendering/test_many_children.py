"""Templates that render many children: the work is linear, and long texts are parsed between two renders."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from ssa_operator.objects.cluster_view import RecordedView
from ssa_operator.rendering.determinism import verified
from ssa_operator.rendering.jinja import templates as templates_module
from ssa_operator.rendering.render import render
from ssa_operator.rendering.values import limits
from ssa_operator.rendering.values.line_marks import MarkedText, StaticText
from ssa_operator.rendering.yaml import documents
from ssa_operator.rendering.yaml.documents import DEFERRALS, INLINE_LENGTH, ParsedTexts
from ssa_operator.rendering.yaml.nodes import Node
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
MANY = INLINE_LENGTH // 40


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests count work; a busy machine takes longer for it than a template may."""
    monkeypatch.setattr(limits, "SECONDS_LIMIT", 60.0)


def test_references_to_children_that_no_template_renders_are_reported() -> None:
    files = templates({"b.yaml.j2": READERS})
    assert is_linear(lambda count: partial(render, files, parent({"count": count}), FakeClusterView()), small=30)


def test_a_long_text_is_parsed_between_two_renders_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def parse(source: MarkedText | StaticText) -> tuple[Node, ...]:
        parsed.append(source.text)
        return documents.parse(source)

    monkeypatch.setattr(templates_module, "parse", parse)
    files, body, texts = templates({"a.yaml.j2": MAPS}), parent({"count": MANY}), ParsedTexts()
    with texts.used():
        render(files, body)
    assert (texts.missing, parsed) == (True, [])
    texts.parse()
    with texts.used():
        rendered = render(files, body)
    with texts.used(defer=False):
        rendered = verified(files, body, FakeClusterView(), rendered)
    assert (texts.missing, len(parsed)) == (False, 1)
    plain = render(files, body)
    assert [document.body for document in rendered.documents] == [document.body for document in plain.documents]
    assert not rendered.problems


def test_a_text_stays_parsed_when_a_value_changes() -> None:
    files, texts = templates({"a.yaml.j2": MAPS}), ParsedTexts()
    with texts.used():
        render(files, parent({"count": MANY}))
    texts.parse()
    with texts.used():
        rendered = render(files, parent({"count": MANY, "text": "b"}))
    assert not texts.missing
    assert {document.body["data"]["text"] for document in rendered.documents} == {"b"}


@pytest.mark.parametrize(
    ("end", "words"),
    [("\n---\na: [", "did not find expected"), ("\n---\na: 1\na: 2\n", "the key a is there twice")],
)
def test_a_fault_of_a_long_text_is_a_problem_with_its_line(end: str, words: str) -> None:
    files, body, texts = templates({"a.yaml.j2": MAPS + end}), parent({"count": MANY}), ParsedTexts()
    with texts.used():
        render(files, body)
    texts.parse()
    with texts.used():
        problems = render(files, body).problems
    assert problems == render(files, body).problems
    assert words in str(problems[0])


def test_texts_that_change_each_time_are_parsed_in_the_end() -> None:
    files, texts = templates({"a.yaml.j2": MAPS}), ParsedTexts()
    for count in range(DEFERRALS):
        with texts.used():
            render(files, parent({"count": MANY + count}))
        assert texts.missing
        texts.parse()
    with texts.used():
        rendered = render(files, parent({"count": MANY - 1}))
    assert (texts.missing, len(rendered.documents)) == (False, MANY - 1)


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
