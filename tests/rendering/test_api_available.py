"""`api_available` and `kubernetes_version`: what the cluster serves."""

from __future__ import annotations

import pytest

from ssa_operator.objects.built_in_kinds import ApiKind
from ssa_operator.objects.cluster_view import Unknown
from ssa_operator.objects.identity import GroupKind
from ssa_operator.rendering.folder.loaded_folders import Folder
from ssa_operator.rendering.possible_manifests import template_contents
from ssa_operator.rendering.render import render_status
from tests.rendering.template_files import FakeClusterView, manifest, parent, render_with, templates

MONITOR = ApiKind("monitoring.coreos.com/v1", "ServiceMonitor")
WITH_MONITOR = FakeClusterView(custom_kinds=frozenset({MONITOR}), kubernetes_version="1.31")


def shown(expression: str, cluster: FakeClusterView) -> tuple[str, ...]:
    """The value of an expression, and the problems of its render."""
    text = manifest("ConfigMap", "a", f'data:\n  x: "{{{{ {expression} }}}}"\n')
    result = render_with({"a.yaml.j2": text}, cluster)
    return (*(each.body["data"]["x"] for each in result.documents), *map(str, result.problems))


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("api_available('networking.k8s.io/v1', 'Ingress')", "true"),
        ("api_available('v1', 'Pod')", "true"),
        ("api_available('v2', 'Pod')", "false"),
        ("api_available('networking.k8s.io/v1beta1', 'Ingress')", "false"),
        ("api_available('monitoring.coreos.com/v1', 'ServiceMonitor')", "true"),
        ("api_available('monitoring.coreos.com/v1', 'Other')", "false"),
        ("api_available('{{ x }}', '../../secrets')", "false"),
        ("kubernetes_version", "1.31"),
        ("(kubernetes_version | string).split('.')[1] | int >= 29", "true"),
    ],
)
def test_what_the_cluster_serves(expression: str, value: str) -> None:
    assert shown(expression, WITH_MONITOR) == (value,)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("api_available('', 'Pod')", "api_available: apiVersion must be a string, and this is empty"),
        ("api_available('v1', 3)", "api_available: kind must be a string, and this is a number"),
        ("api_available('v1')", "api_available"),
        ("kubernetes_versoin", "kubernetes_versoin is not defined; did you mean kubernetes_version?"),
    ],
)
def test_a_wrong_call_is_an_error_with_its_line(expression: str, message: str) -> None:
    (found,) = shown(expression, WITH_MONITOR)
    assert found.startswith("echoes.example.com/a.yaml.j2:6: ")
    assert message in found


def test_the_render_names_the_kinds_and_their_answers_also_in_macros_and_the_status() -> None:
    macros = "{% macro m() %}{{ api_available('v1', 'Pod') }} {{ kubernetes_version }}{% endmacro %}"
    text = "{% import '_macros.yaml.j2' as m %}" + manifest("ConfigMap", "a", "data:\n  x: '{{ m.m() }}'\n")
    files = {"a.yaml.j2": text, "_macros.yaml.j2": macros}
    found = render_with(files, WITH_MONITOR)
    assert found.documents[0].body["data"] == {"x": "true 1.31"}
    assert found.apis == {ApiKind("v1", "Pod"): True}
    status = templates(
        {"a.yaml": manifest("ConfigMap", "a"), "_status.yaml.j2": "x: {{ api_available('v9', 'Pod') }}\n"}
    )
    rendered = render_status(status, parent(), WITH_MONITOR)
    assert (rendered.fields, rendered.apis) == ({"x": False}, {ApiKind("v9", "Pod"): False})


UNKNOWN = FakeClusterView(unknown_kinds=frozenset({MONITOR}))
ASKED = "api_available('monitoring.coreos.com/v1', 'ServiceMonitor')"
WHY = "waiting for ServiceMonitor in monitoring.coreos.com/v1 to be known: its API is in an upgrade"


@pytest.mark.parametrize(
    "use",
    [
        "{{ A }}",
        "{{ not A }}",
        "{{ A | default(false) }}",
        "{{ A is defined }}",
        "{{ 'yes' if A else 'no' }}",
        "{% if A or true %}x{% endif %}",
        "{% set there = A %}{{ there | string }}",
        "{{ [A] | first }}",
    ],
)
def test_what_depends_on_an_unknown_answer_waits_and_other_files_do_not(use: str) -> None:
    files = {
        "a.yaml.j2": manifest("ConfigMap", "a", f'data:\n  x: "{use.replace("A", ASKED)}"\n'),
        "b.yaml.j2": manifest("ConfigMap", "b"),
    }
    found = render_with(files, UNKNOWN)
    assert [each.identity.name for each in found.documents] == ["b"]
    assert ([str(wait) for wait in found.waits], found.problems) == ([WHY], ())
    assert found.apis == {MONITOR: Unknown("its API is in an upgrade")}
    assert found.queries == ()
    assert not found.complete


def test_a_status_leaves_out_the_field_of_an_unknown_answer() -> None:
    status = templates(
        {
            "a.yaml": manifest("ConfigMap", "a"),
            "_status.yaml.j2": f"x: {{{{ {ASKED} }}}}\ny: 1\nz: {{{{ 2 if {ASKED} }}}}\n",
        }
    )
    rendered = render_status(status, parent(), UNKNOWN)
    assert (rendered.fields, rendered.problems) == ({"y": 1, "z": ""}, ())


def test_both_outcomes_count_for_permissions_and_graphs() -> None:
    text = (
        "{% if api_available('monitoring.coreos.com/v1', 'ServiceMonitor') %}\n"
        + manifest("ServiceMonitor", "a", api_version="monitoring.coreos.com/v1")
        + "{% else %}\n"
        + manifest("ConfigMap", "a")
        + "{% endif %}\n"
    )
    folder = Folder(resource="echoes", group="example.com", files={}, templates=templates({"a.yaml.j2": text}))
    contents = template_contents(folder)
    kinds = {each.group_kind for each in contents.manifests}
    assert kinds == {GroupKind("monitoring.coreos.com", "ServiceMonitor"), GroupKind("", "ConfigMap")}
    assert contents.unknown == ()
