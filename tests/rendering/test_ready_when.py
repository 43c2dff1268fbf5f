"""The annotation `ready-when` in a render: errors with their lines, and what waits for a child with it."""

from __future__ import annotations

import pytest

from ssa_operator.objects.annotations import Reference
from ssa_operator.objects.readiness import ReadinessState, readiness
from ssa_operator.rendering.render import render, render_status
from tests.rendering.template_files import FakeClusterView, live, manifest, parent, render_with, rendered, templates


def annotated(expression: str, kind: str = "ConfigMap", name: str = "a", rest: str = "") -> str:
    annotations = f"  annotations:\n    x: z\n    ssa-operator.dev/ready-when: {expression}\n"
    return manifest(kind, name, annotations + rest)


READER = manifest("ConfigMap", "reader", "data:\n  x: {{ child('ConfigMap', 'a').metadata.name }}\n")
ASKS = manifest("ConfigMap", "asks", "data:\n  x: \"{{ ready(child('ConfigMap', 'a')) }}\"\n")
RUNNING = "\"data.phase == 'Running'\""


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ('"data.phase =="', "ready-when is no valid expression: unexpected 'end of the expression'"),
        ('"{{ spec.rule }}"', "ready-when calls lookup"),
        ('""', "ready-when is empty"),
    ],
)
def test_an_invalid_expression_is_a_problem_at_its_line_and_stops_no_other_document(
    expression: str, words: str
) -> None:
    spec = {"rule": "lookup('v1', 'Secret', 's').data"}
    result = rendered({"a.yaml.j2": annotated(expression), "b.yaml": manifest("ConfigMap", "b")}, spec)
    (problem,) = result.problems
    assert str(problem).startswith(f"echoes.example.com/a.yaml.j2:7: annotation ssa-operator.dev/{words}")
    assert [each.name for each in problem.of] == ["a"]
    assert [document.identity.name for document in result.documents] == ["b"]


def test_an_expression_is_not_rendered_by_its_text() -> None:
    """A value of the parent in the expression is part of an expression, which the sandbox holds."""
    result = rendered({"a.yaml.j2": annotated("\"data.phase == '{{ spec.s }}'\"")}, {"s": "' or ''.__class__ or '"})
    (document,) = result.documents
    assert document.ready_when is not None
    assert not document.ready_when.judge({"data": {"phase": "x"}}).holds


@pytest.mark.parametrize(("phase", "waits"), [("Pending", True), ("Running", False)])
def test_a_document_that_reads_a_child_waits_until_its_expression_holds(phase: str, waits: bool) -> None:
    files = {"a.yaml.j2": annotated(RUNNING), "b.yaml.j2": READER + "---\n" + ASKS}
    cluster = FakeClusterView(children=(live("ConfigMap", "a", data={"phase": phase}),))
    result = render_with(files, cluster)
    assert [str(wait) for wait in result.waits] == (["waiting for ConfigMap/a to be ready"] if waits else [])
    (asks,) = [each for each in result.documents if each.identity.name == "asks"]
    assert asks.body["data"]["x"] == str(not waits).lower()


def test_an_expression_replaces_the_built_in_rule() -> None:
    """A Job that runs is not ready by the rule of its kind."""
    rule = annotated('"status.active == 1"', "Job", "j", "").replace("apiVersion: v1", "apiVersion: batch/v1")
    reader = manifest("ConfigMap", "reader", "data:\n  x: {{ child('Job', 'j').metadata.name }}\n")
    cluster = FakeClusterView(children=(live("Job", "j", api_version="batch/v1", status={"active": 1}),))
    assert render_with({"a.yaml": rule, "b.yaml.j2": reader}, cluster).waits == ()
    assert render_with({"a.yaml": rule.replace("1", "2"), "b.yaml.j2": reader}, cluster).waits != ()


def test_wait_false_and_ready_when_together() -> None:
    text = annotated(RUNNING).replace("    x: z\n", '    ssa-operator.dev/wait: "false"\n')
    cluster = FakeClusterView(children=(live("ConfigMap", "a", data={"phase": "Pending"}),))
    result = render_with({"a.yaml.j2": text, "b.yaml.j2": READER + "---\n" + ASKS}, cluster)
    assert result.waits == ()
    assert result.documents[-1].body["data"]["x"] == "false"


def test_the_status_template_knows_the_expressions() -> None:
    files = {"a.yaml.j2": annotated(RUNNING), "_status.yaml.j2": "up: {{ ready(child('ConfigMap', 'a')) }}\n"}
    compiled = templates(files)
    for phase in ("Pending", "Running"):
        cluster = FakeClusterView(children=(live("ConfigMap", "a", data={"phase": phase}),))
        rules = render_with(files, cluster).ready_when
        assert [*rules] == [Reference("ConfigMap", "a")]
        assert render_status(compiled, parent(), cluster, rules).fields == {"up": phase == "Running"}


def test_the_status_template_knows_the_expression_of_a_document_that_waits() -> None:
    waiting = annotated(RUNNING, rest="data: {x: \"{{ lookup('v1', 'ConfigMap', 'absent').data.x }}\"}\n")
    compiled = templates({"a.yaml.j2": waiting, "_status.yaml.j2": "up: {{ ready(child('ConfigMap', 'a')) }}\n"})
    cluster = FakeClusterView(children=(live("ConfigMap", "a", data={"phase": "Pending"}),))
    result = render(compiled, parent(), cluster)
    assert [str(wait) for wait in result.waits] == [
        "waiting for ConfigMap n/absent .data.x (there is no such ConfigMap)"
    ]
    assert render_status(compiled, parent(), cluster, result.ready_when).fields == {"up": False}


def test_a_child_that_is_being_deleted_is_not_ready_whatever_its_expression_says() -> None:
    (document,) = rendered({"a.yaml.j2": annotated('"true"')}).documents
    body = live("ConfigMap", "a", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert readiness(body, 0, ready_when=document.ready_when).state is ReadinessState.TERMINATING


def test_a_child_that_is_not_ready_names_its_expression() -> None:
    (document,) = rendered({"a.yaml.j2": annotated(RUNNING)}).documents
    found = readiness(live("ConfigMap", "a", data={"phase": "Failed"}), 0, ready_when=document.ready_when)
    assert found.message == "ready-when data.phase == 'Running' is false"
    found = readiness(live("ConfigMap", "a"), 0, ready_when=document.ready_when)
    assert found.message == "ready-when data.phase == 'Running' is false: data.phase is missing"
