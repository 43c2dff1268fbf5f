"""The annotations `after` and `wait: "false"` in templates."""

from __future__ import annotations

import pytest

from ssa_operator.objects.annotations import PREFIX, Reference
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.render_result import Dependency, Rendered
from tests.rendering.template_files import FakeClusterView, live, manifest, render_with

JOB = Reference("Job", "j")
JOB_FILE = {"job.yaml.j2": manifest("Job", "j", api_version="batch/v1")}
NO_WAIT = f'  annotations: {{{PREFIX}wait: "false"}}\n'
RUNNING = live("Job", "j", api_version="batch/v1", spec={}, status={"active": 1})
EMPTY = FakeClusterView()


def after(value: str, rest: str = "") -> str:
    return manifest("ConfigMap", "c", f"  annotations:\n    {PREFIX}after: {value}\n{rest}")


def names(result: Rendered) -> list[str]:
    return [document.body["metadata"]["name"] for document in result.documents]


def problems(result: Rendered) -> list[str]:
    return [str(problem) for problem in result.problems]


def test_after_is_a_dependency_of_the_document_with_its_line() -> None:
    result = render_with({"a.yaml.j2": after('"Job/{{ spec.n }}, Job/j"'), **JOB_FILE}, EMPTY, {"n": "j"})
    (use,) = result.documents[0].dependencies
    assert use == Dependency(JOB, awaited=True, after=True)
    assert str(use.location) == "echoes.example.com/a.yaml.j2:6"


def test_after_and_a_value_of_the_same_child_are_one_dependency() -> None:
    result = render_with(
        {"a.yaml.j2": after("Job/j", "v: {{ child('Job', 'j').spec.x | default(1) }}\n"), **JOB_FILE}, EMPTY
    )
    assert result.documents[0].dependencies == (Dependency(JOB, awaited=True, after=True),)


def test_a_document_that_waits_for_a_value_has_its_after_dependency() -> None:
    result = render_with(
        {"a.yaml.j2": after("Job/j", "v: {{ lookup('v1', 'Secret', 'x').data }}\n"), **JOB_FILE}, EMPTY
    )
    (wait,) = result.waits
    assert Dependency(JOB, awaited=True, after=True) in wait.dependencies


def test_after_a_manifest_that_no_template_renders_is_a_problem_that_suggests_names() -> None:
    result = render_with(
        {"a.yaml.j2": after("Job/jj"), "b.yaml": after("Secret/zzz").replace(": c\n", ": d\n"), **JOB_FILE}, EMPTY
    )
    assert names(result) == ["j"]
    assert problems(result) == [
        "echoes.example.com/a.yaml.j2:6: no template renders Job/jj; did you mean Job/j?",
        "echoes.example.com/b.yaml:6: no template renders Secret/zzz; rendered are ConfigMap/c, ConfigMap/d, Job/j",
    ]
    assert result.problems[0].of == (Identity("", "ConfigMap", "n", "c"),)


def test_after_one_of_two_manifests_of_that_name_is_a_problem() -> None:
    both = manifest("Secret", "s") + "---\n" + manifest("Secret", "s\n  namespace: far")
    (found,) = problems(render_with({"a.yaml.j2": after("Secret/s"), "b.yaml": both}, EMPTY))
    assert found.endswith("Secret/s could be Secret n/s or Secret far/s; give one of them another name")


def test_after_one_of_two_manifests_of_two_groups_is_a_problem_that_names_the_groups() -> None:
    both = manifest("Service", "s") + "---\n" + manifest("Service", "s").replace(": v1", ": serving.example.com/v1")
    (found,) = problems(render_with({"a.yaml.j2": after("Service/s"), "b.yaml": both}, EMPTY))
    assert found.endswith(
        "Service/s could be Service n/s of the core group or Service n/s of serving.example.com; "
        "give one of them another name"
    )


def test_after_a_manifest_of_a_template_that_failed_is_no_problem_of_its_own() -> None:
    failing = {"job.yaml.j2": manifest("Job", "j", "v: {{ spec.nope }}\n")}
    result = render_with({"a.yaml.j2": after("Job/j"), **failing}, EMPTY)
    assert names(result) == ["c"]
    assert len(result.problems) == 1


