"""`live`: a parent's own child as it is now, which no document waits for."""

from __future__ import annotations

import pytest

from ssa_operator.objects.annotations import Reference
from ssa_operator.objects.dependency_graph import graph_of
from tests.rendering.template_files import FakeClusterView, live, manifest, render_with, status

SELF = manifest("ConfigMap", "a", "data: {{ live('ConfigMap', 'a').data | default({'x': '1'}) }}\n")


def scaled(expression: str) -> str:
    return manifest("ConfigMap", "a", f'data:\n  replicas: "{{{{ {expression} }}}}"\n')


KEPT = "[live('Deployment', 'd').spec.replicas | default(0), spec.n] | max"
PENDING = live("Deployment", "d", api_version="apps/v1", spec={"replicas": 5}, status={})
GOING = live("Deployment", "d", api_version="apps/v1", spec={"replicas": 4}, metadata={"deletionTimestamp": "x"})


@pytest.mark.parametrize(
    ("children", "replicas"), [((), "3"), ((PENDING,), "5"), ((GOING,), "4")], ids=["absent", "not ready", "deleted"]
)
def test_a_child_is_read_as_it_is_and_nothing_waits(children: tuple[dict[str, object], ...], replicas: str) -> None:
    result = render_with({"a.yaml.j2": scaled(KEPT)}, FakeClusterView(children=children), {"n": 3})
    assert (result.waits, result.problems) == ((), ())
    assert result.documents[0].body["data"] == {"replicas": replicas}


def test_a_child_that_no_template_renders_is_none() -> None:
    text = scaled("live('Job', 'gone') is none and not live('Job', 'gone') and not ready(live('Job', 'gone'))")
    result = render_with({"a.yaml.j2": text}, FakeClusterView())
    assert result.problems == ()
    assert result.documents[0].body["data"] == {"replicas": "true"}


def test_a_document_may_read_its_own_live_object_without_a_cycle() -> None:
    cluster = FakeClusterView(children=(live("ConfigMap", "a", data={"y": "2"}),))
    result = render_with({"a.yaml.j2": SELF}, cluster)
    assert result.documents[0].body["data"] == {"y": "2"}
    assert graph_of(result, lambda identity: identity).cycles() == ()
    assert Reference("ConfigMap", "a") in result.queries
    assert Reference("ConfigMap", "a") in result.read_unready
    assert render_with({"a.yaml.j2": SELF}, FakeClusterView()).documents[0].body["data"] == {"x": "1"}


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (
            "live('Deployment', 'e').spec.replicas",
            "there is no live Deployment/e, so it has no spec.replicas; live never",
        ),
        ("live('Deployment', 'd').spec.paused", "Deployment/d has no spec.paused; live never waits"),
        ("live('Deployment', 'd').spec.paused ~ 'x'", "Deployment/d has no spec.paused"),
        ("'x' if live('Deployment', 'd').status.replicas else 'y'", "Deployment/d has no status.replicas"),
        ("live('Deployment', '')", "live: name must be a string"),
        ("live(3, 'd')", "live: kind must be a string"),
    ],
)
def test_a_missing_field_is_an_error_at_its_line(expression: str, message: str) -> None:
    result = render_with({"a.yaml.j2": scaled(expression)}, FakeClusterView(children=(PENDING,)))
    assert result.waits == ()
    (problem,) = result.problems
    assert str(problem).startswith(f"echoes.example.com/a.yaml.j2:6: {message}")


def test_a_child_of_a_kind_that_is_not_synced_is_not_taken_for_an_absent_one() -> None:
    files = {"a.yaml.j2": scaled(KEPT), "d.yaml": manifest("Deployment", "d", api_version="apps/v1")}
    cluster = FakeClusterView(unsynced=frozenset({"Deployment"}))
    result = render_with(files, cluster, {"n": 3})
    assert [str(wait) for wait in result.waits] == [
        "waiting for Deployment/d to be known: the watch of Deployment.apps is not synced"
    ]
    files["a.yaml.j2"] = scaled("live('Deployment', 'd').spec.replicas")
    result = render_with(files, cluster)
    assert (len(result.waits), result.problems) == (1, ())


def test_child_and_live_of_one_object_wait_as_child_does() -> None:
    text = scaled("live('Deployment', 'd').spec.replicas") + "  name: {{ child('Deployment', 'd').metadata.name }}\n"
    files = {"a.yaml.j2": text, "d.yaml": manifest("Deployment", "d", api_version="apps/v1")}
    result = render_with(files, FakeClusterView(children=(PENDING,)))
    assert [str(wait) for wait in result.waits] == ["waiting for Deployment/d to be ready"]


def test_the_content_of_a_secret_stays_out_of_the_status() -> None:
    secret = live("Secret", "s", data={"token": "aHVudGVyMg=="})
    found = status(
        "a: {{ live('Secret', 's').data.token | b64decode }}\nb: {{ live('Secret', 's').metadata.name }}\n", secret
    )
    assert found.fields == {"b": "s"}
    assert found.left_out == ("a",)
    read = render_with({"a.yaml.j2": scaled("live('Secret', 's').data.token")}, FakeClusterView(children=(secret,)))
    assert read.secrets == (secret,)


def test_in_a_status_a_missing_field_leaves_its_key_out() -> None:
    found = status(
        "n: {{ live('Deployment', 'd').spec.paused }}\nm: {{ live('Deployment', 'd').spec.replicas }}\n", PENDING
    )
    assert (found.fields, found.problems) == ({"m": 5}, ())