def test_after_a_kind_that_is_not_synced_waits() -> None:
    result = render_with({"a.yaml.j2": after("Job/j"), **JOB_FILE}, FakeClusterView(unsynced=frozenset({"Job"})))
    assert [str(wait) for wait in result.waits] == [
        "waiting for Job/j to be known: the watch of Job.batch is not synced"
    ]


def test_after_a_finalize_hook_is_a_problem_but_for_another_hook() -> None:
    hook = manifest("Job", "j", f"  annotations: {{{PREFIX}on: finalize}}\n", "batch/v1")
    other = f"  annotations: {{{PREFIX}on: finalize, {PREFIX}after: Job/j}}\n"
    result = render_with({"a.yaml": after("Job/j"), "job.yaml": hook, "z.yaml": manifest("Job", "z", other)}, EMPTY)
    assert names(result) == ["j", "z"]
    (found,) = problems(result)
    assert found.startswith("echoes.example.com/a.yaml:6: Job/j is applied only when the parent is being deleted; ")


def test_a_file_that_waits_by_way_of_others_for_what_only_it_can_render_is_a_problem() -> None:
    branch = "{% if child('ConfigMap', 'b').data.x %}\n" + manifest("ConfigMap", "a") + "{% endif %}\n"
    reads = manifest("ConfigMap", "b", "x: {{ child('ConfigMap', 'c').data.x }}\n")
    last = manifest("ConfigMap", "c", "x: {{ child('ConfigMap', 'a').data.x }}\n")
    result = render_with({"a.yaml.j2": branch, "b.yaml.j2": reads, "c.yaml.j2": last}, EMPTY)
    (found,) = problems(result)
    assert found.startswith(
        "echoes.example.com/c.yaml.j2:5: no template renders ConfigMap/a but files that wait as a whole, and one"
    )


READS = {"a.yaml.j2": manifest("ConfigMap", "c", "v: {{ child('Job', 'j').status.active }}\n")}
NO_WAIT_JOB = manifest("Job", "j", NO_WAIT, api_version="batch/v1")


@pytest.mark.parametrize("name", ["0.yaml", "0.yaml.j2", "z.yaml.j2"])
def test_a_document_reads_a_no_wait_child_that_is_not_ready(name: str) -> None:
    cluster = FakeClusterView(children=(RUNNING,))
    result = render_with({**READS, name: NO_WAIT_JOB}, cluster)
    assert {document.body.get("v") for document in result.documents} == {1, None}
    assert [str(wait) for wait in render_with({**READS, **JOB_FILE}, cluster).waits] == [
        "waiting for Job/j to be ready"
    ]
    assert [str(wait) for wait in render_with({**READS, name: NO_WAIT_JOB}, EMPTY).waits] == [
        "waiting for Job/j to be ready"
    ]


def test_a_no_wait_child_may_wait_itself() -> None:
    waiting = manifest("Job", "j", NO_WAIT + "v: {{ lookup('v1', 'Secret', 'x').data }}\n", api_version="batch/v1")
    result = render_with({**READS, "job.yaml.j2": waiting}, FakeClusterView(children=(RUNNING,)))
    assert names(result) == ["c"]


def test_ready_reports_the_readiness_of_a_no_wait_child() -> None:
    text = READS["a.yaml.j2"] + "ready: {{ ready(child('Job', 'j')) }}\n"
    result = render_with({"a.yaml.j2": text, "job.yaml": NO_WAIT_JOB}, FakeClusterView(children=(RUNNING,)))
    assert result.documents[0].body["ready"] is False


def test_no_wait_works_for_a_child_whose_manifest_reads_another_no_wait_child() -> None:
    second = "{% if child('Job', 'j').status.active %}\n" + manifest("Job", "k", NO_WAIT, "batch/v1") + "{% endif %}\n"
    third = manifest("ConfigMap", "d", "v: {{ child('Job', 'k').status.active }}\n")
    running = live("Job", "k", api_version="batch/v1", spec={}, status={"active": 2})
    files = {"b.yaml.j2": second, "c.yaml.j2": third, "d.yaml": NO_WAIT_JOB}
    assert names(render_with(files, FakeClusterView(children=(RUNNING, running)))) == ["k", "d", "j"]
